"""The files of each split of a local source, found by their names alone."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from headspec.data.sources.formats import conll
from headspec.data.sources.formats.registry import FORMATS
from headspec.data.sources.text_files import ARCHIVES, ending, uncompressed
from headspec.errors import DataError, listing

TRAIN = "train"
#: names of validation splits, the default first
VALIDATION = ("validation", "val", "valid", "dev", "development")
#: folders with these names contain the files of one split
SPLITS = {TRAIN, "training", *VALIDATION, "test", "testing"}
#: name of a part of a table, as the hub stores it
SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})(-[0-9a-f]{16})?")
#: name of a treebank or a part of one, as in Universal Dependencies
TREEBANK = re.compile(r"(?P<bank>.+-ud)-(?P<split>train|dev|test)(-.+)?")
#: files that describe the tables beside them
METADATA = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
DESCRIPTION = re.compile(r"(readme|licen[cs]e)\b", re.IGNORECASE)
SHOWN = 4  # names in a message


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split, sorted, and their name for messages.

    Layouts are ``tables``: rows, one file after another; ``columns``: a column of lines in each, named by its
    ending; ``folders``: a text in each, with the folder's name as class; ``classes``: a text in each line,
    with the file's name as class.
    """

    layout: str
    files: tuple[Path, ...]
    name: str


def find_splits(
    path: Path, key: str, split: str = TRAIN, columns: Collection[str] = ()
) -> dict[str, SplitFiles]:
    """Return the files of each split; a source without splits is `split`.

    Endings in `columns` mark parallel files such as ``train.en``. Raise DataError if the folder holds
    something else, several tables of a split, or only some parts of one.
    """
    if not path.is_dir():
        return {split: SplitFiles("tables", (path,), path.name)}
    files, folders = _inside(path, key)
    _check_not_saved(path, files, key)
    splits = _tables(path, files, key, columns)
    for folder in folders:
        if (table := _documents(folder, key)) is not None:
            split = folder.stem if ending(folder) in FORMATS else folder.name
            if other := match_split(split, splits):
                raise _several(key, path, other, [splits[other].name, table.name])
            splits[split] = table
    return splits or {split: _classes(path, files, folders, key)}


def match_split(split: str, present: Collection[str]) -> str | None:
    """Return the name of `split` among those `present`, ignoring case if need be, else None."""
    return split if split in present else next((p for p in present if p.casefold() == split.casefold()), None)


def match_validation(
    split: str, present: Collection[str], key: str, others: Collection[str] = ()
) -> str | None:
    """As `match_split`; the default split may have one other usual name that is not in `others`."""
    match = match_split(split, present)
    if match or split != VALIDATION[0]:
        return match
    usual = [name for name in present if name.casefold() in VALIDATION and name not in others]
    if len(usual) > 1:
        raise DataError(f"{key}: the source has {listing(usual)}; expected one of these")
    return usual[0] if usual else None


def unread_files(path: Path, held: SplitFiles) -> list[str]:
    """Return names of files beside those of classes, which are not read."""
    beside = _inside(path)[0] if held.layout in ("folders", "classes") else []
    return [file.name for file in beside if file not in held.files]


def _inside(path: Path, key: str = "source") -> tuple[list[Path], list[Path]]:
    """Return sorted visible files and folders in a folder; raise DataError for pipes and broken links."""
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


def _is_table(file: Path) -> bool:
    return ending(file) in FORMATS and file.name not in METADATA


def _part(file: Path) -> re.Match[str] | None:
    """Match the name of a part of a table, as the hub and Universal Dependencies name it."""
    stem = uncompressed(file).stem
    return SHARD.fullmatch(stem) or TREEBANK.fullmatch(stem)


def _tables(path: Path, files: Sequence[Path], key: str, columns: Collection[str]) -> dict[str, SplitFiles]:
    """Return the table of each split, whole or in parts, or its parallel files."""
    beside = {file for file in files if not _is_table(file)}
    parallel = {uncompressed(file).stem for file in beside if ending(file)[1:] in columns}
    by_split: dict[str, list[Path]] = {}
    names: dict[str, str] = {}
    for file in files:
        split = uncompressed(file).stem
        if match := _part(file) if file not in beside else None:
            split = match["split"]
        elif file in beside and (split not in parallel or ending(file) in (".txt", *ARCHIVES)):
            continue
        by_split.setdefault(names.setdefault(split.casefold(), split), []).append(file)
    splits = {}
    for split, parts in by_split.items():
        series = {f"{uncompressed(part).stem}.*" if part in beside else _series(part) for part in parts}
        if len(series) > 1 or len({uncompressed(part).name for part in parts}) < len(parts):
            raise _several(key, path, split, [part.name for part in parts])
        _check_parts(key, parts)
        layout = "columns" if parts[0] in beside else "tables"
        name = parts[0].name if len(parts) == 1 else f"{path.name}/ ({split}, {len(parts)} files)"
        splits[split] = SplitFiles(layout, tuple(parts), name)
    return splits


def _series(file: Path) -> str:
    """Return what names of a table's parts have in common: their number or treebank, and the format."""
    match = _part(file)
    return f"{match.groupdict().get('total') or match['bank']}{ending(file)}" if match else file.name


def _check_parts(key: str, parts: Sequence[Path]) -> None:
    """Raise DataError if parts of a table are missing."""
    numbered = [match for part in parts if (match := SHARD.fullmatch(uncompressed(part).stem))]
    numbers, total = (
        [int(match["number"]) for match in numbered],
        int(numbered[0]["total"]) if numbered else 0,
    )
    if numbers != list(range(total)):
        lacking = [f"{n:05}" for n in range(total) if n not in numbers][:SHOWN]
        what = f"lacks {listing(lacking)}" if lacking else "has some twice"
        raise DataError(
            f"{key}: of {total} parts of a table, {parts[0].parent.name}/ {what}, as in {parts[0].name}"
        )


def _documents(folder: Path, key: str) -> SplitFiles | None:
    """Return the tables in a folder named as a split or table, or None if it has other files."""
    if folder.name.casefold() not in SPLITS and ending(folder) not in FORMATS:
        return None
    files, folders = _inside(folder, key)
    files = [file for file in files if not file.name.startswith("_")]  # such as _SUCCESS
    if folders or not files or not all(_is_table(file) for file in files):
        return None
    stems = [uncompressed(file).stem for file in files]
    if len({ending(file) for file in files}) > 1 or len({*stems}) < len(stems):
        raise _several(key, folder.parent, folder.name, [f"{folder.name}/{file.name}" for file in files])
    others = {match["split"] for file in files if (match := _part(file))}
    if len(others | {stem for stem in stems if stem.casefold() in SPLITS}) > 1:
        return None
    _check_parts(key, files)
    what = f" ({len(files)} files)" if len(files) > 1 else files[0].name
    return SplitFiles("tables", tuple(files), f"{folder.name}/{what}")


def _classes(path: Path, files: Sequence[Path], folders: Sequence[Path], key: str) -> SplitFiles:
    """Return a folder per class with a file per text, or a file per class with a line per text."""
    name = path.name or str(path)
    by_class = {folder: _inside(folder, key) for folder in folders}
    for folder, (texts, inner) in sorted(by_class.items(), key=lambda item: item[0].name != TRAIN):
        _check_texts(folder, texts, inner, key)
    if any(texts for texts, _ in by_class.values()):
        inside = tuple(file for texts, _ in by_class.values() for file in texts)
        return SplitFiles("folders", inside, f"{name}/ (a folder of text files per class)")
    lines = [file for file in files if ending(file) == ".txt" and not DESCRIPTION.match(file.name)]
    splits = [file.name for file in lines if uncompressed(file).stem.casefold() in SPLITS]
    if len(lines) > 1 and not splits:
        return SplitFiles("classes", tuple(lines), f"{name}/ (a file of texts per class)")
    present = [*(f"{folder.name}/" for folder in folders), *(file.name for file in files)]
    hint = f" If {splits[0]} has a line per word, end its name in {conll.COLUMNS}." if splits else ""
    raise DataError(
        f"{key}: {name}/ holds {listing(present)}, and has neither a table per split ({listing(FORMATS)}) "
        f"nor a subfolder of text files, or a .txt file of lines, per class.{hint}"
    )


def _check_texts(folder: Path, files: Sequence[Path], folders: Sequence[Path], key: str) -> None:
    """Raise DataError if a folder that should have the texts of a class holds tables, archives or folders."""
    place = f"{folder.parent.name}/{folder.name}"
    if tables := [file for file in files if _is_table(file)]:
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


def _check_not_saved(path: Path, files: Sequence[Path], key: str) -> None:
    """Raise DataError if a folder was written by `save_to_disk` of the library datasets."""
    if {file.name for file in files} & {"state.json", "dataset_dict.json"}:
        split = "" if (path / "state.json").exists() else f"['{TRAIN}']"
        raise DataError(
            f"{key}: {path.name}/ was written by save_to_disk of datasets; expected tables, such as by "
            f"load_from_disk('{path}'){split}.to_parquet('{TRAIN}.parquet')"
        )


def _several(key: str, path: Path, split: str, names: Sequence[str]) -> DataError:
    return DataError(
        f"{key}: {path.name}/ has several tables of the split '{split}': {listing(names, SHOWN)}; "
        "expected one. Name the file as source, or move the others away."
    )
