"""Stimuli and responses: formats, nuisance, errors, and real data."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.config.study import Study
from headspec.errors import DataError
from headspec.similarity.brain import encoding, experiment, responses
from headspec.similarity.brain.folds import splits
from headspec.similarity.brain.stimuli import frequency, read_stimuli, regressors, units, word_counts
from support.data.brains import save, smooth, write_responses
from support.paths import SHARED
from support.running.studies import CONFIG
from support.schemas import SCHEMAS

RESPONSES = SHARED / "brain" / "harry-potter"


def study(section: dict) -> Study:
    return Study.model_validate(CONFIG | {"brain": section})


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    rng = np.random.default_rng(0)
    return save(tmp_path, {"b": smooth(rng, (20, 4)), "a": smooth(rng, (20, 3))})


def read(section: dict) -> dict[str, responses.Responses]:
    ids = read_stimuli(section["stimuli"])["stimulus_id"].to_list()
    return responses.read_responses(Path(section["responses"]), ids)


# --- reading


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_stimuli_in_every_format(tmp_path, ending):
    frame = pd.DataFrame({
        "stimulus_id": [3, 1, 2], "text": ["one, two", "été", "so on"], "passage": [1, 1, 2],
        "pace": [1, 2.5, 3],
    })  # fmt: skip
    path = tmp_path / f"stimuli.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    names = ["pace", "position", "length"]
    table = read_stimuli(str(path), names)
    np.testing.assert_array_equal(regressors(table, names, {}), [[1, 0, 8], [2.5, 1, 3], [3, 0, 5]])
    tables.write(tmp_path / "canonical.parquet", SCHEMAS["stimuli"], table.assign(example=range(3)), {})
    stored = tables.read(tmp_path / "canonical.parquet")
    assert stored["stimulus_id"].tolist() == ["3", "1", "2"]
    assert stored["text"].tolist() == frame["text"].tolist() and stored["example"].tolist() == [0, 1, 2]
    assert units(stored) == stored["passage"].tolist() == ["1", "1", "2"]


def test_frequency_is_the_mean_log_of_counts():
    counts = word_counts(["The cat's tail.", "the the"])
    assert counts == {"the": 3, "cat's": 1, "tail": 1}
    stimuli = pd.DataFrame({"text": ["The tail", "dog", "..."]})
    expected = [(np.log(4 / 6) + np.log(2 / 6)) / 2, np.log(1 / 6), np.log(1 / 6)]
    np.testing.assert_allclose(frequency(stimuli, counts), expected)


def test_responses_in_the_order_of_the_stimuli_with_repetitions_averaged(tmp_path):
    values = smooth(np.random.default_rng(0), (20, 4))
    section = save(tmp_path, {"a": values})
    rows = [("a", float(i), (values[i] + shift).tolist()) for shift in (-1, 1) for i in reversed(range(20))]
    write_responses(tmp_path, rows)
    averaged = read(section)["a"]
    np.testing.assert_allclose(averaged.values, values, atol=1e-6)
    assert averaged.values.dtype == np.float32 and averaged.voxels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.float32(), 4)]
)
def test_lists_of_every_kind(tmp_path, kind):
    values = np.random.default_rng(0).integers(0, 9, (20, 4))
    section, voxels = save(tmp_path, {"a": values}), pa.array(values.tolist(), kind)
    columns = {"subject": ["a"] * 20, "stimulus_id": list(range(20)), "voxels": voxels}
    pq.write_table(pa.table(columns), tmp_path / "responses.parquet")
    np.testing.assert_array_equal(read(section)["a"].values, values)


def test_voxels_that_cannot_be_used_are_left_out_and_counted(tmp_path):
    values = smooth(np.random.default_rng(0), (20, 6)).astype(float)
    values[:, 1] = 5
    values[3, 2], values[4, 4], values[:, 5] = np.nan, 1e300, np.inf
    section = save(tmp_path, {"a": values, "b": values[:, [0, 3]]})
    experiment.check_experiment(study(section))
    a, b = read(section).values()
    assert a.voxels.tolist() == [0, 3] and a.left_out == {"not finite": 3, "constant": 1}
    np.testing.assert_array_equal(a.values, b.values)


# --- errors


def wrong(section: dict, **settings) -> str:
    with pytest.raises(DataError) as caught:
        experiment.check_experiment(study(section | settings))
    return str(caught.value)


def stimuli(section: dict, change) -> None:
    frame = pd.read_csv(section["stimuli"])
    change(frame).to_csv(section["stimuli"], index=False)


def test_right_data_pass(files):
    regressors = {"nuisance": ["length", "position", "frequency"]}
    for section in (files, files | {"voxels": "reliable"} | regressors):
        experiment.check_experiment(study(section))
    experiment.check_experiment(Study.model_validate(CONFIG))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"text": "texts"}),
         "brain.stimuli: no column 'text' in stimuli.csv; it has "
         "stimulus_id, texts. Did you mean 'texts'?"),
        (lambda f: f.head(0), "brain.stimuli: stimuli.csv has no rows"),
        (lambda f: f.assign(text=["", " ", *f["text"][2:]]),
         "brain.stimuli: column 'text' is empty in 2 of 20 rows"),
        (lambda f: f.assign(stimulus_id=[1, *f["stimulus_id"][1:]]),
         "'stimulus_id' repeats an earlier one in 1 of 20 "
         "rows of stimuli.csv; the first is row 2 ('1')"),
        (lambda f: f.assign(stimulus_id=[None, *f["stimulus_id"][1:]]),
         "'stimulus_id' is missing in 1 of 20 rows"),
        (lambda f: f.assign(passage=["a"] * 19 + [None]), "'passage' is missing in 1 of 20 rows"),
        (lambda f: f.assign(passage=["a"] * 12 + ["b"] * 8),
         "brain.folds: got 5, expected at most 2, the number of passages"),
        (lambda f: f.head(11),
         "brain.folds: got 5, but the smallest fold would have 2 of 11 stimuli; expected fewer folds"),
        (lambda f: f.head(19),
         "brain.responses: 1 of the stimuli in responses.parquet cannot be found in brain.stimuli (19)."),
    ],
)  # fmt: skip
def test_wrong_stimuli(files, change, message):
    stimuli(files, change)
    assert message in wrong(files)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["lenght"],
         "brain.nuisance: got 'lenght', expected length, position, frequency or a numeric column of "
         "stimuli.csv. Did you mean 'length'?"),
        (["text"], "brain.nuisance: got 'text', expected length, position, frequency or a numeric column"),
        (["pace"],
         "column 'pace' is not a finite number in 1 of 20 rows of stimuli.csv; the first is row 3 ('')"),
        (["position"], "brain.nuisance: 'position' is both built in and a column"),
    ],
)  # fmt: skip
def test_wrong_nuisance(files, names, message):
    stimuli(files, lambda f: f.assign(pace=[1, 2, None, *range(17)], position=1))
    assert message in wrong(files, nuisance=names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"voxels": "voxel"}),
         "brain.responses: no column 'voxels' in responses.parquet; "
         "it has subject, stimulus_id, voxel. Did you mean 'voxel'?"),
        (lambda f: f.assign(voxels=1.0),
         "'voxels' of responses.parquet is double, expected lists of numbers"),
        (lambda f: f.assign(subject=[None, *f["subject"][1:]]),
         "brain.responses: row 1 of responses.parquet has no "
         "subject"),
        (lambda f: f.head(0).astype({"subject": "str"}), "responses.parquet"),
        (lambda f: f[(f["subject"] == "a") | (f["stimulus_id"] > 6)], "brain.responses: subject 'b' in "
         "responses.parquet has no response to 7 of 20 stimuli (0, 1, 2, 3, 4, ...)"),
        (lambda f: f.assign(voxels=[*f["voxels"][:19], [1.0], *f["voxels"][20:]]), "subject 'b' in "
         "responses.parquet has 1 voxels for stimulus '19', but 4 in its first row"),
        (lambda f: f.assign(voxels=[[np.nan] * 4, *f["voxels"][1:]]),
         "subject 'b' in responses.parquet has no "
         "finite value for stimulus '0'"),
        (lambda f: f.assign(voxels=[None, *f["voxels"][1:]]), "brain.responses: subject 'b'"),
        (lambda f: f.assign(voxels=[[1.0, 2.0]] * 40),
         "subject 'a' in responses.parquet has no usable voxel: each of 2 is constant or not always finite"),
    ],
)  # fmt: skip
def test_wrong_responses(files, change, message):
    change(pd.read_parquet(files["responses"])).to_parquet(files["responses"])
    assert message in wrong(files)


def test_wrong_files_and_folds(files, tmp_path):
    assert "brain.stimuli: no file or folder 'stimulli.csv'" in wrong(
        files, stimuli=str(tmp_path / "stimulli.csv")
    )
    assert "Did you mean 'responses.parquet'?" in wrong(files, responses=str(tmp_path / "response.parquet"))
    assert "cannot be read as Parquet" in wrong(files, responses=files["stimuli"])
    messages = wrong(files, folds=30, responses=files["stimuli"])
    assert (
        "brain.folds: got 30, expected at most 20, the number of stimuli" in messages
        and len(messages.splitlines()) == 2
    )
    stimuli(files, lambda f: f.assign(passage=[0] * 10 + [1] * 10))
    assert "a single passage to train on" in wrong(files, folds=2)


def test_one_subject_is_enough_for_all_voxels_but_not_for_reliable_ones(tmp_path):
    section = save(tmp_path, {"only": smooth(np.random.default_rng(0), (20, 4))})
    experiment.check_experiment(study(section))
    message = "brain.voxels: got 'reliable', which compares subjects, but responses.parquet has only 'only'"
    assert message in wrong(section, voxels="reliable")


def test_more_regressors_than_stimuli_allow(tmp_path):
    section = save(tmp_path, {name: smooth(np.random.default_rng(i), (12, 4)) for i, name in enumerate("ab")})
    few = "got 2, but the smallest training part would have 3 of 12 stimuli; expected 4"
    assert few in wrong(section, folds=2)
    message = wrong(section, folds=3, nuisance=["length", "position", "frequency"])
    assert "expected 7 or more for a mean and 3 regressors" in message


# --- real data


@pytest.mark.needs("shared data")
@pytest.mark.slow
def test_real_responses_have_a_ceiling_and_random_vectors_stay_below():
    files = {name: str(RESPONSES / f"{name}.parquet") for name in ("stimuli", "responses")}
    experiment.check_experiment(study(files))
    table, by_subject = read_stimuli(files["stimuli"]), read(files)
    assert len(by_subject) == 8 and all(each.values.shape == (1294, 100) for each in by_subject.values())
    sample = {
        name: responses.Responses(each.values[:300], each.voxels, {})
        for name, each in [*by_subject.items()][:3]
    }
    words, regressors = units(table)[:300], np.empty((300, 0))
    voxels = encoding.analyse_voxels(sample, words, regressors, 3, False, 0)
    assert (voxels.groupby("subject")["ceiling"].mean() > 0.1).all()
    vectors = {"random": smooth(np.random.default_rng(0), (300, 50))}
    folds = splits(words, regressors, 3)
    _, summary = encoding.analyse_encoding(vectors, sample, voxels, folds, "ridge", 0)
    assert (summary["r"].abs() < 0.1).all() and summary["p_value"].min() > 0.01


@pytest.mark.slow
def test_reading_loads_neither_torch_nor_scikit_learn():
    program = "import sys, headspec.similarity.brain.encoding; print({'torch', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
