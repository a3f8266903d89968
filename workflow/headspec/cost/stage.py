"""What jobs of a stage that runs a model cost, beside what they pass through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from headspec.cost.stages import Passes


class Load(NamedTuple):
    """Examples of a task that pass through the encoder in a job."""

    kind: str  #: pass of `PASSES`
    task: str
    examples: float


Loads = Iterable[Load]
Counting = Callable[["Passes"], Loads]


@dataclass(frozen=True)
class Stage:
    """What jobs of a stage that runs a model cost.

    Attributes
    ----------
    loads : what passes through the encoder in a job
    reduced_by : pass of `PASSES`: the setting that reduces it
    copies : of the weights in memory. Without training, they are read twice; four are trained ones (weights,
        gradients, two moments), the fifth is the words in use; a state to continue from, or the encoder to
        start again from, comes on top
    batch : section with the batch size with which the stage trains; empty if it does not
    gpus : `one`, `all` of its model with a process for each, or those with `layers` of a prompted model
    writes : whether it writes translations, after training where it trains
    under_masks : whether it evaluates by `headspec.heads.pruning.under_masks`
    vectors : whether it holds the vectors of training examples on which frozen runs learn
    """

    loads: Counting
    reduced_by: Mapping[str, str]
    copies: int
    batch: Literal["", "training", "transfer"] = ""
    gpus: Literal["one", "all", "layers"] = "one"
    writes: bool = False
    under_masks: bool = False
    vectors: bool = False

    @property
    def backward(self) -> bool:
        """Whether there is a backward pass, for which activations are kept."""
        return not {*self.reduced_by} <= {"prune"}


#: stage: its costs
STAGES: dict[str, Stage] = {}


def stage(
    reduced_by: Mapping[str, str], copies: int, also: Iterable[str] = (), **settings: Any
) -> Callable[[Counting], Counting]:
    """A method counts for the stage with its name, and those in `also`; the rest is as in `Stage`."""

    def register(loads: Counting) -> Counting:
        STAGES.update(dict.fromkeys([loads.__name__, *also], Stage(loads, reduced_by, copies, **settings)))
        return loads

    return register
