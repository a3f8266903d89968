"""The files of each split of a local source, found by name alone."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from headspec.data.sources import text_folders
from headspec.data.sources.entries import (
    METADATA,
    SHOWN,
    SPLITS,
    TRAIN,
    VALIDATION,
    SplitFiles,
    inside,
    is_table,
    left_out,
)
from headspec.data.sources.formats import json_rows
from headspec.data.sources.formats.registry import FORMATS
from headspec.data.sources.text_files import ARCHIVES, ending, uncompressed
from headspec.errors import DataError, listing

#: name of a part of a table, as stored on the hub
SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})(-[0-9a-f]{16})?")
#: name of a treebank or a part of one, as in Universal Dependencies
TREEBANK = re.compile(r"(?P<bank>.+-ud)-(?P<split>train|dev|test)(-.+)?")


def find_splits(
    path: Path, key: str, split: str = TRAIN, columns: Collection[str] = ()
) -> dict[str, SplitFiles]:
    """Return the files of each split; a source without splits counts as `split`.

    Suffixes in `columns` mark parallel files such as ``train.en``. Notes of the first split name what else
    a folder with tables holds. Raises DataError if the folder holds neither tables nor texts, several tables
    for a split, or only some parts of a table.
    """
    if not path.is_dir():
        parts = json_rows.parts(path) if FORMATS.get(ending(path), ("", None))[1] is json_rows else ()
        several = {part: SplitFiles("tables", (path,), f"{path.name} ({part})", part) for part in parts}
        return several or {split: SplitFiles("tables", (path,), path.name)}
    files, folders = inside(path, key)
    _check_not_saved(path, files, key)
    splits = _tables(path, files, key, columns)
    used = {file for each in splits.values() for file in each.files}
    for folder in folders:
        if (table := _documents(folder, key)) is not None:
            used.add(folder)
            split = folder.stem if ending(folder) in FORMATS else folder.name
            if other := match_split(split, splits):
                raise _several(key, path, other, [splits[other].name, table.name])
            splits[split] = table
    if not splits:
        return text_folders.find(path, files, folders, key, split)
    others = [each for each in (*files, *folders) if each not in used and each.name not in METADATA]
    first = next(iter(splits))
    return splits | {first: replace(splits[first], notes=(*left_out(others, "one of its tables"),))}


def match_split(split: str, present: Collection[str]) -> str | None:
    """Return the name of `split` among those `present`, ignoring case if necessary, else None."""
    return split if split in present else next((p for p in present if p.casefold() == split.casefold()), None)


def match_validation(
    split: str, present: Collection[str], key: str, others: Collection[str] = ()
) -> str | None:
    """Return the same as `match_split`, but the default split may have another usual name not in `others`.

    Raises DataError if several have.
    """
    match = match_split(split, present)
    if match or split != VALIDATION[0]:
        return match
    usual = [name for name in present if name.casefold() in VALIDATION and name not in others]
    if len(usual) > 1:
        raise DataError(f"{key}: the source has {listing(usual)}; expected one of these")
    return usual[0] if usual else None


def _part(file: Path) -> re.Match[str] | None:
    """Return the match of a name of part of a table, as on the hub or in Universal Dependencies, or None."""
    stem = uncompressed(file).stem
    return SHARD.fullmatch(stem) or TREEBANK.fullmatch(stem)


def _tables(path: Path, files: Sequence[Path], key: str, columns: Collection[str]) -> dict[str, SplitFiles]:
    """Return the table of each split, whole or in parts, or its parallel files."""
    beside = {file for file in files if not is_table(file)}
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
    """Return what the names of a table's parts share: their number or treebank, and the format."""
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
    files, folders = inside(folder, key)
    files = [file for file in files if not file.name.startswith("_")]  # such as _SUCCESS
    if folders or not files or not all(is_table(file) for file in files):
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


def _check_not_saved(path: Path, files: Sequence[Path], key: str) -> None:
    """Raise DataError if a folder was written by `save_to_disk` of datasets."""
    if {file.name for file in files} & {"state.json", "dataset_dict.json"}:
        split = "" if (path / "state.json").exists() else f"['{TRAIN}']"
        raise DataError(
            f"{key}: {path.name}/ was written by save_to_disk of datasets; expected tables, such as by "
            f"load_from_disk('{path}'){split}.to_parquet('{TRAIN}.parquet')"
        )


def _several(key: str, path: Path, split: str, names: Sequence[str]) -> DataError:
    return DataError(
        f"{key}: {path.name}/ has several tables of the split '{split}': {listing(names, SHOWN)}; "
        "expected one table. Name the file as source, or move the others away."
    )
