"""What belongs to a study, and what of it is finished: Snakemake's answer for the config of its last start.

A start writes that config beside the results, under the command that goes on. Results without it, such as
those that a repository keeps, and those that were copied or renamed since are taken as they are.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from headspec import code_hash
from headspec.errors import HeadspecError, listing
from headspec.files import atomic

#: in a clone, and in the installed package
SNAKEFILES = code_hash.LIBRARY.parent / "Snakefile", code_hash.LIBRARY / "workflow" / "Snakefile"
CONFIG = "config.yaml"
BEGIN = "# snakemake "
#: the target of a whole study
ALL = "all"
#: what pages of a part say, by which they are known
UNFINISHED = "files are still to be made"
#: made of the results by commands, and no part of them
PAGES = ("explorer.html",)


def note(results: Path, config: dict[str, Any], command: Iterable[str], targets: Iterable[str]) -> None:
    """Write the config of a start beside its results, under the command that goes on.

    Targets of earlier starts with the same config are part of the command: their results belong to it, too.

    Parameters
    ----------
    command : options of snakemake that name the config
    """
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    before, text_before = _noted(results)
    earlier = _targets(before) if text == text_before else [ALL]
    named = (each for each in targets if each.isidentifier())  # unlike a file, which one of these makes
    asked = list(dict.fromkeys([*earlier, *named]))
    line = shlex.join([*command, "--cores", "all", *(asked if asked != [ALL] else [])])
    with atomic(results / CONFIG) as temporary:
        temporary.write_text(f"{BEGIN}{line}\n{text}", "utf-8")


@dataclass(frozen=True)
class State:
    """Results of the config that a study was last started with.

    Attributes
    ----------
    command : goes on with the study
    current : file below the results: whether it is there, and as the config, the code and its inputs have it
    """

    command: str
    current: dict[str, bool]

    def told(self) -> str:
        """``unfinished: 19 of 160 files are still to be made; `snakemake --cores all` goes on``"""
        own = [current for name, current in self.current.items() if name not in PAGES]
        left = own.count(False)
        return f"unfinished: {left} of {len(own)} {UNFINISHED}; `{self.command}` goes on" if left else ""


class Belonging(NamedTuple):
    """The files of a study.

    Attributes
    ----------
    paths : those that are finished
    unfinished : what the study lacks; empty of a finished one
    left_out : files that its config does not make
    """

    paths: list[Path]
    unfinished: str = ""
    left_out: str = ""


def belonging(results: Path, paths: Iterable[Path]) -> Belonging:
    """Those of `paths` that are finished results of the study, and what is said of the others.

    Without a config of this place, all are taken; if they cannot be compared with it, that is said.
    """
    names = {path: path.relative_to(results).as_posix() for path in paths}
    try:
        state = of(results)
    except HeadspecError as error:
        return Belonging([*names], str(error))
    if state is None:
        return Belonging([*names])
    strange = [name for name in names.values() if name not in state.current]
    left_out = (
        f"left out, as the config of the study does not make them: {listing(strange)}" if strange else ""
    )
    return Belonging(
        [path for path, name in names.items() if state.current.get(name)], state.told(), left_out
    )


class Start(NamedTuple):
    """The last start of a study.

    Attributes
    ----------
    folder : in which snakemake ran
    snakefile, config : of it, the paths from there
    command : goes on with the study, as a comment
    """

    folder: Path
    snakefile: Path
    config: Path
    command: str


def last_start(results: Path) -> Start | None:
    """The start that has noted its config in the results; None if none has, or in another place."""
    command, text = _noted(results)
    results = Path(os.path.abspath(results))  # it may be a link to another disk
    if not command or results.parts[-2:] != ("results", str(yaml.safe_load(text)["study"])):
        return None
    root = results.parents[1]
    own = [name for name in ("Snakefile", "workflow/Snakefile") if (root / name).exists()]
    snakefile = Path(own[0]) if own else next(path for path in SNAKEFILES if path.exists())
    return Start(root, snakefile, results.relative_to(root) / CONFIG, command)


def of(results: Path) -> State | None:
    """The state of the results of a study; None if no start has noted its config there, or in another place.

    Raises
    ------
    HeadspecError
        Snakemake cannot compare them with the study, for example because its texts are missing.
    """
    if (start := last_start(results)) is None:
        return None
    asked = subprocess.run(
        [sys.executable, "-m", "snakemake", "--snakefile", start.snakefile, "--cores", "1", "--summary",
         *_targets(start.command), "--configfile", start.config],
        cwd=start.folder, capture_output=True, text=True,
    )  # fmt: skip
    header, *rows = asked.stdout.splitlines() or [""]
    if asked.returncode or not header.startswith("output_file\t"):
        reason = asked.stderr.partition("the study cannot be run:\n")[2] or asked.stderr
        raise HeadspecError(f"{results}: cannot be compared with its study: {reason.strip()}")
    below = f"{start.config.parent}{os.sep}"
    made = (row.split("\t") for row in rows)
    files = {name.removeprefix(below): plan == "no update" for name, *_, plan in made}
    return State(start.command.removeprefix("# "), files)


def is_of_a_part(page: Path) -> bool:
    """Whether a page was made of an unfinished study."""
    return page.is_file() and UNFINISHED.encode() in page.read_bytes()


def _noted(results: Path) -> tuple[str, str]:
    """The command that goes on, as a comment, and the config below it; empty if no start has written them."""
    path = results / CONFIG
    first, _, rest = path.read_text("utf-8").partition("\n") if path.is_file() else ("", "", "")
    return (first, rest) if first.startswith(BEGIN) else ("", "")


def _targets(command: str) -> list[str]:
    words = shlex.split(command.removeprefix("# "))
    return words[words.index("--cores") + 2 :] or [ALL]
