"""Which files belong to a study and which are finished, as Snakemake says for the config of the last start.

Each start writes its config and command beside the results. Without this file, as in results kept in a
repository, or after the folder was renamed, results are taken as they are.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from headspec.errors import HeadspecError, listing
from headspec.provenance import code_hash
from headspec.provenance.files import atomic

#: in a clone, and in the installed package
SNAKEFILES = code_hash.LIBRARY.parent / "Snakefile", code_hash.LIBRARY / "workflow" / "Snakefile"
CONFIG = "config.yaml"
BEGIN = "# snakemake "
#: the target of a whole study
ALL = "all"
#: marks pages of unfinished studies
UNFINISHED = "files are still to be made"
#: made from results by commands, so not part of a study
PAGES = ("explorer.html",)


class Start(NamedTuple):
    """The last start of a study."""

    folder: Path  #: in which snakemake ran
    snakefile: Path  #: relative to `folder`
    config: Path  #: relative to `folder`
    command: str  #: continues the study
    targets: list[str]  #: of the command


class Files(NamedTuple):
    """The files of a study among others."""

    finished: list[Path]  #: those that are finished
    unfinished: str = ""  #: what the study lacks, in words; empty if it is finished
    left_out: str = ""  #: files that its config does not make, in words


def note_start(results: Path, config: dict[str, Any], command: Iterable[str], targets: Iterable[str]) -> None:
    """Write the config of a start beside its results, below the command that continues it.

    `command` names the config; targets of earlier starts with this config are added, as results belong to it.
    """
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    before, text_before = _noted(results)
    earlier = _targets(before) if text == text_before else [ALL]
    named = (target for target in targets if target.isidentifier())  # not files, which these targets make
    asked = list(dict.fromkeys([*earlier, *named]))
    line = shlex.join([*command, "--cores", "all", *(asked if asked != [ALL] else [])])
    with atomic(results / CONFIG) as temporary:
        temporary.write_text(f"{BEGIN}{line}\n{text}", "utf-8")


def last_start(results: Path) -> Start | None:
    """Return the start that noted its config in the results; None if none did, or in another place."""
    command, text = _noted(results)
    results = Path(os.path.abspath(results))  # it may be a link to another disk
    if not command or results.parts[-2:] != ("results", str(yaml.safe_load(text)["study"])):
        return None
    root = results.parents[1]
    own = [name for name in ("Snakefile", "workflow/Snakefile") if (root / name).exists()]
    snakefile = Path(own[0]) if own else next(path for path in SNAKEFILES if path.exists())
    return Start(root, snakefile, results.relative_to(root) / CONFIG, command, _targets(command))


def select(results: Path, paths: Iterable[Path]) -> Files:
    """Return the finished files of the study among `paths`; all of them if Snakemake cannot tell."""
    names = {path: path.relative_to(results).as_posix() for path in paths}
    if (start := last_start(results)) is None:
        return Files([*names])
    try:
        finished = ask_snakemake(start)
    except HeadspecError as error:
        return Files([*names], str(error))
    strange = [name for name in names.values() if name not in finished]
    left_out = f"left out, as the config of the study does not make them: {listing(strange)}" * bool(strange)
    own = [path for path, name in names.items() if finished.get(name)]
    return Files(own, unfinished(start, finished), left_out)


def ask_snakemake(start: Start) -> dict[str, bool]:
    """Return whether each file, named below the results, exists and is current; HeadspecError if unknown."""
    results = start.config.parent
    asked = subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", start.snakefile, "--cores", "1", "--summary",
         *start.targets, "--configfile", start.config],
        cwd=start.folder, capture_output=True, text=True,
    )  # fmt: skip
    header, *rows = asked.stdout.splitlines() or [""]
    if asked.returncode or not header.startswith("output_file\t"):
        reason = asked.stderr.partition("the study cannot be run:\n")[2] or asked.stderr
        raise HeadspecError(f"{results}: cannot be compared with its study: {reason.strip()}")
    files = (row.split("\t") for row in rows)
    return {name.removeprefix(f"{results}{os.sep}"): plan == "no update" for name, *_, plan in files}


def unfinished(start: Start, finished: dict[str, bool]) -> str:
    """``unfinished: 19 of 160 files are still to be made; `snakemake --cores all` goes on``, or empty."""
    own = [done for name, done in finished.items() if name not in PAGES]
    left = own.count(False)
    return f"unfinished: {left} of {len(own)} {UNFINISHED}; `{start.command}` goes on" if left else ""


def says_unfinished(page: Path) -> bool:
    """Return whether a page was made from an unfinished study."""
    return page.is_file() and UNFINISHED.encode() in page.read_bytes()


def _noted(results: Path) -> tuple[str, str]:
    """Return the command that continues the study, and the config below it; empty if no start wrote them."""
    path = results / CONFIG
    first, _, rest = path.read_text("utf-8").partition("\n") if path.is_file() else ("", "", "")
    return (first.removeprefix("# "), rest) if first.startswith(BEGIN) else ("", "")


def _targets(command: str) -> list[str]:
    words = shlex.split(command)
    return words[words.index("--cores") + 2 :] or [ALL]
