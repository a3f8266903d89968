"""A pruning method, as its stages receive it, without the list of all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PruningMethod:
    """A way to choose the heads to keep."""

    label: str  #: its name in figures
    #: "all"; "ranked", the first of a ranking; "drawn" at random; "stepwise", pruned in steps with importance
    #: computed again at each; "learnt", heads whose gates learn to be open; "copied" from another pruning
    #: method; "plugged", by a plugin's function of importance
    chosen: str
    by_layer: bool = False  #: whether random heads are as many in each layer as `importance` keeps
    gates: str | None = None  #: the kind of gates that learn, in `headspec.gates.kinds`
    start: str = "trained"  #: {"trained", "pretrained", "fresh"}, the weights that training begins with
    classifiers: bool = True  #: whether classifiers learn, too
    #: whether gates learn without a target number of heads, once for all numbers;
    #: the number that they leave open is one more
    open_ended: bool = False
    function: str | None = None  #: a plugin's function that chooses (`headspec.plugins.function`)
