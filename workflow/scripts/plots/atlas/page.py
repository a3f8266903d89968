"""Page of a model: its figures in the head atlas, with their captions."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.files import atomic
from headspec.plots.atlas.page import page
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "atlas_page"):
    html = page(params.study, snakemake.wildcards.model, params.groups, params.captions, params.kind)
    record = tables.inscription(tables.record(snakemake))
    with atomic(snakemake.output[0]) as temporary:
        temporary.write_text(f"{html}<!-- {record} -->\n", encoding="utf-8")
