"""Interface to Snakemake: paths of results, inputs and settings of stages, checks before and after a run."""
