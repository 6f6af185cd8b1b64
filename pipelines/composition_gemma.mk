# Paper 1, language models, the paper's own: Gemma 2 2B with MergeBench's experts, in profile paper only. Needs a GPU, the
# hub, and a commit for every model in conf/composition/base.yaml; the preflight says what else.

ifeq ($(PROFILE),paper)
comma := ,
empty :=
composition_gemma_authors := base math code composed
composition_gemma_controlled := $(composition_gemma_authors) mixture mean-log nucleus adaptive \
  linear task-arithmetic-0.3 task-arithmetic-0.5 task-arithmetic-1.0 ties dare dare-ties \
  $(foreach k,3 4 5,gemma-k$(k) $(foreach stop,oracle mean clip,gemma-k$(k)-$(stop))) gemma-k5-task-arithmetic-0.5
composition_gemma_models := 'job.config.models=$${composition.gemma}'
composition_gemma_list = [$(subst $(empty) $(empty),$(comma),$(strip $(composition_gemma_$(1))))]

$(call job,composition/gemma-preflight,composition_preflight,,$(foreach p,controlled authors,'job.config.runs.$(p)=$(call composition_gemma_list,$(p))'))
$(call job,composition/gemma-merge,composition_merge,composition/gemma-preflight,composition/merge=gemma $(composition_gemma_models))
$(foreach p,controlled authors,$(foreach a,$(composition_gemma_$(p)),$(call job,composition/generate-gemma-$(p)-$(a),composition_generate,composition/gemma-preflight composition/gemma-merge,'composition.chosen=[$(a)]' 'job.config.protocol=$${protocol.$(p)}' $(composition_gemma_models))))
$(foreach p,controlled authors,$(foreach a,$(composition_gemma_$(p)),$(call job,composition/score-gemma-$(p)-$(a),composition_score,composition/generate-gemma-$(p)-$(a),)))
$(call job,composition/gemma-summary,composition_summary,$(filter composition/score-gemma-%,$(JOBS)),)
endif
