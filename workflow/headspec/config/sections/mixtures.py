"""The section `mixtures`."""

from __future__ import annotations

from pydantic import Field

from headspec.config.sections.base import Distinct, Name, Section


class Mixtures(Section):
    """Sets of tasks that share an encoder."""

    pairs: Distinct[str] = Field([], description="tasks of which every pair is a mixture")
    groups: dict[Name, Distinct[str]] = Field({}, description="name: tasks of a mixture of any size")
    single: Distinct[str] = Field([], description="tasks that are also trained alone (method `single`)")
