# Paper 1, language models, laptop: make the text, train a base and its experts, merge them; let every arm answer, judge
# the answers, and gather all seeds. What an arm is stands in conf/composition/base.yaml.

COMPOSITION_SEEDS_smoke := 0
COMPOSITION_SEEDS_laptop := 0 1
COMPOSITION_SEEDS_paper := 0 1 2 3 4
COMPOSITION_SEEDS := $(COMPOSITION_SEEDS_$(PROFILE))
COMPOSITION_SKILLS := math code sequences records

# Groups of arms share a job, because loading the packages costs more than most answers.
COMPOSITION_GROUPS_smoke := sampled
COMPOSITION_GROUPS_laptop := many remedies stops outputs merged single skills
COMPOSITION_GROUPS_paper := $(COMPOSITION_GROUPS_laptop)
COMPOSITION_GROUPS := $(COMPOSITION_GROUPS_$(PROFILE))
composition_arms_single := base,math,code,sequences,records
composition_arms_outputs := composed,mixture,mean-log,nucleus,adaptive
composition_arms_merged := linear,task-arithmetic-0.3,task-arithmetic-0.5,task-arithmetic-1.0,ties,dare,dare-ties,k4-task-arithmetic-0.5,k4-task-arithmetic-1.0
composition_arms_stops := k2-oracle,k2-base,k2-mean,k2-max,k2-gate
composition_arms_many := k3,k3-oracle,k3-mean,k3-clip,k4,k4-oracle,k4-base,k4-mean,k4-max,k4-gate
composition_arms_skills := k3,k4
composition_arms_sampled := base,math,code,composed,mixture,task-arithmetic-1.0,k3,k4,k4-oracle,k4-mean,k4-clip,k4-kl
composition_arms_authors := base,math,code,composed
composition_arms_remedies := k4-mask,k4-kl,k4-clip,k4-largest,k4-mean-mask,k4-mean-kl,k4-mean-clip,k4-mean-largest,k4-adaptive
# The skills of the third and the fourth expert are asked of single models, and of plain compositions of three and four.
composition_extra_single := 'composition.evaluation.benchmarks=[gsm8k,math,humaneval_plus,mbpp_plus,sequences,records]'
composition_extra_skills := 'composition.evaluation.benchmarks=[sequences,records]'

composition_models = composition/base-seed$(1) $(foreach k,$(COMPOSITION_SKILLS),composition/expert-$(k)-seed$(1))

$(call job,composition/corpus,composition_corpus,,)
$(foreach s,$(COMPOSITION_SEEDS),$(call job,composition/base-seed$(s),composition_pretrain,composition/corpus,seed=$(s)))
$(foreach s,$(COMPOSITION_SEEDS),$(foreach k,$(COMPOSITION_SKILLS),$(call job,composition/expert-$(k)-seed$(s),composition_finetune,composition/corpus composition/base-seed$(s),seed=$(s) composition.training.skill=$(k))))
$(foreach s,$(COMPOSITION_SEEDS),$(call job,composition/merge-seed$(s),composition_merge,$(call composition_models,$(s)),seed=$(s)))
$(foreach s,$(COMPOSITION_SEEDS),$(foreach g,$(COMPOSITION_GROUPS),$(call job,composition/generate-$(g)-seed$(s),composition_generate,composition/corpus $(call composition_models,$(s)) composition/merge-seed$(s),seed=$(s) 'composition.chosen=[$(composition_arms_$(g))]' $(composition_extra_$(g)))))
$(foreach s,$(COMPOSITION_SEEDS),$(call job,composition/generate-authors-seed$(s),composition_generate,composition/corpus $(call composition_models,$(s)),seed=$(s) 'composition.chosen=[$(composition_arms_authors)]' 'job.config.protocol=$${protocol.authors}'))
$(foreach s,$(COMPOSITION_SEEDS),$(foreach g,$(COMPOSITION_GROUPS) authors,$(call job,composition/score-$(g)-seed$(s),composition_score,composition/corpus composition/generate-$(g)-seed$(s),)))
COMPOSITION_DIAGNOSED_smoke := sampled
COMPOSITION_DIAGNOSED_laptop := outputs many
COMPOSITION_DIAGNOSED_paper := $(COMPOSITION_DIAGNOSED_laptop)
$(foreach s,$(COMPOSITION_SEEDS),$(call job,composition/diagnose-seed$(s),composition_diagnose,composition/corpus $(call composition_models,$(s)) $(foreach g,$(COMPOSITION_DIAGNOSED_$(PROFILE)),composition/generate-$(g)-seed$(s)),seed=$(s)))
$(call job,composition/summary,composition_summary,$(filter composition/score-% composition/base-% composition/expert-% composition/merge-% composition/diagnose-%,$(JOBS)),)
