"""Input files of rules, as functions of a job."""

import itertools

from headspec.config import methods
from headspec.config.measures import heads as head_measures
from headspec.config.measures import similarity as measures
from headspec.config.runs import PRETRAINED, Run
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.jobs.shared_texts import text_sources, unread_leaks
from headspec.pipeline.layout import PROMPTS
from headspec.tasks.registry import kind
from headspec.text_values import named

# --- texts and their tokens


def validation_tables(job: Job, runs: list[Run]) -> list[str]:
    """Return the validation tables of the tasks of `runs` that share texts."""
    return [job.layout.data(task, "validation") for task in text_sources(job, runs)]


def training_tables(job: Job) -> list[str]:
    """Return the training tables of all tasks that a model learns, for its vocabulary."""
    return [job.layout.data(task, "train") for task in job.layout.learnt_tasks]


def vocabulary(job: Job) -> list[str]:
    """Return the vocabulary of the job's model, if it has no tokenizer."""
    made = job.model.transformer
    return [job.layout.result("vocabulary", f"{job.wildcards.model}.parquet")] if made else []


def evaluated_elsewhere(job: Job) -> list[str]:
    """Return tables on which other tasks are evaluated, for tasks that only the job can compare."""
    return [
        job.layout.data(task, name)
        for task in unread_leaks(job)
        for name in ["validation", *(f"further/{name}" for name in job.study.tasks[task].further)]
    ]


def split_base(job: Job) -> str:
    """Return the table that a job on another split needs for classes, or to compare texts."""
    split = {"further": "validation", "test": "train"}[job.wildcards.section]
    return job.layout.data(job.wildcards.task, split)


def more_splits(job: Job, split: str, folder: str) -> list[str]:
    """Return the tables of the further splits or test sets of a run's tasks, in order."""
    path = folder.format(**job.wildcards)
    return [
        job.layout.result(path, task, split, f"{name}.parquet") for name, task in job.names(split).items()
    ]


def tokens(job: Job, split: str) -> list[str]:
    """Return tokens of a split, or of its prompts, for a run's tasks in order."""

    def folder(name: str) -> str:
        worded = job.trains() == "nothing" and kind(job.study.tasks[name]).prompts
        return (PROMPTS if worded else "tokens/{model}/{task}").format(**{**job.wildcards, "task": name})

    return [job.layout.result(folder(name), f"{split}.parquet") for name in job.tasks]


def targets(job: Job, split: str) -> list[str]:
    """Return the tokens of a split of each of a run's translations."""
    model = job.wildcards.model
    return [job.layout.result("tokens", model, task, f"{split}.parquet") for task in job.translations()]


def features(job: Job) -> list[str]:
    """Return features for a run's tasks on texts, if its method is frozen and seeds share the encoder."""
    if job.model.weights != PRETRAINED or job.trains() != "classifiers":
        return []
    tasks = [name for name, task in job.tasks.items() if kind(task).pooled]
    return [job.layout.result("features", job.wildcards.model, f"{name}.parquet") for name in tasks]


# --- runs


def branch(job: Job, name: str) -> str:
    """Return a file of the branch that a variant of training continues."""
    assert job.variant.delta is not None  # only plain training has none
    return job.run_file(f"branch/{named(job.variant.delta)}/{name}", method=job.variant.base)


def owner_rankings(job: Job) -> list[str]:
    """Return the tables by which each task of a variant ranks its heads; empty if importance ranks them."""
    if not (ranking := job.retraining.ranking):
        return []
    return [job.run_file(f"atlas/{ranking}.parquet", mixture=task, method="single") for task in job.tasks]


def source_model(job: Job) -> list[str]:
    """Return the model whose encoder is transferred; empty for the method pretrained."""
    return [] if job.wildcards.method == PRETRAINED else [job.run_file("model/classifiers.json")]


def predictions(job: Job) -> list[str]:
    """Return predictions for test sets, by a run of the mixture or by single-task runs."""
    mixtures = [job.wildcards.mixture]
    if job.wildcards.method == "single":
        mixtures = list(dict.fromkeys(job.names("test").values()))
    return [job.run_file("submission.parquet", mixture=mixture) for mixture in mixtures]


def ranking_tables(job: Job) -> list[str]:
    """Return a run's tables of the measures that rank its heads."""
    names = head_measures.tables(job.study.atlas.rankings)
    return [job.run_file(f"atlas/{name}.parquet") for name in names]


def behaviour_texts(job: Job) -> list[str]:
    """Return the training texts of a run's tasks, if a behaviour of heads reads them."""
    if not head_measures.MEASURES[job.wildcards.measure].reads:
        return []
    return [job.layout.data(task, "train") for task in job.tasks]


def ranked_table(job: Job) -> str:
    """Return the table of a run from which a ranking is computed."""
    return job.run_file(f"atlas/{job.study.atlas.derived[job.wildcards.measure]}.parquet")


# --- texts from which other tables are made; users' files are params, by content


def source(job: Job, split: str) -> list[str]:
    """Return the table from which a task's pairs are made; empty for a task with its own source."""
    return [job.layout.data(job.task.pairs_of, split)] if job.task.pairs_of else []


def sentences(job: Job) -> list[str]:
    """Return the compared tasks' validation tables, from which sentences are taken if there is no file."""
    if job.study.similarity.sentences:
        return []
    return [job.layout.data(task, "validation") for task in job.layout.compared]


def treebank_texts(job: Job) -> list[str]:
    """Return the texts of the atlas's tasks, the source of its sentences if there is no treebank."""
    if job.study.atlas.treebank:
        return []
    return [job.layout.data(task, "validation") for task in job.layout.atlas_tasks]


def compared_tables(job: Job) -> list[str]:
    """Return the tables from which the configured measures compare tasks."""
    study = job.study
    every = itertools.product(
        measures.entries(study.similarity.measures, methods.alone(study.methods)).values(),
        study.models, study.seeds, job.layout.compared,
    )  # fmt: skip
    paths = (
        each["path"].format(model=model, seed=seed, task=task)
        for each, model, seed, task in every
        if each["path"]
    )
    return [job.layout.result(path) for path in dict.fromkeys(paths)]
