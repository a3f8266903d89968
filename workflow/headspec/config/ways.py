"""Ways to reach a number of heads: the one list of them.

Stages and figures do not import it: rules pass what a job needs of the entries that it uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headspec.config.measures import heads as head_measures

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
    chosen : {"all", "ranked", "drawn", "stepwise", "learnt", gates="copied"}
        Every head is kept; or the first of a ranking; or random ones; or importance is computed again in
        steps; or gates learn them; or another way's are taken.
    by_layer : whether random heads are as many in each layer as `importance` keeps
    gates : the kind of gates that learn, in `headspec.gates.kinds`
    start : {"trained", "pretrained", "fresh"}, the weights that training begins with
    classifiers : whether these learn, too
    open_ended : whether gates learn without a number of heads in view: they learn once for all numbers, and
        the heads that they leave open are one more
    """

    label: str
    chosen: str
    by_layer: bool = False
    gates: str | None = None
    start: str = "trained"
    classifiers: bool = True
    open_ended: bool = False


#: in the order of legends; the place of a way gives its look, so a new one follows the last
WAYS = {
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
} | {
    name: Way(measure.label, "ranked")
    for name, measure in head_measures.MEASURES.items()
    if measure.ranks and measure.table and name != IMPORTANCE
}
#: what may be named in `gates.ways`
NAMES = tuple(name for name in WAYS if name != WHOLE)
#: ways that keep the heads of another, and ways whose heads they may keep
COPYING = tuple(name for name, way in WAYS.items() if way.chosen == "copied")
SOURCES = tuple(name for name, way in WAYS.items() if way.chosen in ("ranked", "stepwise", "learnt"))


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
