# Paper 1, character substitution as `x SEP y EOS`: per seed train every model, run every sweep; then all seeds together.

CHARSUB_AUTOREGRESSIVE_SEEDS_smoke := 0 1
CHARSUB_AUTOREGRESSIVE_SEEDS_laptop := 0 1 2 3 4
CHARSUB_AUTOREGRESSIVE_SEEDS_paper := 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
CHARSUB_AUTOREGRESSIVE_SEEDS := $(CHARSUB_AUTOREGRESSIVE_SEEDS_$(PROFILE))

$(foreach s,$(CHARSUB_AUTOREGRESSIVE_SEEDS),$(call job,charsub/autoregressive-train-seed$(s),charsub_autoregressive_train,,seed=$(s)))
$(foreach s,$(CHARSUB_AUTOREGRESSIVE_SEEDS),$(call job,charsub/autoregressive-evaluate-seed$(s),charsub_autoregressive_evaluate,charsub/autoregressive-train-seed$(s),seed=$(s)))
$(call job,charsub/autoregressive-summary,charsub_autoregressive_summary,$(filter charsub/autoregressive-train-% charsub/autoregressive-evaluate-%,$(JOBS)),)
