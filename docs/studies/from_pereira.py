"""Converts brain responses of Pereira et al. (2018) to the two files for the section `brain`.

    PYTHONPATH=workflow python docs/studies/from_pereira.py language_lh brain

reads a region of the processed copy on the Hugging Face hub, one subject at a time, and writes
`stimuli.parquet` and `responses.parquet` into the folder `brain`. `--source` takes another revision
(`hub:<owner>/<name>@<revision>`), or a local Parquet file or folder of them.
"""

import argparse
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headspec.config.sources import locate
from headspec.errors import DataError, HeadspecError, listing, nearest
from headspec.provenance.files import atomic

SOURCE = "hub:helena-balabin/pereira_fMRI_sentences@38ecb87f301650f2c0bac5ffca47bf6c137398d3"
SENTENCES = "sentences"
PASSAGE = 4  # sentences per passage
READ = 1 << 20  # bytes of read-ahead
SCHEMA = pa.schema(
    [("subject", pa.string()), ("stimulus_id", pa.string()), ("voxels", pa.list_(pa.float32()))]
)


def files(source: str) -> list[Path]:
    """The Parquet files of a hub data set, downloaded unless cached, or of a local path."""
    if source.startswith("hub:"):
        from huggingface_hub import snapshot_download

        name, _, revision = source.removeprefix("hub:").partition("@")
        try:
            folder = snapshot_download(
                name, repo_type="dataset", revision=revision or None, allow_patterns="*.parquet"
            )
        except Exception as error:  # the library's errors have no common base class
            reason = str(error).split("\n")[0][:300]
            raise DataError(f"--source: '{source}' cannot be fetched ({reason})") from None
        path = Path(folder)
    else:
        path = locate(source, "--source")
    tables = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not tables:
        raise DataError(f"--source: no Parquet file in '{source}'")
    return tables


def subjects(paths: list[Path], region: str) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """Yield each subject's sentences, and the responses to them (sentences, voxels)."""
    for path in paths:
        try:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=READ) as file:
                columns = file.schema_arrow.names
                if SENTENCES not in columns:
                    raise DataError(
                        f"--source: no column '{SENTENCES}' in {path.name}; it has {listing(columns)}"
                    )
                regions = [name for name in columns if name != SENTENCES]
                if region not in regions:
                    hint = nearest(region, regions)
                    raise DataError(
                        f"region: no column '{region}' in {path.name}; it has {listing(regions)}.{hint}"
                    )
                for batch in file.iter_batches(1, columns=[region, SENTENCES]):
                    rows = batch.column(region).flatten()
                    values = rows.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
                    texts = batch.column(SENTENCES).flatten().to_pylist()
                    if len(set(rows.value_lengths().to_pylist())) != 1 or len(rows) != len(texts):
                        raise DataError(
                            f"region: '{region}' in {path.name} does not hold one list of voxels per "
                            "sentence, all of one length"
                        )
                    yield texts, values.reshape(len(texts), -1)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).split("\n")[0][:200]
            raise DataError(f"--source: {path.name} cannot be read as Parquet ({reason})") from None


def convert(region: str, out: Path, source: str) -> str:
    """Write stimuli and responses to the folder `out`; return a line that describes them.

    `region` is a column of the responses, such as ``language_lh``; `source` is
    ``hub:<owner>/<name>@<revision>``, a local Parquet file, or a folder of them.
    """
    stimuli: list[str] = []
    sizes = []
    by_subject = subjects(files(source), region)
    if (first := next(by_subject, None)) is None:
        raise DataError(f"--source: '{source}' has no rows")
    with ExitStack() as stack:
        temporary = stack.enter_context(atomic(out / "responses.parquet"))
        writer = stack.enter_context(pq.ParquetWriter(temporary, SCHEMA, compression="zstd"))
        for number, (texts, values) in enumerate(itertools.chain([first], by_subject), 1):
            stimuli = stimuli or texts
            if texts != stimuli:
                raise DataError(
                    f"--source: subjects 1 and {number} have different sentences; expected the same"
                )
            sizes.append(values.shape[1])
            ends = np.arange(len(texts) + 1, dtype=np.int32) * values.shape[1]
            columns = [
                pa.array([f"subject-{number}"] * len(texts)),
                pa.array([str(i) for i in range(len(texts))]),
                pa.ListArray.from_arrays(pa.array(ends), pa.array(values.ravel())),
            ]
            writer.write_table(pa.table(columns, schema=SCHEMA))
    frame = pd.DataFrame({"stimulus_id": [str(i) for i in range(len(stimuli))], "text": stimuli})
    frame["passage"] = [str(i // PASSAGE) for i in range(len(stimuli))]
    with atomic(out / "stimuli.parquet") as temporary:
        frame.to_parquet(temporary, index=False)
    voxels = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
    return f"{out}: {region}, {len(sizes)} subjects, {len(stimuli)} sentences, {voxels} voxels"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("region")
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", default=SOURCE)
    try:
        print(convert(**vars(parser.parse_args())))
    except HeadspecError as error:
        raise SystemExit(str(error)) from None
