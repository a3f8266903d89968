"""``headspec export``: the model of a run, of whose heads only those that matter most for a task are left."""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec import files, tables
from headspec.config.stage_settings import section
from headspec.errors import ChangedError, HeadspecError, MissingError, listing, nearest
from headspec.heads.ranking import importance_map, top_heads
from headspec.models import tokenization, versions
from headspec.models.batching import Examples
from headspec.models.export.folder import export
from headspec.models.export.onnx_file import installed
from headspec.models.multitask import MultiTask

if TYPE_CHECKING:
    from tokenizers import Tokenizer

RUN = re.compile(r"((?P<results>.+)/)?runs/(?P<model>[^/]+)/(?P<mixture>[^/]+)/(?P<method>[^/]+)/seed\d+")
#: runs as seen from a folder above them
BELOW = ("runs/*/*/*/seed*", "*/runs/*/*/*/seed*", "results/*/runs/*/*/*/seed*")


def of_run(path: Path, n: int, task: str | None = None, out: Path | None = None) -> str:
    """Export the model in the folder of a run with `n` of its heads.

    Parameters
    ----------
    task : whose heads are left; by default the task of the run, if it has one only
    out : folder to write; by default ``results/<study>/export/<path of the run>/<task>-<n>``

    Returns
    -------
    report : where it is, and how far its logits are from those of the model with closed heads

    Raises
    ------
    HeadspecError
        Something is missing, or `n` or `task` is not of this run; all before the model is loaded. Or the
        exported model does not compute the same (`headspec.models.export.folder.export`).
    """
    installed()
    run, place = _run(path)
    for name in ("model/classifiers.json", "model/model.safetensors", "importance.parquet"):
        if not (run / name).exists():
            raise MissingError(f"{run}: no {name}; run snakemake on the study, which makes it again")
    importance = tables.read(run / "importance.parquet")
    tasks = [str(each) for each in importance["task"].unique()]
    task = _task(task, tasks)
    ranking = importance_map(importance, task)
    if not 1 <= n <= ranking.size:
        raise HeadspecError(f"--heads: got {n}, expected 1 to {ranking.size}, the heads of the model")
    results = Path(place["results"] or ".")
    out = out or results / "export" / run.relative_to(results / "runs") / f"{task}-{n}"
    if out.exists():
        raise HeadspecError(f"{out}: exists; delete it, or name another folder with --out")
    tokens = {each: results / "tokens" / place["model"] / each / "validation.parquet" for each in tasks}
    for each in tokens.values():
        if not each.exists():
            raise MissingError(f"{each}: missing; run snakemake on the study, which makes it again")
    texts = {each: Examples(tables.read(file)) for each, file in tokens.items()}
    tokenizer, source = _tokenizer(tables.footer(tokens[task])["job"]["params"], place["model"])
    kept = top_heads(ranking, n)
    digests = {name: files.sealed(run / name) for name in ("model/classifiers.json", "importance.parquet")}
    about = {"ranked_for": task, "run": str(run), "sha256": digests, "encoder": source}
    difference = export(MultiTask.load(run / "model"), kept, texts, tokenizer, about, out)
    return (
        f"{out}: {n} of {kept.size} heads, by layer {' '.join(map(str, kept.sum(axis=1)))}\n"
        f"logits differ by at most {difference:.1e} from those of the model with the other heads closed"
    )


def _run(path: Path) -> tuple[Path, dict[str, str]]:
    """The folder of a run, and the parts of its path."""
    if (found := RUN.fullmatch(path.as_posix())) and path.is_dir():
        return path, found.groupdict()
    above = (sorted(folder.glob(below)) for folder in (path, *path.parents) for below in BELOW)
    runs = [str(each) for each in next(filter(None, above), [])]
    inside = [run for run in map(str, path.parents) if run in runs]
    hint = f" Did you mean '{inside[0]}'?" if inside else nearest(path, runs)
    hint = hint or (f" There are {listing(runs[:4])}." if runs else "")
    raise MissingError(
        f"{path}: no folder of a run; expected results/<study>/runs/<model>/<mixture>/<method>/seed<n>.{hint}"
    )


def _task(task: str | None, tasks: list[str]) -> str:
    """The task whose heads are left."""
    if task is None and len(tasks) > 1:
        raise HeadspecError(
            f"--task: missing; the run has {listing(tasks)}, expected the one whose heads are left"
        )
    if task is not None and task not in tasks:
        raise HeadspecError(f"--task: got '{task}'; the run has {listing(tasks)}.{nearest(task, tasks)}")
    return task or tasks[0]


def _tokenizer(params: list[str], model: str) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer of a run, which cuts and pads texts as its jobs did, and the model that it is of.

    Parameters
    ----------
    params : of the job that made the tokens, as its footer has them
    """
    (source,) = (literal_eval(each) for each in params if each.startswith("{'source'"))
    key, of_model = f"models.{model}", section(source)
    if repr(versions.tokenizer(of_model, key)) not in params:
        raise ChangedError(
            f"{key}.source: the tokenizer of '{of_model.source}' is not the one of the run any more"
        )
    loaded = tokenization.tokenizer(of_model, key)
    backend = loaded.backend_tokenizer
    backend.enable_truncation(of_model.max_length, direction=loaded.truncation_side)
    backend.enable_padding()
    return backend, source
