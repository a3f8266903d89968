# The study, checked, and what the rules share. No rules here.

import fcntl
import functools
import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

LIBRARY = Path(workflow.current_basedir).parent
sys.path.insert(0, str(LIBRARY))

from headspec import (
    devices,
    planned,
    preflight,
    readers,
    records,
    sources,
    submission,
    validation,
    versions,
)
from headspec.errors import HeadspecError
from headspec.locate import locate
from headspec.sections import MEASURED_BY
from headspec.study import Study, plain


def checked(config: dict) -> Study:
    """The study, or one error that names everything wrong with it, before any job starts.

    Only the process that plans reads data and models; the jobs of a cluster trust it.
    """
    try:
        study = validation.load(config)
        if workflow.is_main_process:
            for path in workflow.configfiles + list(workflow.overwrite_configfiles):
                validation.strict_yaml(path)
            preflight.check(study)
    except HeadspecError as error:
        raise WorkflowError(f"the study cannot be run:\n{error}") from None
    return study


def of_models() -> tuple[int, int]:
    """GPUs and threads that every job which runs a model asks for, wherever the workflow is started.

    Jobs that are submitted have a GPU each, unless the profile says that there are none by
    excluding `gpu` from the resources. Else the jobs run here: on a CPU, more of them at once beat
    more threads in each.
    """
    if workflow.resource_scopes.is_excluded("gpu"):
        return 0, 4
    if workflow.resource_scopes.is_local("gpu") or workflow.non_local_exec:
        return 1, 2
    return (1, 2) if devices.gpu_count() else (0, 1)


def share_gpus(jobs: int) -> None:
    """Let `jobs` jobs have one GPU: the limit, `--resources gpu=2`, is one of GPUs and not of jobs."""
    os.environ[devices.JOBS_PER_GPU] = str(jobs)
    limit = workflow.global_resources.get("gpu")
    if limit is not None and not workflow.resource_scopes.is_local("gpu"):
        workflow.global_resources["gpu"] = jobs * limit.value


sources.make_importable()
STUDY = checked(config)
share_gpus(STUDY.jobs_per_gpu)
RESULTS = f"results/{STUDY.study}"
RUN = "runs/{model}/{mixture}/{method}/seed{seed}"
GPU, THREADS = of_models()
MIXTURES = STUDY.mixture_tasks | {task: (task,) for task in STUDY.tasks}
METHODS = dict.fromkeys(run.method for run in STUDY.runs + STUDY.iat_runs)
VARIANTS = {variant.method: variant for variant in STUDY.variants}
BASES = dict.fromkeys(variant.base for variant in STUDY.variants)
RETRAINED = [method for method in VARIANTS if method not in BASES]
MIXED = [run for run in STUDY.runs if run.method != "single"]
SWEEP = [v.method for v in STUDY.variants if v.heads == "top" and v.base == "tuned"]
BEFORE_AND_AFTER = [run for run in STUDY.iat_runs if run.method in ("tuned", "iat")]
TASK_METRICS = {name: task.all_metrics for name, task in STUDY.tasks.items()}
TASK_METRICS |= {name: task.all_metrics for task in STUDY.tasks.values() for name in task.further}
TEST_FILES = submission.written([file for task in STUDY.tasks.values() for file in task.test])
COMPARED = list(STUDY.in_order(STUDY.mixtures.pairs))  # the tasks whose similarity is measured
PARADIGMS = {task: STUDY.tasks[task].paradigm for task in COMPARED}


def result(*parts: str) -> str:
    """A path, possibly with wildcards, in the study's results."""
    return "/".join([RESULTS, *parts])


def log(*parts: str) -> str:
    return result("logs", *parts) + ".log"


def code(script: str) -> dict:
    """The code of a rule, by content: the script and every module it reaches."""
    return sources.closure(LIBRARY / "scripts" / script)


def any_of(names) -> str:
    """A wildcard constraint: one of `names`."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


def settings(section: str, *keys: str) -> dict:
    """The keys of a section of the config that a rule reads."""
    values = plain(getattr(STUDY, section))
    return {key: values[key] for key in keys}


def task_settings(*without: str):
    """Params function: what the config says of a task's data, but for the keys `without`."""

    def of(wildcards) -> dict:
        task = STUDY.tasks[wildcards.task]
        return plain(task.model_dump(exclude={"metrics", "test", *without}))

    return of


def split_settings(wildcards) -> dict:
    """What the config says of a task's data and one more split."""
    task = STUDY.tasks[wildcards.task]
    stored = getattr(task, wildcards.kind)[wildcards.name]
    values = plain(task.model_dump(exclude={"metrics", "further", "test", "train_examples"}))
    return values | {wildcards.kind: {wildcards.name: stored}}


def place(path) -> str:
    """A user's file as rules name it: from here if it is below, else as it is."""
    path = os.path.abspath(path)
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here


def source_files(split: str):
    """Input function: local files of a task's source, or the split of the task that its pairs come from."""

    def of(wildcards) -> list:
        task = STUDY.tasks[wildcards.task]
        if task.pairs_of:
            return [result("data", task.pairs_of, f"{split}.parquet")]
        return [place(path) for path in readers.files(task)]

    return of


@functools.cache
def all_leaks() -> dict:
    return planned.leaks(STUDY, planned.read(STUDY))


def leaks(wildcards) -> dict:
    """The other tasks that are evaluated on examples of a task's source, and the keys of these."""
    return {o: keys for o, keys in all_leaks()[wildcards.task].items() if keys is not None}


def evaluated_elsewhere(wildcards) -> list:
    """Input function: what other tasks are evaluated on, where only the job can compare it."""
    return [
        result("data", task, f"{name}.parquet")
        for task, keys in all_leaks()[wildcards.task].items()
        if keys is None
        for name in ["validation", *(f"further/{name}" for name in STUDY.tasks[task].further)]
    ]


def split_base(wildcards) -> str:
    """Input function: the table of a task that one more split is read after: for classes, or to compare."""
    split = {"further": "validation", "test": "train"}[wildcards.kind]
    return result("data", wildcards.task, f"{split}.parquet")


def split_files(wildcards) -> list:
    """The local files that one more split of a task is made of."""
    task = STUDY.tasks[wildcards.task]
    wanted = getattr(task, wildcards.kind)[wildcards.name]
    return [place(path) for path in readers.files(task, wanted)]


def more_names(kind: str, mixture: str) -> dict:
    """Further splits, or files of test sets, of a mixture's tasks (`kind`): their task, in order."""
    return {name: task for task in MIXTURES[mixture] for name in getattr(STUDY.tasks[task], kind)}


def more_splits(kind: str, folder: str):
    """Input function: the further splits, or test sets, of a run's tasks, in order."""

    def of(wildcards) -> list:
        names = more_names(kind, wildcards.mixture)
        return [
            result(folder.format(**wildcards), task, kind, f"{name}.parquet")
            for name, task in names.items()
        ]

    return of


def predicted(wildcards) -> list:
    """Input function: predictions for test sets, of a mixture's run or of its tasks' own."""
    if wildcards.method == "single":
        mixtures = dict.fromkeys(more_names("test", wildcards.mixture).values())
    else:
        mixtures = [wildcards.mixture]
    method = f"{wildcards.method}/seed{wildcards.seed}"
    return [
        result("runs", wildcards.model, mixture, method, "submission.parquet")
        for mixture in mixtures
    ]


def parts(wildcards, attempt: int) -> int:
    """Resource: by how much batches are smaller, in case memory ran out; the numbers stay the same."""
    return 2 ** (attempt - 1)


def larger(wildcards, attempt: int) -> int:
    """Resource: memory of a job that runs a model, in MB."""
    return 12000 * attempt


def source_version(wildcards) -> str:
    task = STUDY.tasks[wildcards.task]
    return readers.version(task) if task.source else ""


def model_settings(*keys: str):
    """Params function: what the config says of a run's model."""

    def of(wildcards) -> dict:
        values = plain(STUDY.models[wildcards.model])
        return {key: values[key] for key in keys}

    return of


def weights_version(wildcards) -> str:
    """Which version of its pretrained model's config and weights a rule reads."""
    return version(versions.weights, wildcards.model)


def tokenizer_version(wildcards) -> str:
    """Which version of its pretrained model's config and tokenizer a rule reads."""
    return version(versions.tokenizer, wildcards.model)


def version(of, name: str) -> str:
    """Version of a model; an error where it is not known and the study has results of the model."""
    try:
        return of(STUDY.models[name], f"models.{name}", Path(result("encoded", name)))
    except HeadspecError as error:
        raise WorkflowError(str(error)) from None


def run_tasks(wildcards) -> list:
    """The tasks of a run's mixture, in order."""
    return list(MIXTURES[wildcards.mixture])


def run_metrics(wildcards) -> dict:
    return {task: TASK_METRICS[task] for task in MIXTURES[wildcards.mixture]}


def main_metrics(wildcards) -> dict:
    return {task: metrics[0] for task, metrics in run_metrics(wildcards).items()}


def encoded(split: str):
    """Input function: the encoded split of each of a run's tasks, in order."""

    def of(wildcards) -> list:
        return [
            result("encoded", wildcards.model, task, f"{split}.parquet")
            for task in MIXTURES[wildcards.mixture]
        ]

    return of


def features(wildcards) -> list:
    """Input function: what a run of method frozen learns from, of each of its tasks, in order."""
    tasks = MIXTURES[wildcards.mixture] if wildcards.method == "frozen" else []
    return [result("features", wildcards.model, f"{task}.parquet") for task in tasks]


def train_settings(wildcards) -> dict:
    """The training settings that a run's method uses."""
    values = plain(STUDY.training.model_dump(exclude={"checkpoint_minutes"}))
    frozen = values.pop("frozen")
    if wildcards.method == "frozen":
        return values | frozen
    variant = VARIANTS.get(wildcards.method)
    return values | {"sampling": variant.sampling} if variant else values


def branch_of(name: str):
    """Input function: a file of the branch that a variant of training goes on from."""

    def of(wildcards) -> str:
        variant = VARIANTS[wildcards.method]
        folder = f"{wildcards.model}/{wildcards.mixture}/{variant.base}/seed{wildcards.seed}"
        return result("runs", folder, f"branch/{variant.delta:g}", name)

    return of


def variant_settings(wildcards) -> dict:
    """Which heads a variant moves, and how many."""
    values = plain(VARIANTS[wildcards.method])
    return {key: values[key] for key in ("heads", "alpha")}


def source_model(wildcards) -> list:
    """Input function: the run whose encoder is transferred; nothing, for the unchanged one."""
    if wildcards.method == "pretrained":
        return []
    folder = f"{wildcards.model}/{wildcards.mixture}/{wildcards.method}/seed{wildcards.seed}"
    names = ("model.safetensors", "config.json", "heads.json")
    return [result("runs", folder, "model", name) for name in names]


def of_seeds(name: str):
    """Input function: a table of each seed's run of a model, mixture and method."""

    def of(wildcards) -> list:
        folder = f"{wildcards.model}/{wildcards.mixture}/{wildcards.method}"
        return [result("runs", folder, f"seed{seed}", name) for seed in STUDY.seeds]

    return of


def of_singles(name: str):
    """Input function: a file of each compared task's single-task run."""

    def of(wildcards) -> list:
        return [
            result("runs", wildcards.model, task, "single", f"seed{wildcards.seed}", name)
            for task in COMPARED
        ]

    return of


def of_compared(wildcards) -> list:
    """Input function: the encoded training samples of each compared task."""
    return [result("encoded", wildcards.model, task, "train.parquet") for task in COMPARED]


def of_models_and_seeds(rule_name: str, name: str) -> list:
    """A table of each model and seed, if the config asks for measures that need it."""
    return [
        result("similarity", model, f"seed{seed}", name)
        for model in STUDY.models
        for seed in STUDY.seeds
        if STUDY.similarity.asked(rule_name)
    ]


def probe_sources(wildcards) -> list:
    """Input function: what the probe is made of, the user's file or the texts of all compared tasks."""
    if STUDY.similarity.probe:
        return [place(locate(STUDY.similarity.probe, "similarity.probe"))]
    return [result("data", task, "validation.parquet") for task in COMPARED]


def user_file(key: str):
    """Input function: the file that a key of the section `brain` names."""
    return lambda wildcards: place(locate(getattr(STUDY.brain, key), f"brain.{key}"))


def training_texts() -> list:
    """The training texts of the compared tasks, each once: a task of pairs has those of the task it is from."""
    tasks = dict.fromkeys(STUDY.tasks[task].pairs_of or task for task in COMPARED)
    return [result("data", task, "train.parquet") for task in tasks]


def figure(name: str) -> list:
    """Output: a figure in every format of the config."""
    return [result("figures", f"{name}.{kind}") for kind in STUDY.figures.formats]


def figures() -> list:
    """Every figure of the study."""
    per_study = ["dissociation", "reliability", *(f"fractions.{model}" for model in STUDY.models)]
    combinations = {(r.model, r.mixture, r.method): None for r in MIXED}
    per_mixture = [
        f"{kind}.{model}.{mixture}.{method}"
        for kind in ("importance", "matrix", "curves")
        for model, mixture, method in combinations
    ]
    of_similarity = [f"scatter.{measure}" for measure in STUDY.similarity.measures]
    if of_similarity:
        of_similarity += ["correlation", *(f"similarity.{model}" for model in STUDY.models)]
    if STUDY.brain:
        of_similarity += [f"encoding.{model}" for model in STUDY.models]
    return [path for name in per_study + per_mixture + of_similarity for path in figure(name)]


def iat_figures() -> list:
    """The figures of IAT: of every model, and mixture that is trained so."""
    kinds = ["improvement", "specialization", *(["alpha-delta"] if len(SWEEP) > 1 else [])]
    return [
        path
        for kind in kinds
        for model in STUDY.models
        for mixture in STUDY.iat.mixtures
        for path in figure(f"{kind}.{model}.{mixture}")
    ]


def transfer_figures() -> list:
    """Every figure of few-shot transfer."""
    names = [f"transfer.{model}.{task}" for model in STUDY.models for task in STUDY.transfer.tasks]
    return [path for name in names for path in figure(name)]


def configured(there: bool, expected: str):
    """Input function of a named target: no input, but an error where the config has nothing for it."""

    def check(wildcards) -> list:
        if not there:
            raise WorkflowError(f"the config has nothing to make there: expected {expected}")
        return []

    return check


def lock_folder() -> None:
    """Refuse a second workflow in this folder; the lock ends with this process, however it ends."""
    global _lock
    _lock = open(".snakemake/headspec.lock", "w")
    try:
        fcntl.flock(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise WorkflowError(
            "another snakemake is running in this folder; wait for it or stop it"
        ) from None


def remake() -> str:
    """The command that makes all results of the study again."""
    configs = " ".join(os.path.relpath(path) for path in workflow.overwrite_configfiles)
    targets = " all iat" if STUDY.iat != type(STUDY.iat)() and "iat" not in STUDY.methods else ""
    given = f" --configfile {configs}" if configs else ""
    return f"`snakemake{given} --cores all --forceall{targets}`"


def compare_results() -> None:
    """Tell Snakemake what made results that it has no record of, and the user what is of other versions."""
    try:
        records.restore(Path(RESULTS))
    except HeadspecError as error:
        logger.warning(str(error))
    if told := records.outdated(Path(RESULTS), remake()):
        logger.warning(told)


if workflow.is_main_process and os.path.isdir(RESULTS):
    compare_results()


# the same in every rule: a path is one run's in one way only, though names hold dots and dashes
wildcard_constraints:
    model=any_of(STUDY.models),
    mixture=any_of(MIXTURES),
    method=any_of(METHODS),
    seed=r"\d+",
