"""The list of kinds of tasks, and the parts of each."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from snakemake.iocontainers import Wildcards

from headspec.config.loading import load
from headspec.config.sections.task import Task, determinants
from headspec.config.study import Study
from headspec.errors import ConfigError
from headspec.pipeline.jobs import job_code
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from headspec.provenance.code_hash import LIBRARY
from headspec.tasks import parts
from headspec.tasks.kinds.texts.counts import counts
from headspec.tasks.parts import load_part
from headspec.tasks.registry import KINDS
from support.data.sources import config

TASKS = {name: {"source": "x", "type": name} for name in KINDS}
STUDY = Study(**config(TASKS, mixtures={"pairs": ["regression", "tags"]}))


def test_every_kind_is_listed():
    folders = {path.parent.name: path for path in parts.KINDS.glob("*/kind.py")}
    names = {folder: vars(parts.loaded(path)) for folder, path in folders.items()}
    defined = {name.lower() for each in names.values() for name in each if name.endswith("_KIND")}
    alone = {f"{folder}_kind" for folder, each in names.items() if "KIND" in each}
    assert defined | alone == {f"{name}_kind" for name in KINDS}


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_its_metrics_and_says_how_it_is_read_and_counted(name):
    kind, task = KINDS[name], STUDY.tasks[name]
    assert {*kind.metrics} == {*load_part(name, "METRICS")}
    assert {*kind.usual} <= {*kind.metrics} and task.metrics == [*(kind.usual or kind.metrics)]
    read = load_part(name, "DATA")
    assert kind.label_columns in (None, len(read.columns(task)))
    assert counts(task).tokens(None, 10, task, None) is None


@pytest.mark.parametrize("name", KINDS)
def test_keys_of_a_kind_are_keys_of_tasks_and_of_no_other_kind(name):
    fields, kind, task = Task.model_fields, KINDS[name], STUDY.tasks[name]
    assert {*kind.keys, *kind.unused, *kind.defaults} <= {*fields}
    others = {key for other in KINDS.values() for key in other.keys} - {*kind.keys}
    assert {*kind.evaluated} <= {*kind.keys}
    assert {*kind.keys} - {*determinants(task)} == {*kind.evaluated} and not others & {*determinants(task)}
    assert {key: fields[key].default for key in kind.defaults} != kind.defaults or not kind.defaults


def refused(name: str, **more: object) -> str:
    """What is said of a study of a task of this kind, beside one of classes."""
    task = {"source": "a.csv", "type": name} | more.pop("task", {})
    with pytest.raises(ConfigError) as caught:
        load(config({"a": task, "c": {"source": "c.csv"}}, mixtures={"pairs": ["a", "c"]}) | more)
    return str(caught.value)


#: parts of a study that are no methods: how it has them, and what is said where a kind refuses them
REFUSED = {
    "transfer": ({"transfer": {"tasks": ["a"]}}, "transfer.tasks.0: got 'a', a"),
    "iat": ({"iat": {"mixtures": ["a+c"]}}, "iat.mixtures.0: got 'a+c', which must not be a mixture with a"),
    "similarity": (
        {"similarity": {"measures": ["top-heads"]}},
        "similarity.measures: got top-heads, which do not support a",
    ),
    "resample": (
        {"pruning": {"ablation": "resample"}},
        "pruning.ablation: got 'resample', which does not support a",
    ),
}


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, kind in KINDS.items() for part in sorted(kind.refused)]
)
def test_what_a_kind_refuses_is_refused(name, part):
    if part in REFUSED:
        sections, said = REFUSED[part]
        message = refused(name, **sections)
    else:
        said = f"methods.0: got '{part}', which does not support a"
        message = refused(name, methods=[part])
    assert f"{said} task {KINDS[name].called}" in message


@pytest.mark.parametrize("name", KINDS)
def test_metrics_of_other_kinds_are_refused(name):
    other = "accuracy" if name == "regression" else "pearson"
    said = f"tasks.a.metrics.0: got '{other}' for type {name}, expected"
    assert said in refused(name, task={"metrics": [other]})


COLUMNS = ["joy", "love"]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("answer", {"text_b": None}, "text_b: missing, expected the column of the contexts that answers are"),
        ("labels", {"label": ["joy"]}, "label: got the list joy, expected a column of lists of labels, or"),
        ("labels", {"label": ["joy", "joy"]}, "label.1: got 'joy', the column of label.0"),
        ("labels", {"labels": ["joy"]}, "labels: got joy, expected at least two labels"),
        ("labels", {"label": COLUMNS, "labels": ["joy", "loves"]},
            "labels: lacks 'love', a column of tasks.a.label; add all of these. Did you mean 'loves'?"),
        ("labels", {"label": COLUMNS, "labels": [*COLUMNS, "lov"]},
            "labels: got 'lov', not a column of tasks.a.label; use its columns. Did you mean 'love'?"),
        ("labels", {"label": COLUMNS, "separator": ";"},
            "separator: got ';', but tasks.a.label names columns of 0 and 1."),
        ("classification", {"separator": ";"}, "separator: "),
        ("labels", {"test": {"CoLA": "test"}}, "test: not used by a task of labels; remove it"),
        ("labels", {"prompt": "{text_a}?"}, "prompt: got a prompt for a labels task"),
        ("text", {"metrics": ["bits_per_byte"]},
            "metrics.0: got 'bits_per_byte', no metric to compare by; expected token_accuracy first."),
        ("text", {"prompt": "{text_a}"}, "prompt: has no effect on a task of text; remove it."),
        ("text", {"label": ["p", "q"]}, "label: has no effect on a task of text; remove it."),
    ],
)  # fmt: skip
def test_keys_that_make_no_task_are_refused(name, settings, said):
    assert f"tasks.a.{said}" in refused(name, task=settings)


def test_labels_are_not_paired_and_bits_not_compared():
    pairs = {"a": {"source": "a.csv", "type": "labels"}, "c": {"pairs_of": "a"}}
    with pytest.raises(ConfigError, match="tasks.c.pairs_of: got 'a', a labels task"):
        load(config(pairs))
    assert STUDY.compared_metrics["text"] == ["token_accuracy"]


@pytest.mark.parametrize(
    ("wildcards", "kinds"),
    [
        ({"task": "spans"}, {"spans"}),
        ({"mixture": "regression+tags"}, {"regression", "tags"}),
        ({"mixture": "regression+tags", "task": "spans"}, {"regression", "tags", "spans"}),
        ({}, {*KINDS}),
    ],
)
@pytest.mark.parametrize(("part", "loader"), parts.LOADED_BY.items())
def test_the_code_of_a_job_has_parts_of_the_kinds_of_its_tasks(wildcards, kinds, part, loader):
    def found(name: str) -> set[str]:
        job = Job(Layout(STUDY), Wildcards(fromdict=wildcards))
        return {*job_code.with_kinds(job, (str(LIBRARY / name),))} - {str(LIBRARY / name)}

    def modules(names: Iterable[str]) -> set[str]:
        return {str(path) for name in names if (path := parts.file_of(name, part))}

    assert found("tables.py") == set() and found(loader) >= modules(kinds) - {str(LIBRARY / loader)}
    files = (parts.file_of(name, each) for name in kinds for each in parts.LOADED_BY)
    folders = {path.parent for path in filter(None, files)}
    assert {Path(path).parent for path in found(loader)} <= folders


@pytest.mark.parametrize("part", ["DATA", "ENCODING", "HEAD"])
def test_the_code_of_a_job_has_the_annotation_of_words(part):
    """Parts of the family load it by name."""
    module = str(parts.file_of("spans", part))
    found = job_code.with_kinds(Job(Layout(STUDY), Wildcards(fromdict={"task": "spans"})), (module,))
    assert str(parts.file_of("spans", "TASK")) in found
