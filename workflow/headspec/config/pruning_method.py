"""A pruning method, as its stages are passed it, without the list of all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PruningMethod:
    """What chooses the heads to keep.

    Attributes
    ----------
    label : its name in figures
    chosen : {"all", "ranked", "drawn", "stepwise", "learnt", "copied", "plugged"}
        All heads are kept; the first of a ranking; random ones; those left by pruning in steps, importance
        computed again at each; those whose gates learn to be open; those of another pruning
        method; or those that a plugin chooses by importance.
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
