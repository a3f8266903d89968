"""Brain responses: a Parquet table of subject, stimulus_id and voxels, read in one pass.

A subject's voxels with constant or non-finite responses are left out and counted: masks commonly extend
beyond what was measured. A response without any finite value is an error: nothing was recorded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headspec.data.sources import columns
from headspec.errors import DataError, listing, nearest

Voxels = NDArray[np.float32]

KEY = "brain.responses"
COLUMNS = ("subject", "stimulus_id", "voxels")
SHOWN = 5  # stimuli listed in a message
ROWS = 32  # rows decoded at a time
READ_AHEAD = 1 << 20  # bytes


@dataclass(frozen=True)
class Responses:
    """A subject's responses, averaged over repetitions."""

    values: Voxels  # (stimuli, voxels)
    voxels: NDArray[np.intp]  # (voxels,), positions in the lists of the file
    left_out: dict[str, int]  # reason: number of voxels left out


@dataclass
class VoxelChecks:
    """Checks of a subject's voxels in the rows read so far."""

    rows: NDArray[np.int64]  # (stimuli,), number of rows for each stimulus
    first: Voxels  # (voxels,), the subject's first row
    finite: NDArray[np.bool_]  # (voxels,), whether every value so far is finite
    varies: NDArray[np.bool_]  # (voxels,), whether any value differs from the first

    def add(self, stimulus: int, voxels: Voxels) -> None:
        self.rows[stimulus] += 1
        self.finite &= np.isfinite(voxels)
        self.varies |= voxels != self.first

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether a voxel is finite and varies, (voxels,)."""
        return self.finite & self.varies


def read_responses(path: Path, ids: Sequence[str]) -> dict[str, Responses]:
    """Return each subject's responses to the stimuli `ids`, in that order; subjects are sorted by name.

    All responses are in memory as float32: 8 subjects x 627 stimuli x 120,000 voxels take 2.4 GB. Raises
    DataError as `scan`.
    """
    sums: dict[str, Voxels] = {}

    def add(subject: str, stimulus: int, voxels: Voxels) -> None:
        if subject not in sums:
            sums[subject] = np.zeros((len(ids), len(voxels)), np.float32)
        sums[subject][stimulus] += voxels

    by_subject = {}
    for subject, checks in sorted(scan(path, ids, add).items()):
        values, usable = sums.pop(subject), checks.usable
        values /= checks.rows[:, None].astype(np.float32)
        constant = int((checks.finite & ~checks.varies).sum())
        left_out = {"not finite": int((~checks.finite).sum()), "constant": constant}
        kept = values if usable.all() else values[:, usable]
        by_subject[subject] = Responses(kept, np.flatnonzero(usable), left_out)
    return by_subject


def scan(path: Path, ids: Sequence[str], visit: Callable[[str, int, Voxels], None]) -> dict[str, VoxelChecks]:
    """Read the responses once, a few rows at a time, and return the checks of voxels by subject.

    `visit` is called for every valid row with the subject, the position of the stimulus in `ids`, and the
    voxels. Raises DataError with a line for each problem, at most one per subject; at once if the file cannot
    be read as such a table.
    """
    position = {name: i for i, name in enumerate(ids)}
    checks: dict[str, VoxelChecks] = {}
    wrong: dict[str, str] = {}
    unknown: dict[str, None] = {}
    for subject, name, voxels in _rows(path):
        if name not in position:
            unknown[name] = None
            continue
        if subject not in checks:
            counts, finite = np.zeros(len(ids), dtype=np.int64), np.ones(len(voxels), dtype=bool)
            checks[subject] = VoxelChecks(counts, voxels.copy(), finite, ~finite)
        expected = len(checks[subject].first)
        if len(voxels) != expected:
            wrong[subject] = f"{len(voxels)} voxels for stimulus '{name}', but {expected} in its first row"
        elif not np.isfinite(voxels).any():
            wrong[subject] = f"no finite value for stimulus '{name}'"
        else:
            checks[subject].add(position[name], voxels)
            visit(subject, position[name], voxels)
    for subject, each in checks.items():
        lacking = [name for name, rows in zip(ids, each.rows, strict=True) if not rows]
        if lacking and subject not in wrong:
            wrong[subject] = f"no response to {len(lacking)} of {len(ids)} stimuli ({_some(lacking)})"
        elif not each.usable.any() and subject not in wrong:
            wrong[subject] = f"no usable voxel: each of {len(each.first)} is constant or not always finite"
    problems = [f"{KEY}: subject '{subject}' in {path.name} has {what}" for subject, what in wrong.items()]
    if unknown:
        problems.append(
            f"{KEY}: {len(unknown)} of the stimuli in {path.name} cannot be found in brain.stimuli "
            f"({_some([*unknown])}).{nearest(next(iter(unknown)), ids)}"
        )
    if problems or not checks:
        raise DataError("\n".join(problems) or f"{KEY}: {path.name} has no rows")
    return checks


def _some(names: Sequence[str]) -> str:
    return listing(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _rows(path: Path) -> Iterator[tuple[str, str, Voxels]]:
    """Yield subject, stimulus and voxels of every row; values beyond float32 become infinite."""
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_AHEAD) as file:
            _check_columns(file.schema_arrow, path.name)
            before = 0
            for batch in file.iter_batches(ROWS, columns=list(COLUMNS)):
                names = [columns.to_text(batch.column(column).to_pandas()) for column in COLUMNS[:2]]
                for column, values in zip(COLUMNS, names, strict=False):
                    if values.isna().any():
                        row = before + int(values.isna().to_numpy().argmax()) + 1
                        raise DataError(f"{KEY}: row {row} of {path.name} has no {column}")
                before += len(batch)
                lists = batch.column("voxels")
                ends = np.cumsum([len(each) if each.is_valid else 0 for each in lists])
                with np.errstate(over="ignore"):
                    numbers = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
                yield from zip(*names, np.split(numbers, ends[:-1]), strict=True)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError(f"{KEY}: {path.name} cannot be read as Parquet ({reason})") from None


def _check_columns(schema: pa.Schema, name: str) -> None:
    missing = [
        f"{KEY}: no column '{column}' in {name}; it has {listing(schema.names)}."
        f"{nearest(column, schema.names)}"
        for column in COLUMNS
        if column not in schema.names
    ]
    if missing:
        raise DataError("\n".join(missing))
    voxel_type = schema.field("voxels").type
    lists = (
        pa.types.is_list(voxel_type)
        or pa.types.is_large_list(voxel_type)
        or pa.types.is_fixed_size_list(voxel_type)
    )
    if not lists or not (
        pa.types.is_floating(voxel_type.value_type) or pa.types.is_integer(voxel_type.value_type)
    ):
        raise DataError(f"{KEY}: column 'voxels' of {name} is {voxel_type}, expected lists of numbers")
