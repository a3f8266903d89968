"""The plan: hours, wall time and disk space that a study will cost, with all assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headspec.cost import graph, memory, throughput
from headspec.cost.operations import operations
from headspec.cost.stages import STAGES
from headspec.cost.throughput import PASSES, Speed
from headspec.cost.workload import Extent
from headspec.errors import listing
from headspec.progress import duration
from headspec.training import adapting

NUMBER_BYTES = 4  # of a parameter or feature
CHECKPOINT_NUMBERS = 3  # per parameter: its value and two of AdamW
TOKEN_BYTES = 10  # of a token in the tables of texts and of tokens
PREDICTION_BYTES = 16  # of a row in the table of predictions

Work = dict[tuple[str, str, str, str], float]  # of model, stage, pass and task


def text(extent: Extent, jobs: list[graph.Job], measured: Speed, source: str, cores: int, gpus: int) -> str:
    """The whole plan.

    Parameters
    ----------
    jobs : of a study without results
    measured : with rates for every model of `extent`, in order
    source : where the rates come from
    gpus : GPUs available to jobs; without any, a job that runs a model takes one core
    """
    work = operations(extent, jobs)
    share = extent.study.jobs_per_gpu if gpus else 1
    seconds = {key: value / share for key, value in seconds_of(extent, work, measured).items()}
    unit = _unit(gpus)
    where = ", ".join([several(cores, "core"), *([several(gpus, "GPU")] if gpus else [])])
    lines = [f"What {extent.study.study} will cost with {where}", ""]
    lines += stages(extent, jobs, work, seconds, measured, cores, gpus)
    lines += [
        "",
        *dearest(seconds, unit),
        "",
        *models(extent, jobs, seconds, unit),
        "",
        *disk(extent, jobs, gpus * share or cores),
        *largest_request(extent, jobs, gpus > 0),
        "",
        "assumed",
    ]
    lines += [f"  {line}" for line in counted(len(jobs), where)]
    lines += [f"  {line}" for line in assumptions(extent, measured, source)]
    return "\n".join(lines)


def seconds_of(extent: Extent, work: Work, measured: Speed) -> Work:
    """Seconds of computing for each entry of `work`, without the start-up of jobs."""
    names = list(extent.configs)
    return {key: flops / measured.rates[names.index(key[0])][key[2]] for key, flops in work.items()}


def stages(
    extent: Extent, jobs: list[graph.Job], work: Work, seconds: Work, measured: Speed, cores: int, gpus: int
) -> Iterator[str]:
    """One line per stage and one for all: jobs, operations, hours of computing, wall time."""
    yield f"{'stage':<17} {'jobs':>6} {'PFLOP':>12} {_unit(gpus):>12}   wall time"
    total = [0.0, 0.0, 0.0]
    share = extent.study.jobs_per_gpu if gpus else 1
    for stage, of_stage in graph.by_stage(jobs).items():
        runs_model = stage in STAGES
        flops, computing = (_sum(values, stage=stage) for values in (work, seconds))
        start = measured.model_start if runs_model or stage == "tokenize" else measured.light_start
        planned = sum(not runs_model or extent.knows(job.wildcards) for job in of_stage)
        each = gpus_of_a_job(extent, stage, gpus > 0) if runs_model else 1
        per_gpu = share / each if runs_model else 1
        if runs_model and STAGES[stage].gpus == "layers":
            computing *= each  # one works while the others wait
        busy = computing + planned * start / per_gpu
        wall = busy / min((gpus or cores) if runs_model else cores, max(planned, 1) / per_gpu)
        numbers = f"{flops / 1e15:12,.3f} {busy / 3600:12,.2f}" if runs_model else f"{'':>25}"
        yield f"{stage:<17} {len(of_stage):6,} {numbers}   {duration(wall)}"
        total = [total[0] + flops, total[1] + busy * runs_model, total[2] + wall]
    numbers = f"{total[0] / 1e15:12,.3f} {total[1] / 3600:12,.2f}"
    yield f"{'total':<17} {len(jobs):6,} {numbers}   {duration(total[2])}"


def gpus_of_a_job(extent: Extent, stage: str, gpu: bool) -> float:
    """GPUs that a job of `stage` takes, the mean over models."""
    each = [memory.gpus(extent.study, name, stage) for name in extent.configs if gpu]
    return sum(each) / len(each) if each else 1.0


def dearest(seconds: Work, unit: str) -> Iterator[str]:
    """A line on the stage that computes longest, its most expensive task, and the setting that reduces it."""
    if not (total := _sum(seconds)):
        return
    stage = max({stage for _, stage, _, _ in seconds}, key=lambda stage: _sum(seconds, stage=stage))
    in_stage: dict[tuple[str, str], float] = {}
    for (_, name, kind, task), value in seconds.items():
        if name == stage:
            in_stage[kind, task] = in_stage.get((kind, task), 0.0) + value
    (kind, task), most = max(in_stage.items(), key=lambda item: item[1])
    whole = sum(in_stage.values())
    yield (
        f"{stage} costs most: {100 * whole / total:.0f} % of the {unit}, {100 * most / whole:.0f} % of that "
        f"for {task}; to reduce it, lower {STAGES[stage].reduced_by[kind].format(task=task)}"
    )


def models(extent: Extent, jobs: list[graph.Job], seconds: Work, unit: str) -> Iterator[str]:
    """One line per model: parameters, hours of each stage that runs it, disk space of its runs."""
    yield f"{'model':<20} {'parameters':>12} " + " ".join(f"{stage:>10}" for stage in PASSES) + "    saved"
    saved = _saved(extent, jobs)
    for name, config in extent.configs.items():
        size = throughput.parameters(config)
        hours = " ".join(f"{_sum(seconds, name, stage) / 3600:10,.2f}" for stage in PASSES)
        yield f"{name:<20} {size / 1e6:11,.1f}M {hours} {_space(saved[name]):>8}"
    yield f"{unit} of computing, without the start-up of jobs"


def learnt(extent: Extent, model: str, method: str) -> int:
    """Bytes of what a run learns of its encoder, and saves; classifiers count for nothing."""
    trains, config = extent.layout.trains(method), extent.configs[model]
    if trains == "adapters":
        settings = extent.study.training.lora
        return NUMBER_BYTES * adapting.size(throughput.empty(config), settings.rank, settings.layers)
    return NUMBER_BYTES * throughput.parameters(config) if trains == "all" else 0


def _saved(extent: Extent, jobs: list[graph.Job]) -> Counter[str]:
    """Model: bytes of what its runs save."""
    saving = ("train", "train_and_keep", "retrain", "pruned_run_and_keep")
    trained = [job.wildcards for job in jobs if job.rule in saving and extent.knows(job.wildcards)]
    saved: Counter[str] = Counter()
    for (model, method), n in Counter((run["model"], run["method"]) for run in trained).items():
        saved[model] += n * learnt(extent, model, method)
    return saved


def disk(extent: Extent, jobs: list[graph.Job], at_once: int) -> Iterator[str]:
    """Disk space: what is kept, and the checkpoints while models are trained."""
    sizes = {name: NUMBER_BYTES * throughput.parameters(config) for name, config in extent.configs.items()}
    known = [job for job in jobs if extent.knows(job.wildcards)]
    kept = [job.wildcards["model"] for job in known if job.rule in ("train_and_keep", "branch")]
    states = CHECKPOINT_NUMBERS * sum(sizes[model] for model in kept)
    tables = 0.0
    for features in (job.wildcards for job in known if job.stage == "features"):
        width = extent.configs[features["model"]].hidden_size
        tables += NUMBER_BYTES * width * extent.sizes[features["task"]].train
    seeds = len(extent.study.seeds)  # which have demonstrations of their own
    for times, lengths in ((1, extent.tokens), (1, extent.targets), (seeds, extent.prompts)):
        for (_, task), n in lengths.items():
            tables += times * TOKEN_BYTES * n * (extent.sizes[task].train + extent.sizes[task].validation)
    for run in extent.runs:
        tables += (
            PREDICTION_BYTES * (1 + len(run.tasks)) * sum(extent.sizes[task].validation for task in run.tasks)
        )
    trained = Counter((run.model, run.method) for run in extent.runs)
    states_of = {run: CHECKPOINT_NUMBERS * learnt(extent, *run) for run in trained}
    largest = sorted((states_of[run] for run in trained.elements()), reverse=True)[:at_once]
    uses = [
        (sum(_saved(extent, jobs).values()), "models"),
        (states, "states from which IAT continues"),
        (tables, "texts, tokens, features and predictions"),
        (sum(largest), "checkpoints"),
    ]
    yield f"disk           {_space(sum(n for n, _ in uses))}: " + ", ".join(
        f"{_space(n)} {use}" for n, use in uses if n
    )


def largest_request(extent: Extent, jobs: list[graph.Job], gpu: bool) -> Iterator[str]:
    """A line on the job that requests most memory."""
    models = dict.fromkeys(
        (job.stage, job.wildcards["model"], extent.layout.trains(job.wildcards.get("method", "")))
        for job in jobs
        if job.stage in STAGES and job.wildcards["model"] in extent.configs
    )
    requested = {
        (stage, name, trains): memory.megabytes(extent.study, name, stage, gpu, trains)
        * (memory.gpus(extent.study, name, stage) if gpu and STAGES[stage].gpus == "all" else 1)
        for stage, name, trains in models
    }
    if requested:
        job = max(requested, key=lambda job: requested[job])
        (stage, name, _), most = job, _space(1e6 * requested[job])
        yield f"memory         {most} is the largest request of a job: {stage} of {name}"


def counted(n: int, where: str) -> Iterator[str]:
    """What of the plan holds elsewhere, and how its jobs are counted."""
    yield f"{n:,} jobs; a dry run counts its target as well, so one more"
    yield f"jobs, PFLOP and memory hold for any number of cores; hours, wall time and checkpoints for {where}"


def assumptions(extent: Extent, measured: Speed, source: str) -> Iterator[str]:
    """The assumptions of the plan, one line each, with their numbers."""
    trained = any(extent.layout.trains(run.method) != "nothing" for run in extent.study.runs)
    for task, size in extent.sizes.items():
        yield f"{task}: {size.train:,} training and {size.validation:,} validation examples, {size.note}"
        lengths: dict[str, list[str]] = {}
        for model in extent.configs:
            origin = (
                "counted in a sample"
                if extent.counted[model, task]
                else "assumed: texts or tokenizer are missing here"
            )
            if trained:
                target = extent.targets.get((model, task))
                both = f" and {target} of its translation" if target else ""
                length = f"{extent.tokens[model, task]} tokens per example{both}, {origin}"
                lengths.setdefault(length, []).append(model)
            if n := extent.prompts.get((model, task)):
                lengths.setdefault(f"{n} tokens per prompt, {origin}", []).append(model)
        for length, names in lengths.items():
            yield f"{task}: {length}" + (f" ({listing(names)})" if len(lengths) > 1 else "")
    for name, (pooling, reason) in extent.pooled.items() if trained else ():
        yield f"{name}: pooling {pooling} ({reason})"
    speeds: dict[str, list[str]] = {}
    for name, rates in zip(extent.configs, measured.rates, strict=True):
        numbers = ", ".join(f"{stage} {rate / 1e9:,.1f}" for stage, rate in rates.items())
        speeds.setdefault(numbers, []).append(name)
    for numbers, names in speeds.items():
        yield f"{listing(names)}: {numbers} GFLOP/s, {source}"
    yield "a backward pass costs two forward passes in training, and one for importance and adapters"
    for name in extent.configs:
        if (several_gpus := extent.study.models[name].gpus) > 1:
            if trained:
                yield f"{name}: training on {several_gpus} GPUs is {several_gpus} times as fast as on one"
            else:
                yield f"{name}: {several_gpus} GPUs hold its layers, and work one after another"
    yield "features of a frozen encoder: one pass over a task's training examples, at the speed of pruning"
    if "atlas" in extent.study.methods and (added := extent.study.atlas.measured):
        yield f"{listing(added)}: a forward and a backward pass over the examples of the atlas"
    yield f"start of a job: {measured.model_start:.1f} s with a model, {measured.light_start:.1f} s without"
    yield "data, tokens, statistics and figures take no time beyond the start of their jobs"
    if extent.study.brain:
        yield "brain encoding takes no time beyond the start of its jobs"
    yield (
        f"disk: {TOKEN_BYTES} bytes per token in tables, {CHECKPOINT_NUMBERS} numbers per parameter in a "
        "checkpoint"
    )


def _unit(gpus: int) -> str:
    return "GPU hours" if gpus else "core hours"


def _sum(values: Work, model: str | None = None, stage: str | None = None) -> float:
    return sum(v for (m, s, *_), v in values.items() if model in (None, m) and stage in (None, s))


def several(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _space(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size < 1e11 else f"{size / 1e12:,.2f} TB"


def find_speed(extent: Extent, python: str, at_once: int, gpu: bool) -> Speed:
    """The speed of every model of the study while `at_once` jobs run; equal configs are measured once.

    Parameters
    ----------
    python : command by which jobs start
    """
    distinct = {config.to_json_string(): config for config in extent.configs.values()}
    every = [*extent.tokens.values(), *extent.prompts.values()]
    mean = round(sum(every) / max(len(every), 1))
    measured = throughput.rates([*distinct.values()], mean, extent.study, python, at_once, gpu)
    by_config = dict(zip(distinct, measured.rates, strict=True))
    rates = [by_config[config.to_json_string()] for config in extent.configs.values()]
    return Speed(rates, measured.model_start, measured.light_start)
