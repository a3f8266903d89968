"""A figure: tables by name -> figure."""

import inspect
from importlib import import_module

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.plots.drawing.style import save, wildcard_rows
from headspec.progress import stage

snakemake: Snakemake
params, wildcards = snakemake.params, snakemake.wildcards
path, _, name = params.drawn_by.partition(".py:")
draw = getattr(import_module(f"headspec.plots.{path.replace('/', '.')}"), name)
with stage(snakemake, f"figure {params.figure}"):
    taken = inspect.signature(draw).parameters
    given = dict(wildcards.items()) | dict(params.items())
    arguments = {name: value for name, value in given.items() if name in taken}
    if "attention" in taken:
        kinds = tables.inherited(snakemake.input).get("attention", {})
        arguments["attention"] = kinds.get(wildcards.get("model"))
    own = {name: value for name, value in wildcards.items() if name not in taken}
    for name, paths in snakemake.input.items():
        if isinstance(paths, str):
            arguments[name] = wildcard_rows(tables.read(paths), own)
        elif "seeds" in given:
            arguments[name] = dict(zip(params.seeds, map(tables.read, paths), strict=True))
        else:
            arguments[name] = [tables.read(path) for path in paths]
    save(draw(**arguments), snakemake.output, params.dpi, tables.job_record(snakemake))
