"""Ways to reach a number of heads: the one list of them.

Stages and figures do not import it: rules pass what a job needs of the entries that it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headspec.config.measures import heads as head_measures
from headspec.config.measures.heads import HeadMeasure
from headspec.registry import Registry

#: the way that closes no head, which is always made
WHOLE = "whole"
#: the way that others are compared with
IMPORTANCE = "importance"


@dataclass(frozen=True)
class Way:
    """A way to choose the heads to keep.

    Attributes
    ----------
    label : its name in figures
    chosen : {"all", "ranked", "drawn", "stepwise", "learnt", "copied", "plugged"}
        All heads are kept; the first of a ranking; random ones; those left by pruning in steps, importance
        computed again at each; those whose gates learn to be open; those of another way; or those that a
        plugin chooses by importance.
    by_layer : whether random heads are as many in each layer as `importance` keeps
    gates : the kind of gates that learn, in `headspec.gates.kinds`
    start : {"trained", "pretrained", "fresh"}, the weights that training begins with
    classifiers : whether these learn, too
    open_ended : whether gates learn without a target number of heads: they learn once for all numbers, and
        the number that they leave open is one more
    function : of a plugin, that chooses (`headspec.plugins.function`)
    """

    label: str
    chosen: str
    by_layer: bool = False
    gates: str | None = None
    start: str = "trained"
    classifiers: bool = True
    open_ended: bool = False
    function: str | None = None


def ranked(measures: Mapping[str, HeadMeasure]) -> dict[str, Way]:
    """The ways that keep the heads with the largest values of a measure of the atlas."""
    return {name: Way(of.label, "ranked") for name, of in measures.items() if of.ranks and of.table}


#: in the order of legends; the place of a way gives its look, so a new one follows the last
WAYS = Registry[Way]("way")
WAYS |= {
    WHOLE: Way("whole model", "all"),
    IMPORTANCE: Way("importance, at once", "ranked"),
    "rescored": Way("importance, in steps", "stepwise"),
    "l0": Way("L0", "learnt", gates="l0", open_ended=True),
    "l0-target": Way("L0 with a target", "learnt", gates="l0-target"),
    "subset": Way("subset", "learnt", gates="subset"),
    "subset-hard": Way("subset, straight-through", "learnt", gates="subset-hard"),
    "random": Way("random", "drawn"),
    "random-by-layer": Way("random by layer", "drawn", by_layer=True),
    "static": Way("L0, classifiers fixed (static)", "learnt", gates="l0", classifiers=False, open_ended=True),
    "dynamic": Way("L0 from pretrained (dynamic)", "learnt", gates="l0", start="pretrained", open_ended=True),
    "pretrained": Way("kept heads, from pretrained", "copied", start="pretrained"),
    "fresh": Way("kept heads, from fresh weights", "copied", start="fresh"),
}
WAYS |= {name: way for name, way in ranked(head_measures.MEASURES).items() if name != IMPORTANCE}


def chosen_by(*kinds: str) -> list[str]:
    """The ways whose heads are chosen in one of these ways: `Way.chosen`."""
    return [name for name, way in WAYS.items() if way.chosen in kinds]


def sources() -> list[str]:
    """The ways whose heads may be kept again."""
    return chosen_by("ranked", "stepwise", "learnt", "plugged")


def names() -> list[str]:
    """What may be named in `gates.ways`."""
    return [name for name in WAYS if name != WHOLE]


def any_learnt(names: Iterable[str]) -> bool:
    """Whether gates learn in any of the ways `names`."""
    return any(WAYS[name].chosen == "learnt" for name in names)


def labels(names: Iterable[str]) -> dict[str, str]:
    """The labels of the ways `names`, in the order of `WAYS`."""
    names = set(names)
    return {name: way.label for name, way in WAYS.items() if name in names}


def places(names: Iterable[str]) -> dict[str, int]:
    """The places of the ways `names` in `WAYS`."""
    order = list(WAYS)
    return {name: order.index(name) for name in sorted(set(names), key=order.index)}
