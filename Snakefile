# headspec: how attention heads specialise under multi-task learning, from texts to figures.
# A study is one config file: config.yaml, or another by --configfile. See README.md.

# --configfile replaces config.yaml; Snakemake by itself would merge the two studies
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/importance.smk"
include: "workflow/rules/prune.smk"
include: "workflow/rules/dissociation.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/similarity.smk"
include: "workflow/rules/correlation.smk"
include: "workflow/rules/transfer.smk"
include: "workflow/rules/iat.smk"
include: "workflow/rules/iat_figures.smk"
include: "workflow/rules/submission.smk"


if STUDY.brain:

    include: "workflow/rules/brain.smk"


report: "workflow/report/workflow.rst"


onstart:
    lock_folder()


# what the sections iat and transfer describe
rule iat:
    input:
        configured(STUDY.iat.mixtures or STUDY.transfer.tasks, "iat.mixtures or transfer.tasks"),
        rules.iat_scores.output if STUDY.iat.mixtures else [],
        rules.improvement.output if STUDY.iat.mixtures else [],
        rules.iat_dissociation.output if STUDY.iat.mixtures else [],
        rules.specialization.output if STUDY.iat.mixtures else [],
        iat_figures(),
        rules.transfer_scores.output if STUDY.transfer.tasks else [],
        transfer_figures(),


# what a test server is sent
rule submission:
    input:
        configured(STUDY.submissions, "tasks with test, and a mixture of all of them"),
        [
            result("submission", model, mixture, method, f"seed{seed}", submission.ARCHIVE)
            for model in STUDY.models
            for mixture, method in STUDY.submissions
            for seed in STUDY.seeds
        ],


rule all:
    default_target: True
    input:
        rules.dissociation.output,
        rules.reliability.output,
        figures(),
        [result("runs", run.path, "importance.parquet") for run in STUDY.runs],
        rules.correlation.output if STUDY.similarity.measures else [],
        rules.iat.input if "iat" in STUDY.methods else [],
