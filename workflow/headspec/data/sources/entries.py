"""Possible roles of a folder's entries, judged by their names."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headspec.data.sources.formats.registry import FORMATS
from headspec.data.sources.text_files import ending
from headspec.errors import DataError, listing

TRAIN = "train"
#: names of validation splits, the default first
VALIDATION = ("validation", "val", "valid", "dev", "development")
#: names of folders that contain the files of one split
SPLITS = {TRAIN, "training", *VALIDATION, "test", "testing"}
#: files that describe the tables next to them
METADATA = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
SHOWN = 4  # names in a message


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split, sorted, and their name for messages.

    Layouts are ``tables``: rows, one file after another; ``columns``: a column of lines in each, named by its
    ending; ``folders``: a text in each, with the folder's name as class; ``classes``: a text in each line,
    with the file's name as class; ``texts``: a text in each, without a class. `part` is the name of the split
    in a JSON document with several; `notes` says which files are left out, or may not be meant.
    """

    layout: str
    files: tuple[Path, ...]
    name: str
    part: str | None = None
    notes: tuple[str, ...] = ()


def inside(path: Path, key: str = "source") -> tuple[list[Path], list[Path]]:
    """Return the visible files and folders in a folder, sorted; raise DataError for pipes and broken links.

    Folders whose names begin with ``_`` are left out, too.
    """
    files: list[Path] = []
    folders: list[Path] = []
    for entry in sorted(path.iterdir()):
        if entry.is_dir():
            folders += [entry] if not entry.name.startswith((".", "_")) else []
        elif not entry.name.startswith("."):
            if not entry.is_file():
                raise DataError(
                    f"{key}: '{entry.name}' in {path}/ is neither a file nor a folder; expected files, and "
                    "links to them"
                )
            files.append(entry)
    return files, folders


def left_out(entries: Iterable[Path], what: str, inside: bool = False) -> list[str]:
    """Return a note on files and folders that are not `what` a source consists of; none without entries."""
    names = [f"{each.parent.name}/{each.name}" if inside else each.name for each in entries]
    return [f"left out, not {what}: {listing(names, 10)}"] if names else []


def is_table(file: Path) -> bool:
    """Return whether a file has the suffix of a table, and does not describe tables."""
    return ending(file) in FORMATS and file.name not in METADATA
