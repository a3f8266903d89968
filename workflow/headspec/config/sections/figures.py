"""The section `figures`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Distinct, Section


class Figures(Section):
    """Files of the figures."""

    formats: Annotated[Distinct[Literal["svg", "png", "pdf"]], Field(min_length=1)] = Field(
        ["svg", "png"], description="file formats"
    )
    dpi: Annotated[int, Field(ge=50), NUMBER] = Field(200, description="resolution of PNG files")
