# compgen: `make reproduce-all` runs everything that is not up to date and writes the report; `make help` lists the rest.
# The DAG stands in pipelines/*.mk, one job a line; what a job is stands in conf/job/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PROFILE ?= laptop# smoke, laptop or paper
RUN ?= $(PROFILE)# the run tree below outputs/
OVERRIDES ?=# Hydra overrides for every job of the run; need a RUN of their own
MODEL ?=# make heads: a checkpoint directory or hub id to look at
MODEL_REVISION ?=# the commit of a hub id
REAL_DATA ?=# a directory with the benchmarks' files, or "hub": adds published weights on the real questions
OUTPUTS ?= outputs
PYTHON ?= python3
VENV ?= .venv

COMPGEN := $(VENV)/bin/python -m compgen
RUN_DIRECTORY := $(OUTPUTS)/$(RUN)
STATE := $(RUN_DIRECTORY)/.make

# One thread a process: two jobs that start two threads each on two cores slow each other down a thousandfold.
export OMP_NUM_THREADS ?= 1
export MPLBACKEND := Agg
export TOKENIZERS_PARALLELISM := false
# Progress bars of packages would fill the jobs' logs, which tell their own progress.
export HF_HUB_DISABLE_PROGRESS_BARS := 1
export HF_DATASETS_DISABLE_PROGRESS_BARS := 1
export WANDB_MODE ?= offline

ifeq ($(filter $(PROFILE),smoke laptop paper),)
$(error PROFILE=$(PROFILE): choose smoke, laptop or paper)
endif
ifneq ($(shell [[ '$(RUN)' =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$$ ]] && echo fine),fine)
$(error RUN=$(RUN): use letters, digits, dots, dashes and underscores, starting with a letter or digit)
endif
ifneq ($(strip $(OVERRIDES)),)
ifeq ($(RUN),$(PROFILE))
$(error OVERRIDES=$(OVERRIDES): add RUN=<name>, so that the reproducible tree $(RUN_DIRECTORY) is left alone)
endif
endif

# ---- the DAG -----------------------------------------------------------------------------------------------------
define newline


endef
# $(call job,EXPERIMENT/NAME,KIND,INPUT JOBS,HYDRA OVERRIDES): one job. Dollars survive, for Hydra's interpolations.
job = $(eval JOBS += $(1))$(eval $(STATE)/$(1).done: $(patsubst %,$(STATE)/%.done,$(3)))$(eval \
  DAG_$(1) = $(1)|$(2)|$(3)|profile=$(PROFILE) $(subst $$,$$$$,$(4) $(OVERRIDES)))

JOBS :=
# Long jobs first, so that two at a time end together; a summary comes after the jobs that it gathers.
include $(addprefix pipelines/,models.mk composition.mk heads.mk composition_real.mk composition_gemma.mk copying.mk copying_causal.mk copying_summary.mk \
  charsub_autoregressive.mk charsub_authors.mk theory.mk)
EXPERIMENTS := $(sort $(foreach name,$(JOBS),$(firstword $(subst /, ,$(name)))))
STAMPS := $(patsubst %,$(STATE)/%.done,$(JOBS))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  variables: PROFILE=$(PROFILE) RUN=$(RUN) OVERRIDES='$(OVERRIDES)' (experiments: $(EXPERIMENTS))"

.PHONY: reproduce-all
reproduce-all: stamps ## run every experiment that is not up to date, then write the report (add -j2 for two at a time)
	@+$(call run_jobs,%)

.PHONY: theory charsub composition copying heads
theory: stamps ## paper 1: the exact theory on small distributions
	@+$(call run_jobs,theory/%)
charsub: stamps ## paper 1: character substitution, both protocols
	@+$(call run_jobs,charsub/%)
composition: stamps ## paper 1: composing language models on four benchmarks
	@+$(call run_jobs,composition/%)
copying: stamps ## paper 2: the two-layer transformer that learns to copy
	@+$(call run_jobs,copying/%)
heads: stamps ## paper 2: induction heads of language models (MODEL=path or hub id looks at your own)
	@+$(call run_jobs,heads/%)

# Independent jobs go on when one fails, and the report is written whatever happened; the status is the jobs'.
define run_jobs
failed=0; $(MAKE) --keep-going --output-sync=target wanted-jobs WANTED='$(1)' || failed=$$?; \
$(COMPGEN) report $(RUN_DIRECTORY) && exit $$failed
endef

.PHONY: wanted-jobs
wanted-jobs: $(patsubst %,$(STATE)/%.done,$(filter $(WANTED),$(JOBS)))
	@:

$(STAMPS): $(STATE)/%.done:
	@$(COMPGEN) make $(RUN_DIRECTORY) $*
	@mkdir -p $(@D) && touch $@

.PHONY: dag-file
dag-file: $(VENV)/installed
	$(if $(shell mkdir -p $(STATE) && echo made),,$(error $(STATE): cannot be created; choose another OUTPUTS or RUN))
	$(file >$(STATE)/dag.writing,$(foreach name,$(JOBS),$(DAG_$(name))$(newline)))
	@mv $(STATE)/dag.writing $(STATE)/dag.txt

.PHONY: stamps
stamps: dag-file
	@$(COMPGEN) plan $(RUN_DIRECTORY) --stamps

.PHONY: plan
plan: dag-file ## say what would run, and why
	@$(COMPGEN) plan $(RUN_DIRECTORY)

.PHONY: status
status: dag-file ## say how every job stands and how long it took
	@$(COMPGEN) status $(RUN_DIRECTORY)

.PHONY: dag
dag: dag-file ## draw the DAG: dag.svg, and dag.mmd for Mermaid
	@$(COMPGEN) dag $(RUN_DIRECTORY)

.PHONY: report
report: dag-file ## write the report from what is finished
	@$(COMPGEN) report $(RUN_DIRECTORY)

.PHONY: sync
sync: dag-file ## send the run tree to W&B, in order, once (needs WANDB_API_KEY)
	@$(COMPGEN) sync $(RUN_DIRECTORY)

# ---- the environment and the checks ------------------------------------------------------------------------------
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info[:2] < (3, 14) or sys.exit("error: PYTHON=$(PYTHON) is %d.%d: compgen needs Python 3.11 to 3.13" % sys.version_info[:2])'
	@if command -v uv > /dev/null; then \
	  test -x $(VENV)/bin/python || uv venv --quiet --seed --python $(PYTHON) $(VENV); \
	  UV_FIND_LINKS="$${UV_FIND_LINKS:-$${PIP_FIND_LINKS:-}}" uv pip install --python $(VENV)/bin/python -c constraints.txt -e '.[dev]'; \
	else \
	  test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV); \
	  $(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]'; \
	fi
	@touch $@

.PHONY: install
install: $(VENV)/installed ## create .venv and install compgen with pinned packages

.PHONY: lint
lint: $(VENV)/installed ## ruff, and mypy in strict mode
	@$(VENV)/bin/ruff check src tests
	@$(VENV)/bin/ruff format --check src tests
	@$(VENV)/bin/mypy

.PHONY: test
test: lint ## lint, type check, unit tests, and the whole DAG at smoke size
	@$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m "not slow" tests --ignore tests/end_to_end
	@$(VENV)/bin/python -m pytest tests/end_to_end

.PHONY: test-slow
test-slow: $(VENV)/installed ## the tests left out of make test: every real solution in the sandbox (10 minutes)
	@$(VENV)/bin/python -m pytest -m slow tests --ignore tests/end_to_end
