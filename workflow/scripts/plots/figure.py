"""A figure of the rows of a model, mixture and method: tables by name -> figure."""

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.drawing.style import of_wildcards, save
from headspec.progress import stage

params, wildcards = snakemake.params, snakemake.wildcards
draw = import_module(f"headspec.plots.{params.figure.replace('/', '.')}").draw
with stage(snakemake, f"figure {params.figure}"):
    taken = inspect.signature(draw).parameters
    arguments = {name: value for name, value in params.items() if name in taken}
    if "attention" in taken:
        kinds = tables.inherited(snakemake.input).get("attention", {})
        arguments["attention"] = kinds.get(wildcards.get("model"))
    for name, paths in snakemake.input.items():
        if isinstance(paths, str):
            arguments[name] = of_wildcards(tables.read(paths), wildcards)
        else:
            seeds = zip(params.seeds, paths, strict=True)
            arguments[name] = {seed: tables.read(path) for seed, path in seeds}
    save(draw(**arguments), snakemake.output, params.dpi, tables.record(snakemake))
