"""Folders of texts: a folder or a file for each class, possibly within a folder for each split.

Other files, such as notes and annotations, are recognised by differing from most files.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headspec.data.sources.entries import SHOWN, SPLITS, TRAIN, SplitFiles, inside, is_table, left_out
from headspec.data.sources.formats import conll
from headspec.data.sources.formats.registry import FORMATS
from headspec.data.sources.text_files import ARCHIVES, ending, uncompressed
from headspec.errors import DataError, listing

DESCRIPTION = re.compile(r"(readme|licen[cs]e)\b", re.IGNORECASE)
CLASSES = "one of its classes"
#: minimum share of files with names of one form, for the others to be reported
ALIKE = 0.8
#: maximum number of different suffixes; if there are more, they are parts of names
MANY = 10


def find(
    path: Path, files: Sequence[Path], folders: Sequence[Path], key: str, split: str
) -> dict[str, SplitFiles]:
    """Return the texts of each split in a folder without tables; without splits, it counts as `split`."""
    splits = [folder for folder in folders if folder.name.casefold() in SPLITS]
    if not splits or len(splits) == 1 < len(folders):
        return {split: _classes(path, files, folders, key)}
    if others := [folder for folder in folders if folder not in splits]:
        named, more = (listing((f"{each.name}/" for each in some), SHOWN) for some in (splits, others))
        raise DataError(
            f"{key}: {path.name}/ holds folders named as splits, {named}, and others, {more}; "
            "expected either splits or classes"
        )
    return {folder.name: _of_split(folder, key) for folder in splits}


def _of_split(folder: Path, key: str) -> SplitFiles:
    """Return the texts of a split, in a folder for each class or without classes."""
    files, folders = inside(folder, key)
    if folders:
        return _classes(folder, files, folders, key)
    texts, notes = _texts({folder: files}, key)
    return SplitFiles("texts", tuple(texts), f"{folder.name}/ (texts without classes)", notes=(*notes,))


def _classes(path: Path, files: Sequence[Path], folders: Sequence[Path], key: str) -> SplitFiles:
    """Return the texts in a folder per class, a file each, or in a file per class, a line each.

    Raises DataError if there are neither.
    """
    name = path.name or str(path)
    by_class: dict[Path, list[Path]] = {}
    for folder in sorted(folders, key=lambda folder: folder.name != TRAIN):
        texts, inner = inside(folder, key)
        _check_texts(folder, texts, inner, key)
        by_class |= {folder: texts} if texts else {}
    if by_class:
        kept, notes = _texts(by_class, key)
        others = [*files, *(folder for folder in folders if folder not in by_class)]
        notes = [*left_out(others, CLASSES), *notes]
        return SplitFiles(
            "folders", tuple(sorted(kept)), f"{name}/ (a folder of text files per class)", notes=(*notes,)
        )
    lines = [file for file in files if ending(file) == ".txt" and not DESCRIPTION.match(file.name)]
    splits = [file.name for file in lines if uncompressed(file).stem.casefold() in SPLITS]
    if len(lines) > 1 and not splits:
        notes = left_out([file for file in files if file not in lines], CLASSES)
        return SplitFiles("classes", tuple(lines), f"{name}/ (a file of texts per class)", notes=(*notes,))
    present = [*(f"{folder.name}/" for folder in folders), *(file.name for file in files)]
    hint = f" If {splits[0]} has a line per word, end its name in {conll.COLUMNS}." if splits else ""
    raise DataError(
        f"{key}: {name}/ holds {listing(present)}, and has neither a table per split ({listing(FORMATS)}) "
        f"nor a subfolder of text files, or a .txt file of lines, per class.{hint}"
    )


def _texts(by_folder: Mapping[Path, Sequence[Path]], key: str) -> tuple[list[Path], list[str]]:
    """Return the text files in folders, and notes on the remaining files.

    Texts are the .txt files if these are over a third, else the files with the only suffix that over a third
    have, except those named like descriptions. If there are more suffixes than `MANY` and than half the
    files, they are parts of names. Raises DataError if no suffix is chosen, or a folder has no text.
    """
    files = [file for each in by_folder.values() for file in each if not DESCRIPTION.match(file.name)]
    endings = Counter(map(_ending, files))
    several = [kind for kind, n in endings.items() if n > len(files) / 3]
    if len(endings) > max(MANY, len(files) / 2):
        texts = files
    elif ".txt" in several or len(several) == 1:
        usual = ".txt" if ".txt" in several else several[0]
        texts = [file for file in files if _ending(file) == usual]
    else:
        counts = listing((f"{kind or 'nothing'} ({n})" for kind, n in endings.most_common()), SHOWN)
        within = listing((f"{folder.name}/" for folder in by_folder), SHOWN)
        raise DataError(f"{key}: files in {within} end in {counts}; expected texts with one ending")
    kept = {*texts}
    for folder, each in by_folder.items():
        if each and kept.isdisjoint(each):
            raise DataError(
                f"{key}: {folder.name}/ holds {listing((file.name for file in each), SHOWN)}, but texts of "
                f"other folders have names like {texts[0].name}; use the same ending for all texts"
            )
    beside = [file for each in by_folder.values() for file in each if file not in kept]
    return texts, [*left_out(beside, "one of its texts", inside=True), *_unlike(texts)]


def _ending(file: Path) -> str:
    """Return the suffix of an uncompressed file, unless it is a number."""
    kind = ending(file)
    return "" if kind[1:].isdecimal() else kind


def _unlike(texts: Sequence[Path]) -> Iterator[str]:
    """Yield a note on files whose names differ in form from nearly all others."""
    forms = {file: re.sub(r"\d+", "0", uncompressed(file).name) for file in texts}
    (usual, n), *_ = Counter(forms.values()).most_common(1)
    others = [f"{file.parent.name}/{file.name}" for file in texts if forms[file] != usual]
    if others and n >= ALIKE * len(texts):
        yield f"read as texts, although their names differ from the rest: {listing(others, 10)}"


def _check_texts(folder: Path, files: Sequence[Path], folders: Sequence[Path], key: str) -> None:
    """Raise DataError if a folder that should have the texts of a class holds tables, archives or folders."""
    place = f"{folder.parent.name}/{folder.name}"
    tables = [file for file in files if is_table(file)]
    if 2 * len(tables) > len(files):
        title, names = FORMATS[ending(tables[0])][0], listing((table.name for table in tables), 1)
        raise DataError(
            f"{key}: {place} holds {title} files ({names}), not the texts of a class; for these tables, "
            f"the source is {folder}"
        )
    if folders:
        inner = listing((f"{each.name}/" for each in folders), SHOWN)
        raise DataError(
            f"{key}: {place} holds folders ({inner}), not the texts of a class; if these are classes, "
            f"the source is {folder}"
        )
    if archive := next((file.name for file in files if file.suffix.lower() in ARCHIVES), None):
        raise DataError(f"{key}: {place} holds {archive}, not the texts of a class; unpack it")
