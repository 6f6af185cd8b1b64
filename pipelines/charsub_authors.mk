# Paper 1, toy, the authors' protocol. The seeds of a group are trained in one job, all their models as one stack: first
# every model from scratch, then the experts again from their seed's base; then they are evaluated, and summarized over
# all seeds. Groups are written 0.1.2; the largest comes first, so that two cores end together.

CHARSUB_GROUPS_smoke := 0.1
CHARSUB_GROUPS_laptop := 0.1.2 3.4
CHARSUB_GROUPS_paper := 0.1.2.3.4 5.6.7.8.9 10.11.12.13.14 15.16.17.18.19
CHARSUB_GROUPS := $(CHARSUB_GROUPS_$(PROFILE))

charsub_comma := ,
charsub_seeds = charsub.authors.seeds=[$(subst .,$(charsub_comma),$(1))]
charsub_name = charsub/authors-$(1)-seeds-$(subst .,-,$(2))

$(foreach g,$(CHARSUB_GROUPS),$(call job,$(call charsub_name,scratch,$(g)),charsub_train,,$(call charsub_seeds,$(g)) charsub.authors.start=scratch))
$(foreach g,$(CHARSUB_GROUPS),$(call job,$(call charsub_name,finetuned,$(g)),charsub_train,$(call charsub_name,scratch,$(g)),$(call charsub_seeds,$(g)) charsub.authors.start=finetuned))
$(foreach g,$(CHARSUB_GROUPS),$(call job,$(call charsub_name,evaluate,$(g)),charsub_evaluate,$(call charsub_name,scratch,$(g)) $(call charsub_name,finetuned,$(g)),$(call charsub_seeds,$(g))))
$(call job,charsub/authors-summary,charsub_summary,$(filter charsub/authors-%,$(JOBS)),)
