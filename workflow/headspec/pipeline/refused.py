"""The error for starts of Snakemake that headspec refuses."""

from typing import ClassVar

from snakemake.exceptions import WorkflowError


class Refused(WorkflowError):  # type: ignore[misc]
    """A study, command or target that cannot be run; the message needs no location in the code."""

    latest: ClassVar[str] = ""  #: last message, since Snakemake adds locations to it

    def __init__(self, message: str) -> None:
        super().__init__(message)
        Refused.latest = message
