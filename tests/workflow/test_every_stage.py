"""A tiny study with every stage: all of them run; IAT, transfer, and comparisons of tasks."""

import itertools
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.data.submission import ARCHIVE
from headspec.pipeline import outputs
from support.running.every_stage import AFFINITIES, SIMILARITIES, STUDY, TARGETS, TASKS
from support.running.studies import Folder

pytestmark = pytest.mark.slow

#: tables that stay empty here, or are of stages that this study lacks
LACKING = {"vocabulary", "listed", "head_lists", "areas", "shared_fragility"}


def test_every_other_table_has_rows(every_stage_finished):
    results = every_stage_finished.results
    made = {path.relative_to(results).as_posix(): path for path in results.rglob("*.parquet")}

    def rows(name: str) -> int:
        patterns = [re.sub(r"{\w+}", "[^/]+", path) for path in outputs.paths(name)]
        found = [path for at, path in made.items() if any(re.fullmatch(p, at) for p in patterns)]
        return sum(pq.read_metadata(path).num_rows for path in found)

    assert {name for name in outputs.schemas() if not rows(name)} == LACKING


def test_nothing_is_left_to_do(every_stage_finished):
    assert every_stage_finished.plan(*TARGETS, "explorer").rules == {}


# --- IAT

SWEPT = ["iat-alpha0.3-delta0", "iat-alpha1-delta0.1", "iat-alpha1-delta0"]
METHODS = ["tuned", "iat", "iat-random", *SWEPT]


def path(study: Folder, method: str, name: str):
    return study.results / "runs/bert/tone+pos" / method / "seed0" / name


def test_every_method_has_the_same_steps_and_without_delta_or_with_every_head_the_same_weights(
    every_stage_finished,
):
    """As plain training, to the byte."""
    plain, columns = None, ["step", "epoch", "task", "learning_rate"]
    weights = {}
    for method in METHODS:
        weights[method] = path(every_stage_finished, method, "model/model.safetensors").read_bytes()
        history = tables.read(path(every_stage_finished, method, "training.parquet"))
        plain = history if plain is None else plain
        pd.testing.assert_frame_equal(history[columns], plain[columns])
        # same weights, so same losses, up to and including the first step after the branch
        point = len(plain) - round(0.1 * len(plain))
        assert history["loss"][: point + 1].equals(plain["loss"][: point + 1])
        alike = method in ["tuned", *SWEPT]
        assert history["loss"].equals(plain["loss"]) == (weights[method] == weights["tuned"]) == alike
    assert len({*weights.values()}) == 3


def test_scores_of_every_run(every_stage_finished):
    frame = tables.read(every_stage_finished.results / "tables" / "iat.parquet")
    frame = frame[frame["task"] == "tone"]
    assert set(frame["method"]) == {*METHODS, "single"} and frame["value"].between(0, 1).all()
    kinds = frame.drop_duplicates("method").set_index("method")
    assert kinds["heads"].dropna().to_dict() == {
        "iat": "top", "iat-random": "random", **dict.fromkeys(SWEPT, "top")
    }  # fmt: skip
    assert kinds.loc["iat", ["alpha", "delta"]].tolist() == [0.3, 0.1]
    assert kinds.loc[["tuned", "single"], ["alpha", "delta"]].isna().all(axis=None)
    rows = tables.read(path(every_stage_finished, "tuned", "evaluation.parquet")).query("task == 'tone'")
    assert kinds.loc["tuned", "value"] == pytest.approx((rows["label"] == rows["prediction"]).mean())


@pytest.mark.parametrize("method", ["tuned", "iat", "single"])
def test_further_splits_are_scored_and_prediction_files_written(every_stage_finished, method):
    """As the server takes them: a row for each text in its order, and a warning where it has others."""
    scores = tables.read(every_stage_finished.results / "tables" / "iat.parquet")
    assert set(scores["task"][scores["method"] == method]) == {"tone", "more", "pos"}
    run = f"submission/bert/tone+pos/{method}/seed0"
    rows = pd.read_csv(every_stage_finished.results / run / "SST-2.tsv", sep="\t")
    assert rows["index"].tolist() == [*range(60)] and set(rows["prediction"]) <= {0, 1}
    assert (every_stage_finished.results / run / ARCHIVE).exists()
    log = (every_stage_finished.results / "logs" / f"{run}.log").read_text()
    assert "SST-2: 60 rows, but the server's test set has 1821" in log


# --- transfer


@pytest.fixture
def results(every_stage_finished):
    return every_stage_finished.results


def test_transfer_of_every_encoder(results):
    table, summary = (
        tables.read(results / "tables" / f"{name}.parquet") for name in ("transfer", "transfer_summary")
    )
    keys = ["model", "task", "mixture", "method", "tuning", "samples", "seed", "draw", "metric"]
    assert not table.duplicated(keys).any() and len(table) == 2 * 2 * 2  # methods, tunings, draws
    assert set(table["mixture"] + "/" + table["method"]) == {"none/pretrained", "tone+pos/tuned"}
    assert table["value"].between(0, 1).all()
    linear = table[table["tuning"] == "linear"].groupby("method")["value"].mean()
    found = summary[summary["tuning"] == "linear"].set_index("method").loc["pretrained", "difference"]
    assert found == pytest.approx(linear["pretrained"] - linear["tuned"])


# --- similarity, affinity, sentences, responses of brains


def test_every_pair_has_every_measure(results):
    frame = tables.read(results / "tables" / "similarity.parquet")
    means = frame[frame["subject"].isna()].set_index(["measure", "task_a", "task_b"])["similarity"]
    pairs = itertools.combinations(TASKS, 2)
    assert {*means.index} == {(measure, *pair) for measure, pair in itertools.product(SIMILARITIES, pairs)}
    assert means.index.is_unique and means.between(-1 - 1e-9, 1 + 1e-9).all()
    subjects = frame[frame["subject"].notna()]
    assert subjects["measure"].eq("cnm").all() and set(subjects["subject"]) == {"s0", "s1"}
    assert means["paradigm"].eq(1).all()


def test_the_correlation_is_of_pairs_of_which_models_have_learnt_both_tasks(results):
    combined = tables.read(results / "tables" / "combined.parquet")
    correlation = tables.read(results / "tables" / "correlation.parquet").set_index("measure")
    means = combined.query("task == 'mean' and method == 'tuned'")
    learnt = means.loc[~means["unpruned_at_chance"], "mixture"].nunique()
    assert learnt < 3 and correlation["n_pairs"].eq(learnt).all()
    assert set(correlation.index) == {*SIMILARITIES} and correlation["pearson_r"].isna().all()


def test_affinity_has_both_directions_of_every_pair(results):
    affinity = tables.read(results / "tables" / "affinity.parquet")
    by_pair = affinity.set_index(["measure", "source", "target"])["affinity"]
    assert {*by_pair.index} == {
        (measure, *pair) for measure in AFFINITIES for pair in itertools.permutations(TASKS, 2)
    }
    # a step on the pretrained encoder may change a loss of these random models by less than float32 rounds
    assert affinity["affinity"].ne(0).groupby(affinity["measure"]).any().all()
    frame = tables.read(results / "tables" / "similarity.parquet")
    for row in frame[frame["measure"].isin(AFFINITIES)].itertuples():
        both = [by_pair[row.measure, row.task_a, row.task_b], by_pair[row.measure, row.task_b, row.task_a]]
        assert row.similarity == pytest.approx(np.mean(both))


def test_sentences_and_brains(results):
    most = STUDY["similarity"]["max_sentences"]
    sentences = tables.read(results / "similarity" / "sentences.parquet")
    assert sentences["task"].value_counts().to_dict() == dict.fromkeys(TASKS, most // 3)
    vectors = tables.read(results / "similarity" / "bert" / "seed0" / "sentences.parquet")
    assert vectors.groupby("task").size().to_dict() == dict.fromkeys(TASKS, most)
    nuisance = tables.read(results / "brain" / "nuisance.parquet")
    assert len(nuisance) == 40 and nuisance["nuisance"].str.len().eq(1).all()
    voxels = tables.read(results / "brain" / "voxels.parquet")
    assert len(voxels) == 2 * 6 * 5 and voxels["selected"].all()
    summary = tables.read(results / "similarity" / "bert" / "seed0" / "brain_encoding_summary.parquet")
    subjects = itertools.product(TASKS, ["s0", "s1"])
    assert {*zip(summary["task"], summary["subject"], strict=True)} == {*subjects}
    assert summary["n_voxels"].eq(6).all() and summary["p_value"].between(1 / 40, 1).all()
