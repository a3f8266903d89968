"""``headspec export``: write a run's model without its least important heads, or those that gates closed."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from headspec import tables
from headspec.config.methods import prompts
from headspec.config.runs import ALL
from headspec.config.sections.model import Model
from headspec.errors import ChangedError, HeadspecError, MissingError, listing, nearest
from headspec.head_arrays import existing
from headspec.heads.ranking import importance_map, top_heads
from headspec.models import tokenization
from headspec.models.batching import Examples
from headspec.models.export.folder import check_onnx_installed, export
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import folders
from headspec.pipeline.state import CONFIG
from headspec.provenance import files
from headspec.tasks.parts import type_of
from headspec.tasks.registry import KINDS
from headspec.training.gated import Sets, last_kept

if TYPE_CHECKING:
    from tokenizers import Tokenizer

RUN = re.compile(
    r"((?P<results>.+)/)?runs/(?P<model>[^/]+)/(?P<mixture>[^/]+)/(?P<method>[^/]+)/seed\d+"
    r"(/gates/(?P<pruning_method>[^/]+)/(?P<scope>shared|per_task)/(?P<kept>[^/]+))?"
)
#: patterns for runs, from the folders above them
BELOW = ("runs/*/*/*/seed*", "*/runs/*/*/*/seed*", "results/*/runs/*/*/*/seed*")
PRUNED = ("seed*/gates/*/*/*/",)
AGAIN = "run snakemake on the study, which makes it again"


@dataclass(frozen=True)
class Chosen:
    """Heads to keep, bool (layers, heads), for one or all `tasks` of a run, and the table they are from."""

    kept: np.ndarray
    task: str | None
    tasks: list[str]
    source: str


def export_run(path: Path, n: int | None = None, task: str | None = None, out: Path | None = None) -> str:
    """Export the model of a run, or of a pruned run; return where it is and how much its logits differ.

    `n` heads (None for a pruned run, which has its own number) are kept for `task`: by default the run's only
    task, or all if they share heads. By default, `out` is ``results/<study>/export/<run>/<task or all>-<n>``.
    Raises HeadspecError before loading the model if anything is missing or does not fit, or after the export
    if the exported model computes something else.
    """
    check_onnx_installed()
    run, place = _run(path)
    if prompts([place["method"]]):
        raise HeadspecError(
            f"{run}: its model answers prompts; export supports only models with classifiers, as of tuned"
        )
    chosen = _kept(run, place, n, task) if place["pruning_method"] else _ranked(run, n, task)
    kept = chosen.kept
    results = Path(place["results"] or ".")
    folder = run.relative_to(results / "runs") / f"{chosen.task or ALL}-{kept.sum()}"
    out = out or results / "export" / folder
    if out.exists():
        raise HeadspecError(f"{out}: exists; delete it, or name another folder with --out")
    own_first = sorted(chosen.tasks, key=lambda name: name != chosen.task)
    tokens = {name: results / "tokens" / place["model"] / name / "validation.parquet" for name in own_first}
    for path in tokens.values():
        if not path.exists():
            raise MissingError(f"{path}: missing; {AGAIN}")
    classes = {name: tables.footer(path)["classes"] for name, path in tokens.items()}
    kinds = {name: KINDS[type_of(labels)] for name, labels in classes.items()}
    if others := {name: kind.called for name, kind in kinds.items() if not kind.pooled}:
        called = next(iter(others.values()))
        raise HeadspecError(
            f"{run}: {listing(others)}: tasks {called}; export supports only tasks on whole texts"
        )
    texts = {name: Examples(tables.read(path)) for name, path in tokens.items()}
    footer = tables.footer(tokens[chosen.tasks[0]])
    tokenizer, source = _tokenizer(footer["job"]["params"], place["model"], results)
    sha256 = {name: files.sha256(run / name) for name in ("model/classifiers.json", chosen.source)}
    asked = "kept_for" if place["pruning_method"] else "ranked_for"
    about = {asked: chosen.task or chosen.tasks, "run": str(run), "sha256": sha256, "encoder": source}
    model = MultiTask.load(run / "model")
    difference = export(model, kept, texts, tokenizer, about, out)
    return (
        f"{out}: {kept.sum()} of {model.gates.exists.sum()} heads, "
        f"by layer {' '.join(map(str, kept.sum(axis=1)))}\n"
        f"logits differ by at most {difference:.1e} from those of the model with the other heads closed"
    )


def _ranked(run: Path, n: int | None, task: str | None) -> Chosen:
    """Return the `n` heads of a run that matter most for a task; raise HeadspecError for another `n`."""
    for name in ("model/classifiers.json", "model/model.safetensors", "importance.parquet"):
        if not (run / name).exists():
            raise MissingError(f"{run}: no {name}; {AGAIN}")
    importance = tables.read(run / "importance.parquet")
    tasks = [str(each) for each in importance["task"].unique()]
    task = _task(task, tasks)
    ranking = importance_map(importance, task)
    total = int(existing(ranking).sum())
    if n is None or not 1 <= n <= total:
        got = "missing" if n is None else f"got {n}"
        raise HeadspecError(f"--heads: {got}, expected 1 to {total}, the heads of the model")
    return Chosen(top_heads(ranking, n), task, tasks, "importance.parquet")


def _kept(run: Path, place: dict[str, str], n: int | None, task: str | None) -> Chosen:
    """Return the heads that a pruned run keeps, those of `task` if each task has its own."""
    for name in ("gates.parquet", "evaluation.parquet"):
        if not (run / name).exists():
            raise MissingError(f"{run}: no {name}; run snakemake gates, which makes it again")
    if not (run / "model" / "classifiers.json").exists():
        raise MissingError(
            f"{run}: no model; add '{place['pruning_method']}' to gates.keep_models and run snakemake gates, "
            "which trains it again"
        )
    own, tasks = place["scope"] == "per_task", [*tables.read(run / "evaluation.parquet")["task"].unique()]
    sets = Sets(tasks, own)
    kept = last_kept(tables.read(run / "gates.parquet"), sets)
    if n is not None:
        raise HeadspecError(f"--heads: got {n}, but {run} has its own number; remove --heads")
    if task is not None and not own:
        raise HeadspecError(
            f"--task: got '{task}', but {run} keeps the same heads for all tasks; remove --task"
        )
    named = _task(task, tasks) if own else None
    return Chosen(kept[sets.index(named) if named else 0], named, tasks, "gates.parquet")


def _run(path: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of a run, and the wildcards in its path; raise MissingError for another path."""
    if (match := RUN.fullmatch(path.as_posix())) and path.is_dir():
        return path, match.groupdict()
    patterns = PRUNED if re.search(r"/seed\d+/gates\b", path.as_posix()) else BELOW
    above = (sorted(folder.glob(below)) for folder in (path, *path.parents) for below in patterns)
    runs = [str(each) for each in next(filter(None, above), [])]
    inside = [run for run in map(str, path.parents) if run in runs]
    hint = f" Did you mean '{inside[0]}'?" if inside else nearest(path, runs)
    hint = hint or (f" There are {listing(runs[:4])}." if runs else "")
    expected = (
        "results/<study>/runs/<model>/<mixture>/<method>/seed<n>, "
        "or gates/<pruning_method>/<scope>/<kept> in it"
    )
    raise MissingError(f"{path}: not the folder of a run; expected {expected}.{hint}")


def _task(task: str | None, tasks: list[str]) -> str:
    """Return the task whose heads are kept; raise HeadspecError if it is unknown or ambiguous."""
    if task is None and len(tasks) > 1:
        raise HeadspecError(
            f"--task: missing; the run has {listing(tasks)}, expected the task whose heads are kept"
        )
    if task is not None and task not in tasks:
        raise HeadspecError(f"--task: got '{task}'; the run has {listing(tasks)}.{nearest(task, tasks)}")
    return task or tasks[0]


def _tokenizer(params: list[str], model: str, results: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """Return a run's tokenizer, truncating and padding as in its jobs, and its model, from a record's params.

    Records have no paths, so the model's location is taken from the config of the results.
    """
    mappings = [literal_eval(each) for each in params if each.startswith("{")]
    (source,) = (each for each in mappings if "max_length" in each)
    try:
        source["source"] = yaml.safe_load((results / CONFIG).read_bytes())["models"][model]["source"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        raise MissingError(f"{results / CONFIG}: no models.{model}.source; {AGAIN}") from None
    key, settings = f"models.{model}", Model.from_params(source)
    if repr(folders.version(settings, key, "tokenizer")) not in params:
        raise ChangedError(
            f"{key}.source: the tokenizer of '{settings.source}' is no longer the tokenizer of the run"
        )
    loaded = tokenization.tokenizer(settings, key)
    backend = loaded.backend_tokenizer
    backend.enable_truncation(settings.max_length, direction=loaded.truncation_side)
    backend.enable_padding()
    return backend, source
