"""The explorer: tables -> one page."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.explorer.page import build_page
from headspec.progress import stage
from headspec.provenance import files
from headspec.provenance.files import atomic

snakemake: Snakemake
with stage(snakemake, "explorer"):
    html = build_page(snakemake.input, snakemake.params.config)
    record = tables.record_text(tables.job_record(snakemake))
    with atomic(snakemake.output[0]) as temporary:
        temporary.write_text(f"{html}<!-- {record} {files.PLACEHOLDER} -->\n", encoding="utf-8")
        files.embed_sha256(temporary)
