"""What a study will cost, printed before anything runs: ``headspec plan my-study.yaml``.

The study is checked, its tasks are read (`headspec.cost.workload`), its jobs are listed
(`headspec.cost.graph`), their operations are counted (`headspec.cost.operations`), a few seconds are spent
measuring how fast they are here (`headspec.cost.throughput`), and the plan is put together
(`headspec.cost.plan`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headspec import code_hash
from headspec.config import loading
from headspec.cost.forecast import STARTS
from headspec.errors import HeadspecError
from headspec.models import devices
from headspec.pipeline import preflight, warm


def report(
    file: str | Path, cores: int | None = None, gpus: int | None = None, rate: float | None = None
) -> None:
    """Print the plan of the study in `file`.

    Parameters
    ----------
    file : config of the study
    cores, gpus : all of this machine by default
    rate : FLOP/s of a job; measured here by default

    Raises
    ------
    HeadspecError
        The study cannot be run, more GPUs than are here are to be measured, or, after the plan is
        printed, some of its runs could not be counted.
    """
    study = preflight.load(loading.strict_yaml(file))
    code_hash.make_importable()
    python = sys.executable if rate else warm.start(warm.PACKAGES)  # it imports while the study is read
    planned, missing = preflight.missing(study)
    here = len(os.sched_getaffinity(0))
    cores = here if cores is None else cores
    gpus = devices.gpu_count() if gpus is None else gpus
    if gpus:
        preflight.check_gpus(study, gpus)
    if not rate and gpus > devices.gpu_count():
        known = "1 GPU" if devices.gpu_count() == 1 else f"{devices.gpu_count()} GPUs"
        raise HeadspecError(f"--gpus: got {gpus}, but {known} can be measured here; give --rate")
    # these load torch, and a study that cannot be planned should not wait for it
    from headspec.cost import graph, plan, workload
    from headspec.cost.throughput import PASSES, Speed

    extent = workload.read(study, planned)
    if rate:
        measured = Speed([dict.fromkeys(PASSES, rate) for _ in extent.configs], *STARTS)
        source = "as given"
    else:
        at_once = min(gpus * study.jobs_per_gpu or cores, here, max(len(extent.runs), 1))
        load = os.getloadavg()[0]
        measured = plan.find_speed(extent, python, at_once, gpus > 0)
        source = f"measured here with {plan.several(at_once, 'job')} at once (load before that: {load:.1f})"
    print(plan.text(extent, graph.jobs(study, planned), measured, source, cores, gpus))
    for line in planned.warnings(study):
        print(f"  {line}")
    for problem in missing:
        if not any(str(problem) in said for said in extent.problems):
            print(f"  not here, so not checked: {problem}")
    if extent.problems:
        left = [run for run in extent.study.runs if run not in extent.runs]
        raise HeadspecError(
            f"{len(left)} of {len(extent.study.runs)} runs are left out of hours and disk:\n"
            + "\n".join(extent.problems)
        )
