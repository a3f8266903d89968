"""Inputs and params of the rule `similarity`, which compares tasks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headspec.config import methods
from headspec.config.measures.similarity import MEASURES, TRAITS, function, reader
from headspec.pipeline.layout import Layout


class Source(NamedTuple):
    """A table from which tasks are compared."""

    name: str  #: of the rule that makes it, or of the measure of all weights
    model: str
    seed: int | None  #: None: the same for every seed
    path: str


def sources(layout: Layout, paths: Mapping[str, str]) -> list[Source]:
    """Return the tables that the configured measures use; `paths` have those of each rule, with wildcards."""
    study, rows = layout.study, []
    alone = {"method": methods.alone(study.methods), "texts": "sentences"}
    for rule, path in paths.items():
        for measure in study.similarity.asked(rule):
            name = measure if "{measure}" in path else rule
            for model in study.models:
                for seed in study.seeds if "{seed}" in path else [None]:
                    for task in layout.compared if "{mixture}" in path else [""]:
                        values = alone | {"model": model, "seed": seed, "mixture": task, "measure": measure}
                        rows.append(Source(name, model, seed, path.format(**values)))
    return list(dict.fromkeys(rows))


def measures(layout: Layout) -> dict[str, dict[str, Any]]:
    """Return the configured measures of traits: what each compares, and its function."""
    chosen = {name: MEASURES[name] for name in layout.study.similarity.measures}
    return {name: {"of": each.of, "function": function(name)} for name, each in chosen.items() if each.of}


def weighed(layout: Layout, directed: bool) -> list[str]:
    """Return the configured measures of all weights that are directed, or those that are not."""
    return [
        name for name in layout.study.similarity.asked("sensitivity") if MEASURES[name].directed == directed
    ]


def traits(layout: Layout) -> dict[str, dict[str, Any]]:
    """Return the traits that these measures compare: the rule of their tables, and who reads them."""
    names = dict.fromkeys(MEASURES[name].of for name in layout.study.similarity.measures)
    return {
        name: {"rule": TRAITS[name].rule, "read": reader(name), "by_subject": TRAITS[name].by_subject}
        for name in names
        if name and TRAITS[name].rule
    }


def functions(layout: Layout) -> list[str]:
    """Return the functions of these measures and traits."""
    entries = *measures(layout).values(), *traits(layout).values()
    return [each.get("function") or each["read"] for each in entries]
