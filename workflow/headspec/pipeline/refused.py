"""What headspec refuses of a start of Snakemake."""

from typing import ClassVar

from snakemake.exceptions import WorkflowError


class Refused(WorkflowError):  # type: ignore[misc]
    """A study, command or target that cannot be run, in words that need no place in the code."""

    latest: ClassVar[str] = ""  #: what was refused last, as Snakemake adds places to what it says

    def __init__(self, message: str) -> None:
        super().__init__(message)
        Refused.latest = message
