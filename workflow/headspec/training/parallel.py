"""Training on several GPUs: one process per GPU computes its share of every batch.

The processes hold the same weights and take the same steps. Before a step, the losses and gradients of their
shares are summed, so that optimizers and restrictions see the whole batch. The job's own process only waits:
if another one fails, it stops the rest and raises the error.
"""

import logging
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from headspec.errors import HeadspecError
from headspec.models import devices
from headspec.models.multitask import MultiTask
from headspec.progress import log

P = ParamSpec("P")
T = TypeVar("T")


def on_gpus(
    gpus: int, folder: Path, work: Callable[Concatenate[MultiTask, P], T]
) -> Callable[Concatenate[MultiTask, P], T]:
    """Return `work` itself for one GPU; for several, a function that runs it in a process on each.

    `work` is a function of a module, such as `headspec.training.loop.train`, and trains the model, its first
    argument, in place. The processes exchange temporary files in `folder`. The function raises the
    HeadspecError of the first process that failed; any other failure raises ProcessRaisedException or
    ProcessExitedException of torch.multiprocessing.
    """
    return work if gpus < 2 else partial(_run, gpus, folder, work)


def _run(gpus: int, folder: Path, work: Callable[..., T], model: MultiTask, *arguments: Any) -> T:
    log.info("training on %d GPUs", gpus)
    returned: T
    call, result = folder / "call.pt", folder / "result.pt"
    torch.save((work, model, arguments), call)
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    spawning = multiprocessing.get_context("spawn")
    records, errors = spawning.Queue(), spawning.SimpleQueue()
    listener = QueueListener(records, *logging.getLogger().handlers, respect_handler_level=True)
    shared = gpus, store.port, call, result, torch.get_num_threads(), records, errors
    listener.start()
    try:
        with _nothing_to_import():
            processes = mp.start_processes(_process, shared, gpus, join=False, daemon=True)
        while not processes.join():
            pass
        state, returned = torch.load(result, map_location="cpu", weights_only=False)
    except (mp.ProcessRaisedException, mp.ProcessExitedException):
        if errors.empty():
            raise
        raise errors.get() from None
    finally:
        listener.stop()
        call.unlink()
        result.unlink(missing_ok=True)
    model.load_state_dict(state)
    return returned


@contextmanager
def _nothing_to_import() -> Iterator[None]:
    """Keep new processes from running the job's script, which `multiprocessing` would import as a module."""
    script = vars(sys.modules["__main__"])
    path = script.pop("__file__", None)
    yield
    if path:
        script["__file__"] = path


def _process(
    rank: int, gpus: int, port: int, call: Path, result: Path, threads: int, records: Any, errors: Any
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # sent when the job dies; it also ends a wait for the GPU
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():  # it died before the line above took effect
        sys.exit(1)
    level = logging.INFO if rank == 0 else logging.WARNING
    logging.basicConfig(level=level, handlers=[QueueHandler(records)], format="%(message)s", force=True)
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
    devices.configure(max(1, threads // gpus))
    dist.init_process_group(store=dist.TCPStore("localhost", port), rank=rank, world_size=gpus)
    work, model, arguments = torch.load(call, weights_only=False)
    try:
        returned = work(model, *arguments)
    except HeadspecError as error:
        errors.put(error)
        sys.exit(1)
    if is_first():
        torch.save((model.state_dict(), returned), result)
    dist.destroy_process_group()


def is_first() -> bool:
    """Return whether this process writes the checkpoints: if it trains alone, or is the first of several."""
    return not dist.is_initialized() or dist.get_rank() == 0


def share(size: int) -> slice:
    """Return the rows of a batch of `size` examples that this process computes.

    It computes all rows if it trains alone, or if there are fewer than two per process.
    """
    n = dist.get_world_size() if dist.is_initialized() else 1
    if size < 2 * n:
        return slice(0, size)
    rank = dist.get_rank() if n > 1 else 0
    return slice(size * rank // n, size * (rank + 1) // n)


def add_up(values: Sequence[torch.Tensor], size: int) -> None:
    """Replace `values`, sums over this process's share of a batch, by sums over all `size` examples.

    Number and shapes of the values are the same in every process.
    """
    if not dist.is_initialized():
        return
    total = torch.cat([value.flatten() for value in values])
    dist.all_reduce(total)
    if share(size) == slice(0, size):  # every process has the whole batch
        total /= dist.get_world_size()
    for value, part in zip(values, total.split([value.numel() for value in values]), strict=True):
        value.copy_(part.view_as(value))
