"""Conversion of the hub copy of Pereira's responses, from a synthetic file with its columns."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headspec.errors import DataError
from headspec.similarity.brain import responses, stimuli
from support.paths import ROOT

sys.path.append(str(ROOT / "docs" / "studies"))
from_pereira = importlib.import_module("from_pereira")
REGIONS = [
    "language_lh", "language_rh", "vision_body", "vision_face", "vision_object", "vision_scene", "vision",
    "dmn", "task", "all",
]  # fmt: skip
SENTENCES = [f"Sentence {i} of passage {i // 4}." for i in range(24)]


def write_copy(folder: Path, files: int = 1, **sentences: list[str]) -> dict[str, list]:
    """Write Parquet files of eight subjects with 3 to 10 voxels; return the responses by region.

    `sentences` are those of subjects that have others, such as `s3`.
    """
    rng = np.random.default_rng(0)
    values = {r: [rng.normal(size=(24, 3 + s)).tolist() for s in range(8)] for r in REGIONS}
    table = pa.table(values | {"sentences": [sentences.get(f"s{s}", SENTENCES) for s in range(8)]})
    (folder / "data").mkdir(parents=True)
    for i in range(files):
        part = table.slice(i * 8 // files, 8 // files)
        pq.write_table(part, folder / "data" / f"train-{i:05}-of-{files:05}.parquet")
    return values


@pytest.mark.parametrize("files", [1, 4])
def test_both_files_are_what_a_study_reads(tmp_path, files):
    values, out = write_copy(tmp_path / "copy", files), tmp_path / "out"
    finding = from_pereira.convert("language_rh", out, str(tmp_path / "copy"))
    assert finding.endswith("language_rh, 8 subjects, 24 sentences, 3 to 10 voxels")
    table = stimuli.read_stimuli(str(out / "stimuli.parquet"))
    assert table["text"].tolist() == SENTENCES
    assert stimuli.units(table) == [str(i // 4) for i in range(24)]
    by_subject = responses.read_responses(out / "responses.parquet", table["stimulus_id"].to_list())
    assert list(by_subject) == [f"subject-{i}" for i in range(1, 9)]
    for each, stored in zip(by_subject.values(), values["language_rh"], strict=True):
        np.testing.assert_array_equal(each.values, np.float32(stored))
    assert pq.read_schema(out / "responses.parquet").field("voxels").type == pa.list_(pa.float32())


@pytest.mark.slow
def test_the_script(tmp_path):
    write_copy(tmp_path / "copy")
    file = tmp_path / "copy" / "data" / "train-00000-of-00001.parquet"

    def run(region: str) -> subprocess.CompletedProcess:
        command = [sys.executable, from_pereira.__file__, region, str(tmp_path / "out")]
        return subprocess.run([*command, "--source", str(file)], capture_output=True, text=True)

    assert run("dmn").stdout.strip().endswith("dmn, 8 subjects, 24 sentences, 3 to 10 voxels")
    failed = run("languge_lh")
    assert failed.returncode == 1 and "Traceback" not in failed.stderr
    assert failed.stderr.startswith("region: no column 'languge_lh'")
    assert "mean 'language_lh'?" in failed.stderr


def test_wrong_sources(tmp_path):
    write_copy(tmp_path / "other", s3=["Something else.", *SENTENCES[1:]])
    write_copy(tmp_path / "fewer", s0=SENTENCES[1:])
    (tmp_path / "empty").mkdir()
    pd.DataFrame({"all": [[[1.0]]]}).to_parquet(tmp_path / "no-sentences.parquet")
    for source, message in {
        "other": "subjects 1 and 4 have different sentences",
        "fewer": "'all' in .* does not hold one list of voxels per sentence",
        "nowhere": "--source: no file or folder 'nowhere'",
        "empty": "no Parquet file",
        "no-sentences.parquet": "no column 'sentences'",
    }.items():
        with pytest.raises(DataError, match=message):
            from_pereira.convert("all", tmp_path / "out", str(tmp_path / source))
    assert not list((tmp_path / "out").iterdir())  # no half-written file


def test_the_hub_is_asked_for_the_pinned_revision(tmp_path, monkeypatch):
    write_copy(tmp_path / "copy")
    asked = {}

    def snapshot_download(name, **settings):
        asked.update(settings, name=name)
        return str(tmp_path / "copy")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert "8 subjects" in from_pereira.convert("vision", tmp_path / "out", from_pereira.SOURCE)
    assert asked["name"] == "helena-balabin/pereira_fMRI_sentences" and asked["repo_type"] == "dataset"
    assert asked["revision"] == "38ecb87f301650f2c0bac5ffca47bf6c137398d3"
