"""The section `dissociation`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headspec.config.sections.base import NUMBER, Fraction, Section


class Dissociation(Section):
    """Statistics of the pruning matrix."""

    resamples: Annotated[int, Field(ge=100), NUMBER] = Field(
        2000, description="bootstrap resamples, and permutations, of the validation examples"
    )
    confidence: Annotated[float, Field(gt=0, lt=1), NUMBER] = Field(
        0.95, description="confidence level of intervals"
    )
    distinct: Fraction = Field(0.10, description="least mean dissociation that counts as distinct")
