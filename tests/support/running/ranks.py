"""What processes that train together do in tests of their ends; torch is all that they have to import."""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist


def second_fails(model: object, error: Exception | None) -> None:
    """The second process raises `error`, or is killed; the first waits for it."""
    if dist.get_rank() == 0:
        dist.all_reduce(torch.zeros(1))
    elif error is None:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        raise error


def never_end(model: object, folder: Path) -> None:
    """Leave the number of the process in `folder`, and wait."""
    (folder / str(os.getpid())).touch()
    time.sleep(3600)
