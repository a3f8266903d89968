"""The list of pruning methods, which choose the heads that a pruned run keeps.

Stages and figures do not import it: rules pass the entries that a job uses.
"""

from collections.abc import Iterable, Mapping

from headspec.config.measures import heads as head_measures
from headspec.config.measures.heads import HeadMeasure
from headspec.config.pruning_method import PruningMethod
from headspec.config.table_values import IMPORTANCE, WHOLE
from headspec.registry import Registry


def ranked(measures: Mapping[str, HeadMeasure]) -> dict[str, PruningMethod]:
    """Return the pruning methods that keep the heads with the largest values of an atlas measure."""
    return {name: PruningMethod(m.label, "ranked") for name, m in measures.items() if m.ranks and m.table}


#: in the order of legends; the place of a pruning method gives its look, so a new one follows the last
PRUNING_METHODS = Registry[PruningMethod]("pruning method")
PRUNING_METHODS |= {
    WHOLE: PruningMethod("whole model", "all"),
    IMPORTANCE: PruningMethod("importance, at once", "ranked"),
    "rescored": PruningMethod("importance, rescored", "stepwise"),
    "l0": PruningMethod("L0", "learnt", gates="l0", open_ended=True),
    "l0-target": PruningMethod("L0 with a target", "learnt", gates="l0-target"),
    "subset": PruningMethod("subset", "learnt", gates="subset"),
    "subset-hard": PruningMethod("subset, hard", "learnt", gates="subset-hard"),
    "random": PruningMethod("random", "drawn"),
    "random-by-layer": PruningMethod("random by layer", "drawn", by_layer=True),
    "static": PruningMethod(
        "L0, classifiers fixed (static)", "learnt", gates="l0", classifiers=False, open_ended=True
    ),
    "dynamic": PruningMethod(
        "L0 from pretrained (dynamic)", "learnt", gates="l0", start="pretrained", open_ended=True
    ),
    "pretrained": PruningMethod("kept heads, from pretrained", "copied", start="pretrained"),
    "fresh": PruningMethod("kept heads, from fresh weights", "copied", start="fresh"),
}
PRUNING_METHODS |= {
    name: method for name, method in ranked(head_measures.MEASURES).items() if name != IMPORTANCE
}


def chosen_by(*kinds: str) -> list[str]:
    """Return the pruning methods whose `PruningMethod.chosen` is one of `kinds`."""
    return [name for name, method in PRUNING_METHODS.items() if method.chosen in kinds]


def sources() -> list[str]:
    """Return the pruning methods whose kept heads another method may copy."""
    return chosen_by("ranked", "stepwise", "learnt", "plugged")


def names() -> list[str]:
    """Return the names allowed in `gates.pruning_methods`."""
    return [name for name in PRUNING_METHODS if name != WHOLE]


def any_learnt(names: Iterable[str]) -> bool:
    """Return whether gates learn in any of the pruning methods `names`."""
    return any(PRUNING_METHODS[name].chosen == "learnt" for name in names)
