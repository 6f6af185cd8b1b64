# Paper 2, synthetic, on the trained two-layer models: train again with the first layer's attention held, then measure
# progress, transitions, causes and shifts.

COPYING_HELD_SEEDS_smoke := 0
COPYING_HELD_SEEDS_laptop := 0 1 2
COPYING_HELD_SEEDS_paper := $(COPYING_SEEDS_paper)
COPYING_HELD_SEEDS := $(COPYING_HELD_SEEDS_$(PROFILE))
COPYING_FORBID_SEEDS_smoke := 0
COPYING_FORBID_SEEDS_laptop := 0 1
COPYING_FORBID_SEEDS_paper := $(COPYING_SEEDS_paper)
COPYING_FORBID_SEEDS := $(COPYING_FORBID_SEEDS_$(PROFILE))

$(foreach s,$(COPYING_FORBID_SEEDS),$(call job,copying/clamp-forbid-seed$(s),copying_clamp_train,,seed=$(s) copying.causal.clamp.mode=forbid))
$(foreach s,$(COPYING_HELD_SEEDS),$(call job,copying/clamp-previous-seed$(s),copying_clamp_train,,seed=$(s) copying.causal.clamp.mode=previous))

COPYING_TWO_LAYER := $(filter copying/train-two-layer-%,$(JOBS))

$(call job,copying/causal,copying_causal,$(COPYING_TWO_LAYER),)
$(call job,copying/progress,copying_measure,$(COPYING_TWO_LAYER) $(filter copying/train-pool%,$(JOBS)),)
$(call job,copying/shift,copying_shift,$(COPYING_TWO_LAYER),)
$(call job,copying/transition,copying_transition,copying/progress $(COPYING_TWO_LAYER) $(filter copying/clamp-%,$(JOBS)),)
