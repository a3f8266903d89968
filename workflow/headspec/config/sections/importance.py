"""The section `importance`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headspec.config.sections.base import NUMBER, Section


class Importance(Section):
    """Head importance: the gradient of the loss with respect to a gate on the head."""

    samples: Annotated[int, Field(ge=10), NUMBER] = Field(
        10_000, description="training samples per task, or all that it has"
    )
