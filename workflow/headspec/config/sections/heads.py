"""The sections on heads: `importance`, `pruning` and `dissociation`."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from headspec.sections import NUMBER, Distinct, Fraction, Section


class Importance(Section):
    """Head importance: mean absolute derivative of the loss with respect to a gate on the head."""

    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        10_000,
        description="training samples per task, or all if there are fewer; also where `iat` and `rescored` "
        "score heads",
    )


class Pruning(Section):
    """Important attention-head pruning (IAP)."""

    fraction: Fraction = Field(0.3, description="fraction of heads to prune in the main results")
    fractions: Distinct[Fraction] = Field(
        [0.1, 0.2, 0.3, 0.4, 0.5],
        description="fractions of heads to prune in the curves",
    )
    heads: Distinct[Annotated[int, Field(ge=1), NUMBER]] = Field(
        [], description="numbers of heads to prune in the curves, besides `fractions`"
    )
    ablation: Literal["zero", "mean", "resample"] = Field(
        "zero",
        description="what replaces the heads pruned in the tables `pruning`, `predictions` and "
        "`listed`: `zero`, nothing; `mean`, their mean vectors over other validation examples; `resample`, "
        "their vectors for [another example](statistics.md#what-replaces-pruned-heads)",
    )
    bottom: bool = Field(
        True, description="also prune each task's least important heads at every fraction, a control"
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        20,
        description="random masks of each kind at the main fraction; at least one for each task of a "
        "mixture, and with `models.<name>.heads` 1 / (1 - `dissociation.confidence`) - 1, by default 19",
    )
    draw_examples: Annotated[int | None, Field(ge=1), NUMBER] = Field(
        None,
        description="validation examples per task for each random mask, by default all; successive masks "
        "take successive examples",
    )
    draw_width: Fraction | None = Field(
        None,
        description="instead of `draw_examples`: the widest 95 % interval that the choice of examples may "
        "give the mean accuracy over a kind of random masks",
    )

    probabilities: bool = Field(
        True,
        description="store class probabilities in `predictions`: 4 bytes for each row and class, most of "
        "its size",
    )

    def model_post_init(self, context: Any) -> None:
        """Set `draw_examples` n from `draw_width`: a mean over draws has variance <= 1 / (4 n draws).

        Raises ValueError if both are given.
        """
        if self.draw_width is None:
            return
        if self.draw_examples is not None:
            raise ValueError("draw_examples and draw_width are both given, expected one of them")
        width = max(self.draw_width, 1e-9)  # its square must not be 0; this already asks for all examples
        examples = math.ceil(1.96**2 / (width**2 * self.draws))
        object.__setattr__(self, "draw_examples", examples)


class Dissociation(Section):
    """Statistics of the pruning matrix."""

    resamples: Annotated[int, Field(ge=100), NUMBER] = Field(
        2000, description="bootstrap resamples, and permutations, of the validation examples"
    )
    confidence: Annotated[float, Field(gt=0, lt=1), NUMBER] = Field(
        0.95, description="confidence level of intervals"
    )
    distinct: Fraction = Field(0.10, description="minimum mean dissociation that counts as distinct")
