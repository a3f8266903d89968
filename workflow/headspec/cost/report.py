"""Expected cost of a study, printed before anything runs: ``headspec plan my-study.yaml``.

It checks the study, lists its jobs (`graph`), reads its tasks (`workload`), counts operations (`graph`),
measures their speed for a few seconds (`throughput`), and adds everything up (`plan`).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.config import loading, plugin_entries
from headspec.config.study import Study
from headspec.data.tasks_read import TasksRead
from headspec.errors import HeadspecError, listing
from headspec.models import devices
from headspec.pipeline import preflight, warm
from headspec.provenance import code_hash
from headspec.redaction import redacted

if TYPE_CHECKING:
    from headspec.cost.graph import PlannedJob
    from headspec.cost.plan import Plan


def report(
    file: str | Path, cores: int | None = None, gpus: int | None = None, rate: float | None = None
) -> None:
    """Print the plan of the study in `file`, for all cores and GPUs of this machine by default.

    `rate`, in FLOP/s of a job, is measured by default. Raises HeadspecError if the study cannot be run, or if
    more GPUs would have to be measured than this machine has; and, after printing the plan, if anything is
    missing here.
    """
    config = loading.strict_yaml(file)
    if notice := plugin_entries.notice(config):
        print(notice)
    study = preflight.load(config)
    code_hash.make_importable()
    python = sys.executable if rate else warm.start(warm.PACKAGES)  # imports while the study is read
    planned, missing = preflight.missing(study)
    here = len(os.sched_getaffinity(0))
    cores = here if cores is None else cores
    gpus = devices.gpu_count() if gpus is None else gpus
    if gpus:
        preflight.check_gpus(study, gpus)
    if not rate and gpus > devices.gpu_count():
        there = "1 GPU" if devices.gpu_count() == 1 else f"{devices.gpu_count()} GPUs"
        raise HeadspecError(f"--gpus: got {gpus}, but {there} can be measured here; give --rate")
    # does not load torch, which the measuring process loads in the meantime
    from headspec.cost import graph

    not_here = [str(error) for error in [*missing, *preflight.unavailable(study)]]
    arguments = study, planned, graph.jobs(study, planned), not_here, cores, gpus, rate, python
    text, problem = counted(*arguments) if python == sys.executable else _counted_by(python, arguments)
    if text:
        print(redacted(text))
    if problem:
        raise HeadspecError(problem)


def _counted_by(python: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Return the result of `counted` in a process of `python`, which has loaded torch in the meantime."""
    with tempfile.TemporaryDirectory() as folder:
        call = Path(folder, "call")
        call.write_bytes(pickle.dumps(arguments))
        subprocess.run([python, "-m", "headspec.cost.report", str(call)], check=True)
        text, problem = pickle.loads(call.read_bytes())
        return text, problem


def counted(
    study: Study, planned: TasksRead, jobs: list[PlannedJob], missing: list[str], cores: int, gpus: int,
    rate: float | None, python: str,
) -> tuple[str, str]:  # fmt: skip
    """Return the plan of a study, and its problems: `missing` files, and what could not be counted."""
    from headspec.cost import memory

    plan = plan_of(study, planned, jobs, cores, gpus, rate, python)
    extent = plan.extent
    lines = [plan.text()]
    warnings = [*planned.warnings(study), *memory.warnings(study)]
    lines += [f"  {line}" for line in [*planned.report_lines(study), *warnings]]
    problems = []
    if extent.problems:
        left = [run for run in extent.study.runs if run not in extent.runs]
        problems.append(f"{len(left)} of {len(extent.study.runs)} runs are left out of hours and disk:")
    problems += extent.problems
    if unchecked := [each for each in missing if not any(each in told for told in extent.problems)]:
        problems += ["not here, so not checked:", *unchecked]
    return "\n".join(lines), "\n".join(problems)


def plan_of(
    study: Study, planned: TasksRead, jobs: list[PlannedJob], cores: int, gpus: int, rate: float | None,
    python: str,
) -> Plan:  # fmt: skip
    """Return the plan of a study; `rate` is measured by processes of `python` if it is None."""
    from headspec.cost import throughput, workload
    from headspec.cost.passes import PURPOSES, STARTS
    from headspec.cost.plan import Plan, several
    from headspec.cost.throughput import Speed, find_speed

    extent = workload.study_extent(study, planned)
    if rate:
        speed = Speed({model: dict.fromkeys(PURPOSES, rate) for model in extent.configs}, *STARTS)
        measured = "as given"
    else:
        here = len(os.sched_getaffinity(0))
        at_once = min(gpus * study.jobs_per_gpu or cores, here, max(len(extent.runs), 1))
        load, tokens = os.getloadavg()[0], extent.mean_tokens
        configs = {name: config.to_json_string() for name, config in extent.configs.items()}
        training = study.training.batch_size, study.precision, study.jobs_per_gpu
        name = throughput.speed_key(configs, tokens, *training, at_once, gpus > 0)
        when = "earlier "
        if stored := throughput.read_speed(name, load):
            speed, load = stored
        else:
            when = ""
            slow = "which takes minutes where models are large; the next plan remembers it"
            print(f"measuring the speed of {listing(configs)}, {slow}", file=sys.stderr, flush=True)
            speed = find_speed(extent.configs, tokens, study, python, at_once, gpus > 0)
            throughput.write_speed(name, speed, load)
        jobs_at_once = f"{several(at_once, 'job')} at once"
        measured = f"measured here {when}with {jobs_at_once} (load before that: {load:.1f})"
    return Plan(extent, jobs, speed, measured, cores, gpus)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    try:
        study, *rest = pickle.loads(path.read_bytes())
        plugin_entries.load(study.plugins)
        answer = counted(study, *rest)
    except HeadspecError as error:
        answer = "", str(error)
    path.write_bytes(pickle.dumps(answer))
