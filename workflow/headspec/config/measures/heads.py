"""The measures of single heads, which are also rankings of heads: the one list of them.

Stages and figures do not import it: rules pass what a job needs of the entries that it uses, so that a new
entry, or another label, reruns nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headspec.registry import Registry

#: tables of measures that every run of the atlas has, each made by a rule of its own
STANDARD = ("attention", "relevance", "ablation")
#: other tables in `atlas/` of a run
OTHERS = ("attended", "roles", "ablated", "cumulative")


@dataclass(frozen=True)
class HeadMeasure:
    """A measure of heads.

    Attributes
    ----------
    label : its name in figures
    table : of a run, in `atlas/`, that has it; None for orders that are no measure, which table 'agreement'
        leaves out
        A table that is not in `STANDARD` has the name of its measure. It is made for studies that rank heads
        by it, by the function `measure` of the module of that name in `headspec/atlas/`.
    made_from : the table that this function takes; else it takes the model and a task's examples
    ranks : whether `atlas.rankings` may name it: heads with the largest values matter most
    learnt : whether it is the order of gates that learn, each task's own, in the pruning method of that name
    function : of a plugin, that makes the table (`headspec.plugins.function`)
    """

    label: str
    table: str | None = None
    made_from: str | None = None
    ranks: bool = True
    learnt: bool = False
    function: str | None = None


#: in the order of legends and rows; the place of a ranking gives its look, so a new one follows the last
MEASURES = Registry[HeadMeasure]("measure of heads")
MEASURES |= {
    "importance": HeadMeasure("importance", "relevance"),
    "importance_all": HeadMeasure("importance, all tasks", ranks=False),
    "rescored": HeadMeasure("importance, rescored"),
    "token_importance": HeadMeasure("importance by token", "relevance"),
    "gradient_x_activation": HeadMeasure("gradient × activation", "relevance"),
    "relevance": HeadMeasure("relevance (LRP)", "relevance"),
    "ablation": HeadMeasure("ablation", "ablation"),
    "mean_ablation": HeadMeasure("mean-ablation", "ablation"),
    "confidence": HeadMeasure("confidence", "attention"),
    "l0": HeadMeasure("gates, L0", learnt=True),
    "l0-target": HeadMeasure("gates, L0 with a target", learnt=True),
    "subset": HeadMeasure("gates, subset", learnt=True),
    "subset-hard": HeadMeasure("gates, subset straight-through", learnt=True),
    "specific": HeadMeasure("importance, specific", "specific", made_from="relevance"),
    "integrated_gradient": HeadMeasure("integrated gradient", "integrated_gradient"),
    "resample_ablation": HeadMeasure("resampling ablation", "resample_ablation"),
    "ablation_size": HeadMeasure("ablation, either sign", "ablation", ranks=False),
    "confidence_no_separator": HeadMeasure("confidence, no separator", "attention", ranks=False),
    "random": HeadMeasure("random", ranks=False),
}


def rankings() -> list[str]:
    """What may be named in `atlas.rankings`."""
    return [name for name, measure in MEASURES.items() if measure.ranks]


def function(name: str) -> str:
    """The function that makes the table of a measure of its own: of a plugin, or `measure` of its module."""
    return MEASURES[name].function or f"headspec.atlas.{name}:measure"


def tables(rankings: Iterable[str]) -> list[str]:
    """The tables that have the measures of `rankings`."""
    return list(dict.fromkeys(table for name in rankings if (table := MEASURES[name].table)))


def own(rankings: Iterable[str]) -> dict[str, str | None]:
    """Of `rankings`, those with a table of their own: the table that it is made from, None for the model."""
    measures = {name: MEASURES[name] for name in rankings}
    return {name: m.made_from for name, m in measures.items() if m.table and m.table not in STANDARD}


def compared(rankings: Iterable[str]) -> list[str]:
    """The measures of the table 'agreement': the standard ones, and `rankings` with a table of their own."""
    rankings = set(rankings)
    return [
        name
        for name, measure in MEASURES.items()
        if measure.table in STANDARD or (measure.table and name in rankings)
    ]


def learnt(rankings: Iterable[str]) -> list[str]:
    """Of `rankings`, those that gates learn."""
    return [name for name in rankings if MEASURES[name].learnt]


def labels(names: Iterable[str]) -> dict[str, str]:
    """The labels of the measures `names`, in the order of `MEASURES`."""
    names = set(names)
    return {name: measure.label for name, measure in MEASURES.items() if name in names}


def pruned(rankings: Iterable[str]) -> list[str]:
    """The names of all orders of pruning where heads are ranked by `rankings`."""
    rankings = set(rankings)
    return [*rankings, *(["importance_all"] if "importance" in rankings else []), "random"]


def places(rankings: Iterable[str]) -> dict[str, int]:
    """The places in `MEASURES` of all orders of pruning but random ones."""
    names = list(MEASURES)
    return {name: names.index(name) for name in sorted({*pruned(rankings)} - {"random"}, key=names.index)}
