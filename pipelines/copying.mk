# Paper 2, synthetic: train the models of the copying study, then summarize. The measurements on trained models and
# their jobs stand in copying_causal.mk. The longest jobs come first, so that two cores end together.

COPYING_SEEDS_smoke := 0 1
COPYING_SEEDS_laptop := 0 1 2 3 4 5 6 7
COPYING_SEEDS_paper := 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
COPYING_SEEDS := $(COPYING_SEEDS_$(PROFILE))

COPYING_POOLS_smoke := 100 740 750 1000
COPYING_POOLS_laptop := 100 740 750 1000
COPYING_POOLS_paper := $(shell seq 20 20 1000) 750
COPYING_POOLS := $(COPYING_POOLS_$(PROFILE))

# Only the first seed goes to the paper's last step; the others end at copying.train.steps.
COPYING_LONG := 'copying.train.steps=$${copying.long_steps}'
COPYING_VARIANT := 'copying.train.steps=$${copying.variant_steps}'
COPYING_DEEP := 'copying.train.steps=$${copying.deep_steps}'

$(call job,copying/train-two-layer-seed0,copying_train,,seed=0 $(COPYING_LONG))
$(call job,copying/train-eight-layer-seed0,copying_train,,seed=0 copying.model.layers=8 copying.model.heads=8 $(COPYING_DEEP))
$(call job,copying/train-four-layer-seed0,copying_train,,seed=0 copying.model.layers=4 copying.model.heads=4 $(COPYING_VARIANT))
$(call job,copying/train-mlp-seed0,copying_train,,seed=0 copying.model.feedforward=256 $(COPYING_VARIANT))
$(foreach s,$(filter-out 0,$(COPYING_SEEDS)),$(call job,copying/train-two-layer-seed$(s),copying_train,,seed=$(s)))
$(foreach p,$(COPYING_POOLS),$(call job,copying/train-pool$(p)-seed0,copying_train,,seed=0 copying.data.pool_size=$(p) $(COPYING_VARIANT)))
$(call job,copying/train-vocabulary128-seed0,copying_train,,seed=0 copying.data.vocabulary=128 $(COPYING_VARIANT))
$(call job,copying/train-rotary100-seed0,copying_train,,seed=0 copying.model.rotary_base=100 $(COPYING_VARIANT))
$(call job,copying/train-two-level-seed0,copying_train,,seed=0 copying.data.law=two_level $(COPYING_VARIANT))
$(call job,copying/train-uniform-seed0,copying_train,,seed=0 copying.data.law=uniform $(COPYING_VARIANT))
$(call job,copying/train-one-layer-seed0,copying_train,,seed=0 copying.model.layers=1)

COPYING_TRAIN_JOBS := $(filter copying/train-%,$(JOBS))
