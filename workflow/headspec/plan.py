"""What a study will cost: hours, wall time and disk, with everything that is assumed.

``python -m headspec.plan my-study.yaml`` prints it before anything runs: it reads the tasks, counts
operations (`headspec.extent`) and measures for some seconds how fast they are here (`headspec.speed`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator

from headspec import devices, extent, preflight, speed, validation
from headspec.errors import HeadspecError, listing
from headspec.extent import Extent
from headspec.jobs import frozen_features, jobs, of_stage
from headspec.progress import duration
from headspec.speed import PASSES, Speed

STARTS = 6.0, 3.0  # seconds until a job that runs a model has begun, and of another; where not measured
BYTES = 4  # of a number
CHECKPOINT = 3  # numbers that a checkpoint keeps for each parameter: itself, and two of AdamW
STORED = 10  # bytes for each token in the tables of texts and of tokens
PREDICTED = 16  # bytes for each row of the table of predictions

Work = dict[tuple[str, str, str, str], float]  # of model, stage, pass and task


def text(found: Extent, measured: Speed, source: str, cores: int, gpus: int) -> str:
    """The whole plan.

    Parameters
    ----------
    measured : rates of every distinct config of `found`, in order
    source : where the rates come from
    gpus : GPUs that jobs may take; with none, a job that runs a model takes one core
    """
    work = extent.operations(found)
    share = found.study.jobs_per_gpu if gpus else 1
    seconds = {key: value / share for key, value in seconds_of(found, work, measured).items()}
    unit = "GPU hours" if gpus else "core hours"
    where = ", ".join([_several(cores, "core"), *([_several(gpus, "GPU")] if gpus else [])])
    lines = [f"What {found.study.study} will cost with {where}", ""]
    lines += stages(found, work, seconds, measured, unit, cores, gpus)
    lines += [
        "",
        *dearest(seconds, unit),
        "",
        *models(found, seconds, unit),
        "",
        *disk(found, gpus * share or cores),
        "",
        "assumed",
    ]
    lines += [f"  {line}" for line in assumptions(found, measured, source)]
    return "\n".join(lines)


def seconds_of(found: Extent, work: Work, measured: Speed) -> Work:
    """Seconds of computing for each of `work`, without the start of jobs."""
    names = list(found.configs)
    return {key: flops / measured.rates[names.index(key[0])][key[2]] for key, flops in work.items()}


def stages(
    found: Extent, work: Work, seconds: Work, measured: Speed, unit: str, cores: int, gpus: int
) -> Iterator[str]:
    """A line for each stage and one for all: jobs, operations, hours of computing, wall time."""
    yield f"{'stage':<15} {'jobs':>6} {'PFLOP':>12} {unit:>12}   wall time"
    total = [0.0, 0.0, 0.0]
    count = jobs(found.study)
    share = found.study.jobs_per_gpu if gpus else 1
    for stage, n in count.items():
        runs_model = any(stage == of for of, _ in extent.WORK)
        flops, computing = (_sum(values, stage=stage) for values in (work, seconds))
        start = measured.model_start if runs_model or stage == "encode" else measured.light_start
        unknown = len(of_stage(found.study.runs, stage)) - len(of_stage(found.runs, stage))
        planned = n - unknown if stage in PASSES else n
        own = share if runs_model else 1
        busy = computing + planned * start / own
        wall = busy / min((gpus or cores) if runs_model else cores, max(planned, 1) / own)
        numbers = f"{flops / 1e15:12,.3f} {busy / 3600:12,.2f}" if runs_model else f"{'':>25}"
        yield f"{stage:<15} {n:6,} {numbers}   {duration(wall)}"
        total = [total[0] + flops, total[1] + busy * runs_model, total[2] + wall]
    numbers = f"{total[0] / 1e15:12,.3f} {total[1] / 3600:12,.2f}"
    yield f"{'all':<15} {sum(count.values()):6,} {numbers}   {duration(total[2])}"


def dearest(seconds: Work, unit: str) -> Iterator[str]:
    """A line on the stage that computes longest, the task it does so for, and the setting that changes it."""
    if not (total := _sum(seconds)):
        return
    stage = max({stage for _, stage, _, _ in seconds}, key=lambda stage: _sum(seconds, stage=stage))
    parts: dict[tuple[str, str], float] = {}
    for (_, own, kind, task), value in seconds.items():
        if own == stage:
            parts[kind, task] = parts.get((kind, task), 0.0) + value
    (kind, task), most = max(parts.items(), key=lambda item: item[1])
    whole = sum(parts.values())
    yield (
        f"{stage} costs most: {100 * whole / total:.0f} % of the {unit}, {100 * most / whole:.0f} % of it "
        f"for {task}; less by {extent.WORK[stage, kind].format(task=task)}"
    )


def models(found: Extent, seconds: Work, unit: str) -> Iterator[str]:
    """A line for each model: parameters, hours of each stage that runs it, space of its runs."""
    yield f"{'model':<20} {'parameters':>12} " + " ".join(f"{stage:>10}" for stage in PASSES) + "    saved"
    for name, config in found.configs.items():
        size = speed.parameters(config)
        hours = " ".join(f"{_sum(seconds, name, stage) / 3600:10,.2f}" for stage in PASSES)
        saved = BYTES * size * sum(run.model == name for run in found.runs)
        yield f"{name:<20} {size / 1e6:11,.1f}M {hours} {_space(saved):>8}"
    yield f"{unit} of computing, without the start of jobs"


def disk(found: Extent, at_once: int) -> Iterator[str]:
    """Space on disk: what is kept, and what checkpoints take while models are trained."""
    sizes = {name: BYTES * speed.parameters(config) for name, config in found.configs.items()}
    saved = sum(sizes[run.model] for run in found.runs)
    study, states = found.study, 0.0
    if "iat" in study.methods:
        done = {run.path for run in study.runs}
        saved += sum(sizes.get(run.model, 0) for run in study.iat_runs if run.path not in done)
        kept = len({v.base for v in study.variants}) + len(
            {(v.base, v.delta) for v in study.variants if v.heads}
        )
        states = CHECKPOINT * sum(sizes.values()) * kept * len(study.iat.mixtures) * len(study.seeds)
    tables = 0.0
    for model, task in frozen_features(found.runs):
        tables += BYTES * found.configs[model].hidden_size * found.sizes[task].train
    for (_, task), n in found.tokens.items():
        tables += STORED * n * (found.sizes[task].train + found.sizes[task].validation)
    for run in found.runs:
        tables += PREDICTED * (1 + len(run.tasks)) * sum(found.sizes[task].validation for task in run.tasks)
    largest = sorted((CHECKPOINT * sizes[run.model] for run in found.runs), reverse=True)[:at_once]
    parts = [
        (saved, "models"),
        (states, "states that IAT goes on from"),
        (tables, "texts, tokens, features and predictions"),
        (sum(largest), "checkpoints"),
    ]
    yield f"disk           {_space(sum(n for n, _ in parts))}: " + ", ".join(
        f"{_space(n)} {what}" for n, what in parts if n
    )


def assumptions(found: Extent, measured: Speed, source: str) -> Iterator[str]:
    """What the plan rests on, a line for each, with its numbers."""
    for task, size in found.sizes.items():
        yield f"{task}: {size.train:,} training and {size.validation:,} validation examples, {size.note}"
        lengths: dict[str, list[str]] = {}
        for model in found.configs:
            how = "in a sample" if found.counted[model, task] else "assumed: texts or tokenizer are not here"
            lengths.setdefault(f"{found.tokens[model, task]} tokens per example, {how}", []).append(model)
        for length, names in lengths.items():
            yield f"{task}: {length}" + (f" ({listing(names)})" if len(lengths) > 1 else "")
    speeds: dict[str, list[str]] = {}
    for name, rates in zip(found.configs, measured.rates, strict=True):
        numbers = ", ".join(f"{stage} {rate / 1e9:,.1f}" for stage, rate in rates.items())
        speeds.setdefault(numbers, []).append(name)
    for numbers, names in speeds.items():
        yield f"{listing(names)}: {numbers} GFLOP/s, {source}"
    yield "a forward pass and twice as much backward in training; as much again for importance"
    yield "features of a frozen encoder: one pass over each task's training examples, at the speed of pruning"
    yield f"start of a job: {measured.model_start:.1f} s with a model, {measured.light_start:.1f} s without"
    yield "data, tokens, statistics and figures take no more time than the start of their jobs"
    if found.study.brain:
        yield "the encoding of brain responses is counted as the start of its jobs alone"
    yield f"disk: {STORED} bytes a token in tables, {CHECKPOINT} numbers a parameter in a checkpoint"


def _sum(values: Work, model: str | None = None, stage: str | None = None) -> float:
    return sum(v for (m, s, *_), v in values.items() if model in (None, m) and stage in (None, s))


def _several(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _space(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size < 1e11 else f"{size / 1e12:,.2f} TB"


def find_speed(found: Extent, at_once: int, gpu: bool) -> Speed:
    """The speed of every model of the study while `at_once` jobs run; equal configs are measured once."""
    distinct = {config.to_json_string(): config for config in found.configs.values()}
    mean = round(sum(found.tokens.values()) / max(len(found.tokens), 1))
    training, precision = found.study.training, found.study.precision
    share = found.study.jobs_per_gpu
    measured = speed.rates([*distinct.values()], mean, training.batch_size, precision, at_once, gpu, share)
    each = dict(zip(distinct, measured.rates, strict=True))
    rates = [each[config.to_json_string()] for config in found.configs.values()]
    return Speed(rates, measured.model_start, measured.light_start)


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="headspec.plan", description="What a study will cost.")
    parser.add_argument("study", help="config of the study, such as config.yaml")
    parser.add_argument("--rate", type=float, help="FLOP/s of a job, of a device that is not here")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="default: all")
    parser.add_argument("--gpus", type=int, default=devices.gpu_count(), help="default: all")
    args = parser.parse_args(None if arguments is None else list(arguments))
    study = validation.load(validation.strict_yaml(args.study))
    missing = preflight.missing(study)
    found = extent.read(study)
    if args.rate:
        measured = Speed([dict.fromkeys(PASSES, args.rate) for _ in found.configs], *STARTS)
        source = "as given"
    elif args.gpus > devices.gpu_count():
        here = _several(devices.gpu_count(), "GPU")
        raise HeadspecError(f"--gpus: got {args.gpus}, but {here} can be measured here; give --rate")
    else:
        at_once = min(
            args.gpus * study.jobs_per_gpu or args.cores,
            len(os.sched_getaffinity(0)),
            max(len(found.runs), 1),
        )
        load = os.getloadavg()[0]
        measured = find_speed(found, at_once, args.gpus > 0)
        source = f"measured here with {_several(at_once, 'job')} at once (load before that: {load:.1f})"
    print(text(found, measured, source, args.cores, args.gpus))
    for problem in missing:
        if not any(str(problem) in said for said in found.problems):
            print(f"  not here, so not checked: {problem}")
    if found.problems:
        left = [run for run in found.study.runs if run not in found.runs]
        raise HeadspecError(
            f"{len(left)} of {len(found.study.runs)} runs are left out of hours and disk:\n"
            + "\n".join(found.problems)
        )


if __name__ == "__main__":
    try:
        main()
    except HeadspecError as error:
        sys.exit(str(error))
