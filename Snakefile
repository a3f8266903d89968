# headspec: how attention heads specialise under multi-task learning, from texts to figures. The workflow is in
# workflow/Snakefile; with this file, `snakemake` runs it from here. See README.md.


include: "workflow/Snakefile"


workflow.default_target = "all"  # an included file cannot set it
