"""Pruning methods, which choose the heads that a pruned run keeps; rules pass the one that a job uses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headspec.config.measures import heads as head_measures
from headspec.config.measures.heads import HeadMeasure
from headspec.config.values import IMPORTANCE, WHOLE
from headspec.registry import Registry


@dataclass(frozen=True)
class PruningMethod:
    """A way to choose the heads to keep."""

    label: str  #: its name in figures
    #: "all"; "ranked", the first of a ranking; "drawn" at random; "stepwise", pruned in steps with importance
    #: computed again at each; "learnt", heads whose gates learn to be open; "copied" from another pruning
    #: method; "plugged", by a plugin's function of importance
    chosen: str
    by_layer: bool = False  #: whether as many random heads are kept in each layer as `importance` keeps
    gates: str | None = None  #: which gates learn (`headspec.training.learnt_gates.learnt_gates`)
    start: str = "trained"  #: {"trained", "pretrained", "fresh"}, the weights that training begins with
    classifiers: bool = True  #: whether classifiers learn, too
    #: whether gates learn without a target number of heads, once for all numbers;
    #: the number that they leave open is one more
    open_ended: bool = False
    function: str | None = None  #: a plugin's function that chooses (`headspec.plugins.function`)


def ranked(measures: Mapping[str, HeadMeasure]) -> dict[str, PruningMethod]:
    """Return the pruning methods that keep the heads with the largest values of an atlas measure."""
    return {
        name: PruningMethod(m.label, "ranked")
        for name, m in measures.items()
        if m.ranks and m.table and not m.predicts
    }


#: in the order of legends; the position of a pruning method determines its style, so append new ones
PRUNING_METHODS = Registry[PruningMethod](
    "pruning method",
    {
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
        **{name: method for name, method in ranked(head_measures.MEASURES).items() if name != IMPORTANCE},
        "causal": PruningMethod("causal head gating", "learnt", gates="soft", open_ended=True),
    },
)


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
