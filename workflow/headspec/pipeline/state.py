"""Which files belong to a study and which are finished, according to Snakemake and the last start's config.

Each start writes its config and command next to the results. Snakemake runs the Snakefile and plugins of a
study, so only results that this user began here, with the present code, are compared with their config
(`headspec.pipeline.trust`); others are taken as data.

`opened` and `plan` let Snakemake plan a workflow in this process, as in a job: without looking at files.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from headspec.errors import HeadspecError, listing
from headspec.pipeline import trust as trusted
from headspec.provenance import code_hash
from headspec.provenance.files import atomic

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

    from headspec.pipeline.layout import Layout

#: Snakefile in a clone, and in the installed package
SNAKEFILES = code_hash.LIBRARY.parent / "Snakefile", code_hash.LIBRARY / "workflow" / "Snakefile"
CONFIG = "config.yaml"
BEGIN = "# snakemake "
ELSEWHERE = (
    "taken as they are: another user, machine or folder began the study, or its config.yaml, Snakefile, "
    "workflow, profiles or plugins were changed since; snakemake notes the changes, and --trust compares the "
    "results, which both run this code"
)
#: prevents Python from importing modules of the working folder
SAFE = {"PYTHONSAFEPATH": "1"}
#: the target of a whole study
ALL = "all"
#: marks pages of unfinished studies
UNFINISHED = "files are still to be made"
#: pages that commands make from results, so not part of a study
PAGES = ("explorer.html",)


class Start(NamedTuple):
    """The last start of a study."""

    folder: Path  #: in which snakemake ran
    snakefile: Path  #: relative to `folder`
    config: Path  #: relative to `folder`
    command: str  #: continues the study
    targets: list[str]  #: of the command


class Files(NamedTuple):
    """Files of a study, selected from others."""

    finished: list[Path]  #: finished files
    unfinished: str = ""  #: message on what the study lacks; empty if it is finished
    left_out: str = ""  #: message on files that its config does not make


def note_start(results: Path, config: dict[str, Any], command: Iterable[str], targets: Iterable[str]) -> str:
    """Write the config of a start next to its results, below the command that continues it.

    `command` names the config; targets of earlier starts with this config are added, since their results
    belong to it. Return a warning if the file was changed after an earlier start; empty otherwise.
    """
    path = results / CONFIG
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    before, text_before = _noted(results, trusted.wrote)
    changed = not before and path.is_file() and trusted.is_noted(path)
    earlier = _targets(before) if text == text_before else [ALL]
    named = (
        target for target in targets if target.isidentifier()
    )  # not files, since these targets make them
    asked = list(dict.fromkeys([*earlier, *named]))
    line = shlex.join([*command, "--cores", "all", *(asked if asked != [ALL] else [])])
    body = f"{BEGIN}{line}\n{text}".encode()
    with atomic(path) as temporary:
        temporary.write_bytes(body)
    trusted.adopt(path)
    return f"{path}: damaged or edited since an earlier start, and written again" if changed else ""


def last_start(results: Path, trust: bool = False, running: bool = False) -> Start | None:
    """Return the last start of the results; None if this user began none in this folder with this code.

    With `trust`, it may be that of another user, machine or folder. With `running`, the folder's code may
    have changed since, because it is running. Raises HeadspecError if the config is invalid.
    """
    command, text = _noted(results, _anyone if trust else trusted.wrote if running else trusted.began)
    results = Path(os.path.abspath(results))  # it may be a link to another disk
    if not command:
        return None
    try:
        study, targets = str(yaml.safe_load(text)["study"]), _targets(command)
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        raise HeadspecError(f"{results / CONFIG}: expected the config of a start of snakemake") from None
    if results.parts[-2:] != ("results", study):
        return None
    root = results.parents[1]
    own = [name for name in ("Snakefile", "workflow/Snakefile") if (root / name).exists()]
    snakefile = Path(own[0]) if own else next(path for path in SNAKEFILES if path.exists())
    return Start(root, snakefile, results.relative_to(root) / CONFIG, command, targets)


def select(results: Path, paths: Iterable[Path], trust: bool = False) -> Files:
    """Return the finished files of the study among `paths`; all of them if Snakemake does not know.

    Snakemake is only asked about a study that this user began in this folder, or with `trust`.
    """
    names = {path: path.relative_to(results).as_posix() for path in paths}
    if (start := last_start(results, trust)) is None:
        begun = results.absolute().parent.name == "results" and (results / CONFIG).exists() and not trust
        return Files([*names], left_out=f"{results}: {ELSEWHERE}" * begun)
    try:
        finished = ask_snakemake(start)
    except HeadspecError as error:
        return Files([*names], str(error))
    strange = [name for name in names.values() if name not in finished]
    left_out = f"left out, as the config of the study does not make them: {listing(strange)}" * bool(strange)
    own = [path for path, name in names.items() if finished.get(name)]
    return Files(own, unfinished(start, finished), left_out)


def ask_snakemake(start: Start) -> dict[str, bool]:
    """Return whether each file, named below the results, exists and is current.

    Raises HeadspecError if Snakemake cannot tell.
    """
    results = start.config.parent
    asked = subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", start.snakefile, "--cores", "1", "--summary",
         *start.targets, "--configfile", start.config],
        cwd=start.folder, capture_output=True, text=True, env=os.environ | SAFE,
    )  # fmt: skip
    header, *rows = asked.stdout.splitlines() or [""]
    if asked.returncode or not header.startswith("output_file\t"):
        reason = asked.stderr.partition("the study cannot be run:\n")[2] or asked.stderr
        raise HeadspecError(f"{results}: cannot be compared with its study: {reason.strip()}")
    files = (row.split("\t") for row in rows)
    return {name.removeprefix(f"{results}{os.sep}"): plan == "no update" for name, *_, plan in files}


def unfinished(start: Start, finished: dict[str, bool]) -> str:
    """Return ``unfinished: 19 of 160 files are still to be made; ...``, or an empty string."""
    own = [done for name, done in finished.items() if name not in PAGES]
    left = own.count(False)
    return f"unfinished: {left} of {len(own)} {UNFINISHED}; `{start.command}` goes on" if left else ""


def says_unfinished(page: Path) -> bool:
    """Return whether a page was built from an unfinished study."""
    return page.is_file() and UNFINISHED.encode() in page.read_bytes()


def _anyone(config: Path, body: bytes) -> bool:
    return True


def _noted(results: Path, accepted: Callable[[Path, bytes], bool]) -> tuple[str, str]:
    """Return the command that continues the study, and the config below it; empty unless it is `accepted`."""
    path = results / CONFIG
    body = path.read_bytes() if path.is_file() else b""
    if not body.startswith(BEGIN.encode()) or not accepted(path, body):
        return "", ""
    first, _, rest = body.decode(errors="replace").partition("\n")
    return first.removeprefix("# "), rest


def _targets(command: str) -> list[str]:
    words = shlex.split(command)
    return [word for word in words[words.index("--cores") + 2 :] if word.isidentifier()] or [ALL]


@contextlib.contextmanager
def opened(
    snakefile: Path,
    folder: Path,
    config: Path,
    target: str | None = None,
    cores: int = 1,
    layout: Layout | None = None,
) -> Iterator[Workflow]:
    """Yield the workflow that runs in `folder`: its rules and, after `plan`, its jobs for `target`.

    Given a `layout`, the workflow of our own rules uses it without reading or checking anything.
    """
    from snakemake.api import SnakemakeApi  # slow to import
    from snakemake.settings import types as settings
    from snakemake.settings.enums import Quietness

    quiet = settings.OutputSettings(quiet={Quietness.ALL})
    with SnakemakeApi(quiet) as snakemake:
        workflow = snakemake.workflow(
            settings.ResourceSettings(cores=cores),
            config_settings=settings.ConfigSettings({"layout": layout} if layout else {}, [config]),
            snakefile=snakefile,
            workdir=folder,
            workflow_settings=settings.WorkflowSettings(exec_mode=settings.ExecMode.SUBPROCESS),
        )
        workflow.dag(settings.DAGSettings(targets={target} if target else set(), forceall=True))
        yield workflow._workflow  # the interface gives no access to rules and jobs


def plan(workflow: Workflow) -> None:
    """Let Snakemake list the jobs of the workflow in its `dag`."""
    with contextlib.redirect_stdout(io.StringIO()):
        workflow.printrulegraph()  # the cheapest call that lists the jobs
