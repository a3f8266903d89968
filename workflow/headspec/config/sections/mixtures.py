"""The section `mixtures`."""

from __future__ import annotations

from pydantic import Field

from headspec.config.sections.base import Distinct, Name, Section


class Mixtures(Section):
    """Sets of tasks that share an encoder."""

    pairs: Distinct[str] = Field([], description="tasks, every pair of which is a mixture")
    groups: dict[Name, Distinct[str]] = Field({}, description="name: the tasks of a mixture of any size")
    single: Distinct[str] = Field([], description="tasks that are also trained alone (method `single`)")
