"""What Snakemake is given: where results are, what each stage reads, and checks before and after a run."""
