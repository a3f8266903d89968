"""IAT in a tiny study: identity to plain training, scores, mistakes."""

import pandas as pd
import pytest

from headspec import tables
from support.running.studies import Folder

pytestmark = pytest.mark.slow

SWEPT = ["iat-alpha0.3-delta0", "iat-alpha1-delta0.1", "iat-alpha1-delta0"]
METHODS = ["tuned", "iat", "iat-random", *SWEPT]


def path(study: Folder, method: str, name: str):
    return study.results / "runs/bert/tone+pos" / method / "seed0" / name


def test_no_delta_or_every_head_is_plain_training_to_the_byte(every_stage_finished):
    weights = {
        method: path(every_stage_finished, method, "model/model.safetensors").read_bytes()
        for method in METHODS
    }
    assert all(weights[method] == weights["tuned"] for method in SWEPT)
    assert len({*weights.values()}) == 3


def test_every_training_method_has_the_same_steps(every_stage_finished):
    histories = {
        method: tables.read(path(every_stage_finished, method, "training.parquet")) for method in METHODS
    }
    plain, columns = histories["tuned"], ["step", "epoch", "task", "learning_rate"]
    for method, history in histories.items():
        pd.testing.assert_frame_equal(history[columns], plain[columns])
        # same weights, so same losses, up to and including the first step after the branch
        point = len(plain) - round(0.1 * len(plain))
        assert history["loss"][: point + 1].tolist() == plain["loss"][: point + 1].tolist()
        assert (history["loss"].tolist() == plain["loss"].tolist()) == (method in ["tuned", *SWEPT])


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


def test_less_than_one_head_is_refused_before_any_job(every_stage_finished, tmp_path):
    study = every_stage_finished.copy(tmp_path / "study", "results")
    study.set("iat.alpha", 0.1)
    study.set("iat.alphas", [0.12, 0.5])
    output = study.snakemake("--dry-run", fails=True)
    expected = "less than one of the 8 heads of models.bert; expected at least 0.125"
    assert f"iat.alpha: got 0.1, {expected}" in output and f"iat.alphas.0: got 0.12, {expected}" in output
