# Paper 2, language models: score the heads of a model, remove them, look for the bridge. MODEL=<directory or hub id> (with
# MODEL_REVISION=<commit> for a hub id) looks at your own model instead.

HEADS_MODELS_smoke := tiny
HEADS_MODELS_laptop := smollm2
HEADS_MODELS_paper := smollm2 gpt2 gpt2-xl llama2-7b llama3-8b mistral-7b falcon-7b olmo-7b pythia-7b gemma-7b gemma2-9b
HEADS_MODELS := $(if $(MODEL),own,$(HEADS_MODELS_$(PROFILE)))
heads_input_tiny := composition/base-seed0
heads_input_smollm2 := models/smollm2
heads_model_own := heads.model.source=$(MODEL) $(if $(MODEL_REVISION),heads.model.revision=$(MODEL_REVISION))
$(foreach m,$(filter-out tiny smollm2 own,$(HEADS_MODELS)),$(eval heads_model_$(m) := 'heads.model=$$$${heads.models.$(m)}'))

# Two jobs of about equal length, so that two cores share a model's removal; one where nothing is worth sharing.
HEADS_GROUPS_smoke := all
HEADS_GROUPS_laptop := copying choosing
HEADS_GROUPS_paper := $(HEADS_GROUPS_laptop) reasoning
HEADS_GROUPS := $(HEADS_GROUPS_$(PROFILE))
heads_tasks_copying := exact-copying,fuzzy-lower,fuzzy-upper,ioi-names,ioi-symbols
heads_tasks_choosing := labels-original,labels-permuted,labels-symbols
heads_tasks_reasoning := chain-of-thought,symbolized-names,symbolized-symbols
heads_tasks_all := $(heads_tasks_copying),$(heads_tasks_choosing)

$(foreach m,$(HEADS_MODELS),$(call job,heads/$(m)-scores,heads_scores,$(heads_input_$(m)),$(heads_model_$(m))))
$(foreach m,$(HEADS_MODELS),$(foreach t,$(HEADS_GROUPS),$(call job,heads/$(m)-removal-$(t),heads_removal,$(heads_input_$(m)) heads/$(m)-scores,'heads.removal.chosen=[$(heads_tasks_$(t))]' $(heads_model_$(m)))))
$(foreach m,$(HEADS_MODELS),$(call job,heads/$(m)-bridge,heads_bridge,$(heads_input_$(m)) heads/$(m)-scores,$(heads_model_$(m))))
$(call job,heads/summary,heads_summary,$(filter heads/%,$(JOBS)),heads.summary.main=$(filter tiny smollm2,$(HEADS_MODELS)))
