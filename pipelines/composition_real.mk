# Paper 1, published weights on a laptop: SmolLM2-135M-Instruct as the base, and under a context of worked examples as a math
# and a code expert, on the real questions of the four benchmarks. They come from no package: REAL_DATA names their
# directory (conf/benchmark/ says which files), or is "hub".

ifneq ($(REAL_DATA),)
composition_real_arms := base math code composed mixture
$(foreach a,$(composition_real_arms),$(call job,composition/generate-real-$(a),composition_generate,models/smollm2,protocol/controlled=real_weights 'composition.chosen=[$(a)]' composition.evaluation.limit=8 composition.evaluation.data.directory=$(if $(filter hub,$(REAL_DATA)),null,$(abspath $(REAL_DATA)))))
$(foreach a,$(composition_real_arms),$(call job,composition/score-real-$(a),composition_score,composition/generate-real-$(a),))
$(call job,composition/real-summary,composition_summary,$(filter composition/score-real-%,$(JOBS)),)
endif
