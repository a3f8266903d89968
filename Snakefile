# headspec: how attention heads specialise under multi-task learning, from texts to figures.
# A study is one config file: config.yaml, or the one given by --configfile. See README.md.

# --configfile replaces config.yaml; by default, Snakemake would merge the two studies
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/heads.smk"
include: "workflow/rules/similarity.smk"


if STUDY.brain:

    include: "workflow/rules/brain.smk"


include: "workflow/rules/statistics.smk"
include: "workflow/rules/atlas.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/atlas_figures.smk"
include: "workflow/rules/submission.smk"


pin_environments()


report: "workflow/report/workflow.rst"


onstart:
    lock_folder()
    warm_up()
    if VIEW:
        VIEW.begin(STUDY.study, workflow, config)


# all runs, and no statistics, so that `--batch runs=1/20` plans a twentieth of a large study
rule runs:
    input:
        tables_of(STUDY.runs, "importance.parquet"),
        tables_of(LAYOUT.mixed, "predictions.parquet"),


# the dissociation of the first mixture alone, long before the rest
rule preview:
    input:
        require_configured(LAYOUT.preview, "the method tuned"),
        rules.preview_dissociation.output,
        rules.figure_preview.output,


# all results of the sections iat and transfer
rule iat:
    input:
        require_configured(
            STUDY.iat.mixtures or STUDY.transfer.tasks, "iat.mixtures or transfer.tasks"
        ),
        rules.iat_scores.output if STUDY.iat.mixtures else [],
        rules.improvement.output if STUDY.iat.mixtures else [],
        rules.iat_dissociation.output if STUDY.iat.mixtures else [],
        rules.specialization.output if STUDY.iat.mixtures else [],
        LAYOUT.figures(LAYOUT.iat_figures),
        rules.transfer_scores.output if STUDY.transfer.tasks else [],
        LAYOUT.figures(LAYOUT.transfer_figures),


# all measures of single heads
rule atlas:
    input:
        require_configured(
            LAYOUT.atlas_runs, "runs of the methods and mixtures of the section atlas"
        ),
        rules.heads.output,
        rules.single_heads.output,
        rules.rankings.output,
        rules.belief.output,
        lambda wildcards: LAYOUT.figures(LAYOUT.atlas_figures),
        lambda wildcards: LAYOUT.pages,


# prediction files for a test server
rule submission:
    input:
        require_configured(STUDY.submissions, "tasks with test, and a mixture of all of them"),
        LAYOUT.submissions,


rule all:
    default_target: True
    input:
        rules.dissociation.output,
        rules.reliability.output,
        LAYOUT.figures(LAYOUT.main_figures),
        rules.correlation.output if STUDY.similarity.measures else [],
        rules.iat.input if "iat" in STUDY.methods else [],
        rules.atlas.input if "atlas" in STUDY.methods else [],
