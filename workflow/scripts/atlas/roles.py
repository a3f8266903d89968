"""Roles of the heads of a model: tables attended and treebank -> table roles."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.progress import log, stage
from headspec.statistics.atlas.roles import ROLES, one_role, roles

snakemake: Snakemake
with stage(snakemake, f"roles {snakemake.output[0]}"):
    frame = roles(tables.read(snakemake.input.attended), tables.read(snakemake.input.treebank))
    tables.write(snakemake.output[0], ROLES, frame, tables.provenance(snakemake))
    heads = one_role(frame)["role"].value_counts()
    log.info("heads by role: %s", ", ".join(f"{role} {count}" for role, count in heads.items()))
