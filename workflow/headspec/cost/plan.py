"""The plan: hours, wall time and disk space that a study will cost, with all assumptions."""

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from headspec.cost import graph, memory, throughput
from headspec.cost.graph import PlannedJob, operations
from headspec.cost.memory import NUMBER_BYTES
from headspec.cost.passes import PASSES, STAGES, WRITE
from headspec.cost.throughput import Speed
from headspec.cost.workload import Extent
from headspec.errors import listing
from headspec.progress import duration
from headspec.training import trainable

CHECKPOINT_NUMBERS = 3  # per parameter: its value and two of AdamW
TOKEN_BYTES = 10  # per token in the tables of texts and of tokens
PREDICTION_BYTES = 16  # per row in the table of predictions


class Times(NamedTuple):
    """Number of jobs of a stage, GPU or core seconds, and seconds of wall time."""

    jobs: int
    busy: float
    wall: float


@dataclass(frozen=True)
class Plan:
    """The plan for a study without results."""

    extent: Extent
    jobs: list[PlannedJob]
    speed: Speed  #: of jobs with every model of `extent`
    measured: str  #: how the speed was measured
    cores: int
    gpus: int  #: for all jobs; without any, a job that runs a model takes one core

    @functools.cached_property
    def work(self) -> pd.Series:
        """Operations by model, stage, kind of pass and task."""
        return operations(self.extent, self.jobs)

    @functools.cached_property
    def seconds(self) -> pd.Series:
        """GPU or core seconds for `work`, without the start-up of jobs."""
        rates = [self.speed.rates[model][kind] for model, _, kind, _ in self.work.index]
        return self.work / rates / self.share

    @property
    def share(self) -> int:
        """Number of jobs that share a GPU."""
        return self.extent.study.jobs_per_gpu if self.gpus else 1

    @property
    def unit(self) -> str:
        return "GPU hours" if self.gpus else "core hours"

    @property
    def known(self) -> list[PlannedJob]:
        """The jobs whose model and tasks are known."""
        return [job for job in self.jobs if self.extent.knows(job.wildcards)]

    def text(self) -> str:
        where = ", ".join([several(self.cores, "core"), *([several(self.gpus, "GPU")] if self.gpus else [])])
        n = f"{len(self.jobs):,} jobs"
        assumed = [
            f"{n}; a dry run counts its target as well, so one more",
            "jobs, PFLOP and memory hold for any number of cores; "
            f"hours, wall time and checkpoints for {where}",
            *self.assumptions(),
        ]
        parts = [
            [f"What {self.extent.study.study} will cost with {where}"],
            self.stages(),
            self.dearest(),
            self.models(),
            [self.disk(), *self.largest_request()],
            ["assumed", *(f"  {line}" for line in assumed)],
        ]
        return "\n\n".join(filter(None, map("\n".join, parts)))

    def stages(self) -> Iterator[str]:
        """Yield a heading, and a line per stage and for the total: jobs, operations, computing, wall time."""
        yield f"{'stage':<17} {'jobs':>6} {'PFLOP':>12} {self.unit:>12}   wall time"
        work = self.work.groupby("stage").sum()
        for stage, (n, busy, wall) in self.times.items():
            numbers = f"{work.get(stage, 0.0) / 1e15:12,.3f} {busy / 3600:12,.2f}" if stage in STAGES else ""
            yield f"{stage:<17} {n:6,} {numbers:25}   {duration(wall)}"
        busy = sum(times.busy for stage, times in self.times.items() if stage in STAGES)
        numbers = f"{self.work.sum() / 1e15:12,.3f} {busy / 3600:12,.2f}"
        yield f"{'total':<17} {len(self.jobs):6,} {numbers}   {duration(self.wall)}"

    @property
    def wall(self) -> float:
        """Seconds of wall time of all jobs."""
        return sum(times.wall for times in self.times.values())

    @functools.cached_property
    def times(self) -> dict[str, Times]:
        """Number of jobs, GPU or core seconds and wall time of each stage."""
        seconds, times = self.seconds.groupby("stage").sum(), {}
        for stage, jobs in graph.by_stage(self.jobs).items():
            if stage in STAGES:
                planned = sum(self.extent.knows(job.wildcards) for job in jobs)
                gpus = self._gpus_per_job(stage)
                at_once, share = self.gpus or self.cores, self.share / gpus
                waiting = gpus if STAGES[stage].gpus == "layers" else 1  # one works while the others wait
                busy = seconds.get(stage, 0.0) * waiting + planned * self.speed.model_start / share
            else:
                start = self.speed.model_start if stage == "tokenize" else self.speed.light_start
                planned, at_once, share = len(jobs), self.cores, 1
                busy = planned * start
            times[stage] = Times(len(jobs), busy, busy / min(at_once, max(planned, 1) / share))
        return times

    def _gpus_per_job(self, stage: str) -> float:
        """Return the GPUs that a job of `stage` uses, averaged over models."""
        each = [memory.gpus(self.extent.study, name, stage) for name in self.extent.configs if self.gpus]
        return sum(each) / len(each) if each else 1.0

    def dearest(self) -> Iterator[str]:
        """Yield a line on the costliest stage, its costliest task, and the setting that reduces the cost."""
        if not (total := self.seconds.sum()):
            return
        stage = str(self.seconds.groupby("stage", sort=False).sum().idxmax())
        parts = self.seconds.xs(stage, level="stage").groupby(["purpose", "task"], sort=False).sum()
        purpose, task = parts.index.to_list()[int(parts.argmax())]
        yield (
            f"{stage} costs most: {100 * parts.sum() / total:.0f} % of the {self.unit}, "
            f"{100 * parts.max() / parts.sum():.0f} % of that for {task}; "
            f"to reduce it, lower {self._reduced_by(stage, purpose).format(task=task)}"
        )

    def _reduced_by(self, stage: str, purpose: str) -> str:
        by = STAGES[stage].reduced_by
        return f"tasks.{{task}}.max_new_tokens, or {by['prune']}" if purpose == WRITE else by[purpose]

    def models(self) -> Iterator[str]:
        """Yield a heading, a line per model (parameters, hours of main stages, disk space), and a note."""
        stages = " ".join(f"{stage:>10}" for stage in PASSES)
        yield f"{'model':<20} {'parameters':>12} {stages}    saved"
        saved, seconds = self.saved(), self.seconds.groupby(["model", "stage"]).sum()
        for name in self.extent.configs:
            size = self.extent.count(throughput.parameters, name)
            hours = " ".join(f"{seconds.get((name, stage), 0.0) / 3600:10,.2f}" for stage in PASSES)
            yield f"{name:<20} {size / 1e6:11,.1f}M {hours} {_space(saved[name]):>8}"
        yield f"{self.unit} of compute time, excluding the start-up of jobs"

    def learnt(self, model: str, method: str) -> float:
        """Return the bytes of what a run trains in its encoder and saves, without classifiers."""
        trains = self.extent.layout.study.trains(method)
        if trains == "adapters":
            lora, empty = self.extent.study.training.lora, throughput.empty(self.extent.configs[model])
            return NUMBER_BYTES * trainable.size(empty, lora.rank, lora.layers)
        return NUMBER_BYTES * self.extent.count(throughput.parameters, model) if trains == "all" else 0

    def saved(self) -> dict[str, float]:
        """Return the bytes that each model's runs save."""
        models = [job for job in self.known if any(path.endswith(".safetensors") for path in job.outputs)]
        saved = dict.fromkeys(self.extent.configs, 0.0)
        for run, n in Counter((job.wildcards["model"], job.wildcards["method"]) for job in models).items():
            saved[run[0]] += n * self.learnt(*run)
        return saved

    def disk(self) -> str:
        """Return a line on the disk space of what is kept, and of checkpoints during training."""
        extent, states, tables = self.extent, 0.0, 0.0
        for job in self.known:
            keeps = STAGES[job.stage].keeps if job.stage in STAGES else ""
            if keeps == "state" and any(path.endswith(".pt") for path in job.outputs):
                parameters = extent.count(throughput.parameters, job.wildcards["model"])
                states += CHECKPOINT_NUMBERS * NUMBER_BYTES * parameters
            elif keeps == "vectors":
                width = extent.configs[job.wildcards["model"]].hidden_size
                tables += NUMBER_BYTES * width * extent.sizes[job.wildcards["task"]].train
        seeds = len(extent.study.seeds)  # each has its own demonstrations
        for (_, task), n in extent.lengths.items():
            examples = extent.sizes[task].train + extent.sizes[task].validation
            tables += TOKEN_BYTES * (n.example + n.target + seeds * n.prompt) * examples
        for run in extent.runs:
            validated = sum(extent.sizes[task].validation for task in run.tasks)
            tables += PREDICTION_BYTES * (1 + len(run.tasks)) * validated
        trained = Counter((run.model, run.method) for run in extent.runs)
        trainings = {run: CHECKPOINT_NUMBERS * self.learnt(*run) for run in trained}
        checkpoints = [trainings[run] for run in trained.elements()]
        at_once = self.gpus * self.share or self.cores
        uses = {
            "models": sum(self.saved().values()),
            "states from which IAT continues": states,
            "texts, tokens, features and predictions": tables,
            "checkpoints": sum(sorted(checkpoints, reverse=True)[:at_once]),
        }
        parts = ", ".join(f"{_space(n)} {use}" for use, n in uses.items() if n)
        return f"disk           {_space(sum(uses.values()))}: {parts}"

    def largest_request(self) -> Iterator[str]:
        """Yield a line on the job that requests most memory."""
        extent, gpu = self.extent, self.gpus > 0
        models = dict.fromkeys(
            (job.stage, job.wildcards["model"], extent.layout.study.trains(job.wildcards.get("method", "")))
            for job in self.jobs
            if job.stage in STAGES and job.wildcards["model"] in extent.configs
        )
        asked = {
            (stage, model, trains): memory.megabytes(extent.study, model, stage, gpu, trains)
            * (memory.gpus(extent.study, model, stage) if gpu and STAGES[stage].gpus == "all" else 1)
            for stage, model, trains in models
        }
        if asked:
            (stage, model, _), most = max(asked.items(), key=lambda item: item[1])
            yield f"memory         {_space(1e6 * most)} is the largest request of a job: {stage} of {model}"

    def assumptions(self) -> Iterator[str]:
        """Yield the assumptions of the plan, one line each, with their numbers."""
        extent, study = self.extent, self.extent.study
        trained = any(extent.layout.study.trains(run.method) != "nothing" for run in study.runs)
        for task, size in extent.sizes.items():
            yield f"{task}: {size.train:,} training and {size.validation:,} validation examples, {size.note}"
            yield from self._lengths(task, trained)
        for name, (pooling, reason) in extent.pooled.items() if trained else ():
            yield f"{name}: pooling {pooling} ({reason})"
        speeds: dict[str, list[str]] = {}
        used = {*PASSES, *self.work.index.get_level_values("purpose")}
        for name, rates in self.speed.rates.items():
            numbers = ", ".join(f"{kind} {rate / 1e9:,.1f}" for kind, rate in rates.items() if kind in used)
            speeds.setdefault(numbers, []).append(name)
        for numbers, names in speeds.items():
            yield f"{listing(names)}: {numbers} GFLOP/s, {self.measured}"
        yield "a backward pass costs two forward passes in training, and one for importance and adapters"
        for name in extent.configs:
            if (gpus := study.models[name].gpus) > 1 and trained:
                yield f"{name}: training on {gpus} GPUs is {gpus} times as fast as on one"
            elif gpus > 1:
                yield f"{name}: {gpus} GPUs hold its layers, and work one after another"
        features = "one pass over a task's training examples, at the speed of pruning"
        yield f"features of a frozen encoder: {features}"
        if "atlas" in study.methods and (added := study.atlas.measured):
            yield f"{listing(added)}: a forward and a backward pass over the examples of the atlas"
        starts = self.speed.model_start, self.speed.light_start
        yield "start of a job: {:.1f} s with a model, {:.1f} s without".format(*starts)
        yield "data, tokens, statistics and figures take no time beyond the start of their jobs"
        if study.brain:
            yield "brain encoding takes no time beyond the start of its jobs"
        yield (
            f"disk: {TOKEN_BYTES} bytes per token in tables, {CHECKPOINT_NUMBERS} numbers per parameter in a "
            "checkpoint"
        )

    def _lengths(self, task: str, trained: bool) -> Iterator[str]:
        """Yield the numbers of tokens of a task, with the names of models where they differ."""
        lengths: dict[str, list[str]] = {}
        for model in self.extent.configs:
            n = self.extent.lengths[model, task]
            origin = "counted in a sample" if n.counted else "assumed: texts or tokenizer are missing here"
            if trained:
                both = f" and {n.target} of its translation" if n.target else ""
                lengths.setdefault(f"{n.example} tokens per example{both}, {origin}", []).append(model)
            if n.prompt:
                lengths.setdefault(f"{n.prompt} tokens per prompt, {origin}", []).append(model)
        for length, names in lengths.items():
            yield f"{task}: {length}" + (f" ({listing(names)})" if len(lengths) > 1 else "")


def several(n: int, noun: str) -> str:
    """Return a number with its noun, plural unless it is 1."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _space(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size < 1e11 else f"{size / 1e12:,.2f} TB"
