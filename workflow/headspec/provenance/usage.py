"""Time and memory that jobs used, compared with the requests of their rules.

Snakemake's `benchmark` misses them: jobs are forks of a server, not Snakemake's children, and it does not see
GPUs.
"""

import contextlib
import csv
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headspec.errors import HeadspecError

COLUMNS = (
    "rule", "model", "threads", "seconds", "cpu_seconds", "memory_mb", "gpu_memory_mb", "asked_minutes",
    "asked_mb",
)  # fmt: skip
SHOWN = (
    f"{'rule':<22} {'model':<16} {'jobs':>5}  {'minutes':>13} {'of':>5}  {'MB':>6} {'of':>6}  {'GPU MB':>6}"
    "  cores"
)


@contextmanager
def recorded(job: Any) -> Iterator[None]:
    """Write the block's use of resources to a file next to the log of `job`, even if the block fails."""
    begun = time.monotonic()
    try:
        yield
    finally:
        own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        values = (
            job.rule,
            job.wildcards.get("model", ""),
            job.threads,
            round(time.monotonic() - begun, 1),
            round(sum(used.ru_utime + used.ru_stime for used in (own, children)), 1),
            (max(own.ru_maxrss, children.ru_maxrss) - _inherited()) // 1024,
            _gpu_memory(),
            job.resources.get("runtime", ""),
            job.resources.get("mem_mb", ""),
        )
        # results do not need this file, and on a full disk its error would hide the important one
        with contextlib.suppress(OSError), open(path(job.log[0]), "w", newline="") as file:
            csv.writer(file, delimiter="\t").writerows([COLUMNS, values])


def path(log: str) -> Path:
    """Return the file of a job's usage, from the path of its log."""
    return Path(log).with_suffix(".usage.tsv")


def _inherited() -> int:
    """Return the memory in KiB that is still shared with the parent process; writing to a page copies it."""
    with contextlib.suppress(OSError), open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shared_Dirty:"))
    return 0


def _gpu_memory() -> int:
    """Return the peak GPU memory that torch reserved in this process, in MB."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.max_memory_reserved() / 1e6)


def summary(folder: Path) -> str:
    """Return a table of used and requested resources of the jobs in `folder`, by rule and model.

    Minutes are the median and maximum without start-up; memory is the maximum over jobs, without that shared
    with the process they were forked from. Raises HeadspecError if no job left a record.
    """
    import pandas as pd  # only some jobs need it

    paths = sorted((folder / "logs").rglob("*.usage.tsv"))
    if not paths:
        raise HeadspecError(
            f"{folder}: no logs/**/*.usage.tsv; expected the results of a study, such as results/demo"
        )
    text = dict.fromkeys(("rule", "model"), str)
    jobs = pd.concat([pd.read_csv(path, sep="\t", dtype=text, keep_default_na=False) for path in paths])
    numbers = jobs.columns.drop(["rule", "model"])
    jobs[numbers] = jobs[numbers].apply(pd.to_numeric, errors="coerce").fillna(0)
    lines = []
    for (rule, model), used in jobs.groupby(["rule", "model"]):
        most, minutes = used[numbers].max(), used["seconds"] / 60
        cores = used["cpu_seconds"].sum() / max(used["seconds"].sum(), 1e-9)
        lines.append(
            f"{rule:<22} {model:<16} {len(used):5}  {minutes.median():6.1f} {minutes.max():6.1f} "
            f"{most.asked_minutes:5.0f}  {most.memory_mb:6.0f} {most.asked_mb:6.0f}  "
            f"{most.gpu_memory_mb or '-':>6}  {cores:.1f} of {most.threads:.0f}"
        )
    return "\n".join([SHOWN, *lines])
