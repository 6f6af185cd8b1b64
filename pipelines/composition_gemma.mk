# Paper 1, language models, the paper's own: Gemma 2 2B with MergeBench's experts, in profile paper only. Needs a GPU, the
# hub, and a commit for every model in conf/composition/base.yaml.

ifeq ($(PROFILE),paper)
composition_gemma_authors := base,math,code,composed
composition_gemma_controlled := base,math,code,composed,mixture,mean-log,nucleus,adaptive
$(foreach p,controlled authors,$(call job,composition/generate-gemma-$(p),composition_generate,,'composition.chosen=[$(composition_gemma_$(p))]' 'job.config.protocol=$${protocol.$(p)}' 'job.config.models=$${composition.gemma}'))
$(foreach p,controlled authors,$(call job,composition/score-gemma-$(p),composition_score,composition/generate-gemma-$(p),))
$(call job,composition/gemma-summary,composition_summary,$(filter composition/score-gemma-%,$(JOBS)),)
endif
