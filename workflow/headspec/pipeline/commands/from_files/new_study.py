"""A commented study of files: their tasks, one model, and one mixture of all tasks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headspec import __version__
from headspec.config import loading
from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.data import reading_report
from headspec.data.prepare import class_names
from headspec.data.tasks_read import TasksRead
from headspec.errors import ConfigError, HeadspecError, listing, nearest
from headspec.models.pretrained import config_json, folders
from headspec.pipeline import preflight
from headspec.pipeline.commands.from_files import found
from headspec.pipeline.commands.from_files.found import Found
from headspec.redaction import redacted
from headspec.tasks.registry import KINDS

#: short names of models of the hub
SHORT = {
    "albert": "albert/albert-base-v2@8e2f239c5f8a2c0f253781ca60135db913e5c80c",
    "bert": "google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594",
    "bert-cased": "google-bert/bert-base-cased@cd5ef92a9fb2f889e972770a36d4ed042daf221e",
    "bert-large": "google-bert/bert-large-uncased@6da4b6a26a1877e173fca3225479512db81a5e5b",
    "bge-small": "BAAI/bge-small-en-v1.5@5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    "deberta": "microsoft/deberta-v3-base@82d8d18a7b88346261ba15d8b1044900a452cf90",
    "roberta": "FacebookAI/roberta-base@e2da8e2f811d1448a5b465c236feacd80ffbac7b",
}
SEEDS = [0, 1, 2]
#: methods of a new study: a model that learns, and its control
METHODS = ("tuned", "frozen")
TRAINED = "tuned: all weights learn; frozen, the control: only classifiers"
#: makes sections that fit a time: takes a config, and returns the sections and a line on them
Fit = Callable[[dict[str, Any]], tuple[dict[str, Any], str]]


def model_source(given: str) -> tuple[str, str]:
    """Return name and source of a model: a short name, a folder, or a name on the hub.

    A name on the hub without revision gets the present commit, or ``main`` if it is unknown. Raises
    ConfigError for anything else.
    """
    if given in SHORT:
        return given, f"hub:{SHORT[given]}"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(given.partition("@")[0]).name).strip("-._") or "model"
    if Path(given).expanduser().exists() or given.startswith("package:"):
        return name, given
    bare = given.removeprefix("hub:")
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(@[\w./-]+)?", bare):
        raise ConfigError(
            f"--model: got '{given}', expected {listing(SHORT)}, a folder, or <owner>/<name> on the hub."
            f"{nearest(given, SHORT)}"
        )
    source = f"hub:{bare}"
    return name, source if "@" in bare else f"{source}@{folders.hub_commit(source) or 'main'}"


def write_study(files: Sequence[str], model: str, out: Path, fit: Fit | None = None) -> str:
    """Write a study of the tasks in `files`, and return what to do next.

    Raises HeadspecError if `out` exists, a file has no task, or the study cannot be planned.
    """
    if out.exists():
        raise ConfigError(f"{out}: already exists; choose another name by --study")
    tasks = [found.find(file) for file in files]
    named = dict(zip(found.names(tasks), tasks, strict=True))
    config = _config(named, model, out.stem)
    study = preflight.load(config)
    planned = preflight.check(study)
    for name, prepared in planned.prepared.items():
        classes = class_names(prepared.classes)
        if KINDS[study.tasks[name].type].classes and 1 < len(classes) <= reading_report.SHOWN:
            config["tasks"][name]["labels"] = classes
    fitted, said = fit(config) if fit else ({}, "")
    text = _text(config | fitted, named, study, planned, said)
    _check(text)
    with out.open("x", encoding="utf-8") as file:
        file.write(text)
    return f"{out}: {listing(named)}\n\nheadspec plan {out}\nsnakemake --configfile {out} --cores all"


def _config(tasks: Mapping[str, Found], model: str, study: str) -> dict[str, Any]:
    """Return the config of a study of `tasks`: one mixture of all, or the run of a single task."""
    name, source = model_source(model)
    kinds = [KINDS[task.keys["type"]] for task in tasks.values()]
    methods = [method for method in METHODS if all(method not in kind.refuses for kind in kinds)]
    if not all(kind.trained for kind in kinds):
        methods = ["prompted"]
    mixtures: dict[str, Any] = {"groups": {"all": [*tasks]}} if len(tasks) > 2 else {"pairs": [*tasks]}
    return {
        "study": re.sub(r"[^A-Za-z0-9._-]+", "-", study).strip("-._") or "study",
        "seeds": SEEDS,
        "models": {name: {"source": source} | _length(source, name)},
        "tasks": {name: dict(task.keys) for name, task in tasks.items()},
        "mixtures": {"single": [*tasks]} if len(tasks) == 1 else mixtures,
        "methods": methods,
    }


def _length(source: str, name: str) -> dict[str, int]:
    """Return `max_length` of a model that supports fewer tokens than the default."""
    model = Model(source=source)
    try:
        longest = config_json.positions(config_json.config_of(model, f"models.{name}") or {})
    except HeadspecError:  # planning says so
        return {}
    return {"max_length": longest} if longest and longest < model.max_length else {}


def _check(text: str) -> None:
    """Raise HeadspecError if a written study cannot be planned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.yaml")
        path.write_text(text, encoding="utf-8")
        _, problems = preflight.problems(preflight.load(loading.strict_yaml(path)))
    if problems:
        raise HeadspecError.combined(problems)


def _text(
    config: dict[str, Any], tasks: Mapping[str, Found], study: Study, planned: TasksRead, fitted: str
) -> str:
    """Return a config as YAML, with comments on its tasks and sections."""
    said = [*planned.report_lines(study), *planned.warnings(study)]
    lines = [f"# Written by headspec {__version__}. Comments describe what was found in the files."]
    for key, value in config.items():
        if key != "tasks":
            lines += _comment(_about(key, value, fitted), "")
            lines.append(_flow(key, value))
            continue
        lines.append("tasks:")
        for name, keys in value.items():
            about = f"tasks.{name}"
            lines += [
                line
                for each in said
                if each.startswith((f"{about}:", f"{about}."))
                for line in _comment(each)
            ]
            for other, n in tasks[name].others.items():
                lines += _comment(f"column '{other}' could be a label, too ({n} values): <file>:{other}")
            lines.append(f"  {_scalar(name)}:")
            lines += [f"    {_flow(one, setting)}" for one, setting in keys.items()]
    rest = [line for line in said if not line.startswith("tasks.")]
    return "\n".join([*lines, *(line for each in rest for line in _comment(each, "")), ""])


def _about(key: str, value: Any, fitted: str) -> str:
    asked = "prompted: nothing is trained"
    return {
        "seeds": "intervals for other seeds need at least three",
        "methods": asked if value == ["prompted"] else TRAINED,
        "training": fitted,
    }.get(key, "")


def _comment(text: str, indent: str = "  ") -> list[str]:
    """Return a comment as a line, none if empty; what YAML would refuse or break a line at is escaped."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in redacted(text))
    return [f"{indent}# {shown}"] if shown else []


def _flow(key: str, value: Any) -> str:
    """Return a key and its value on one line."""
    return f"{_scalar(key)}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**6)
    return written.removesuffix("...\n").strip()
