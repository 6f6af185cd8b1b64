# Paper 2, synthetic: what all jobs of the copying study say together.

$(call job,copying/summary,copying_summary,$(filter copying/%,$(JOBS)),)
