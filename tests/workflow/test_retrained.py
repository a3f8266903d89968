"""Snakemake on a tiny study with IAT: identity to plain training, effects of changes, interruptions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headspec import tables
from support.running.edits import constant, setting
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "mixtures": {"pairs": ["tone", "topic"]},
    "methods": ["tuned"],
    "training": CONFIG["training"] | {"epochs": 2},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 10},
    "iat": {"mixtures": ["tone+topic"], "alphas": [1], "deltas": [0], "controls": ["random"]},
    "figures": {"dpi": 60, "formats": ["png"]},
}
PAIR = Path("runs/bert/tone+topic")
SWEPT = ["iat-alpha0.3-delta0", "iat-alpha1-delta0.1", "iat-alpha1-delta0"]
METHODS = ["tuned", "iat", "iat-random", *SWEPT]
#: the stages that train or run a model
MODEL = (
    "data",
    "tokenize",
    "train",
    "train_and_keep",
    "branch",
    "retrain",
    "evaluate",
    "importance",
    "prune",
)


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path: Path) -> None:
        folder = Folder.new(path)
        folder.write(STUDY)
        folder.snakemake("iat")

    return Folder(shared("retrained", run))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "study")


def weights(study: Folder, method: str) -> bytes:
    return (study.results / PAIR / method / "seed0" / "model" / "model.safetensors").read_bytes()


def test_no_delta_or_every_head_is_plain_training_to_the_byte(finished):
    plain = weights(finished, "tuned")
    assert all(weights(finished, method) == plain for method in SWEPT)
    assert len({plain, weights(finished, "iat"), weights(finished, "iat-random")}) == 3


def test_every_training_method_has_the_same_steps(finished):
    plain = tables.read(finished.results / PAIR / "tuned" / "seed0" / "training.parquet")
    columns = ["step", "epoch", "task", "learning_rate"]
    for method in METHODS:
        history = tables.read(finished.results / PAIR / method / "seed0" / "training.parquet")
        pd.testing.assert_frame_equal(history[columns], plain[columns])
        # same weights, so same losses, up to and including the first step after the branch
        point = len(plain) - round(0.1 * len(plain))
        assert history["loss"][: point + 1].tolist() == plain["loss"][: point + 1].tolist()
        assert (history["loss"].tolist() == plain["loss"].tolist()) == (method in ["tuned", *SWEPT])


def test_scores_of_every_run(finished):
    frame = tables.read(finished.results / "tables" / "iat.parquet")
    assert set(frame["method"]) == {*METHODS, "single"} and frame["value"].between(0, 1).all()
    assert len(frame) == 2 * len(METHODS) + 2
    kinds = frame.drop_duplicates("method").set_index("method")
    assert kinds["heads"].dropna().to_dict() == {
        "iat": "top", "iat-random": "random", **dict.fromkeys(SWEPT, "top")
    }  # fmt: skip
    assert kinds.loc["iat", ["alpha", "delta"]].tolist() == [0.3, 0.1]
    assert kinds.loc[["tuned", "single"], ["alpha", "delta"]].isna().all(axis=None)
    for task, scored in frame[frame["method"] == "tuned"].set_index("task").groupby(level=0):
        run = finished.results / PAIR / "tuned" / "seed0" / "evaluation.parquet"
        rows = tables.read(run)
        rows = rows[rows["task"] == task]
        assert scored["value"].item() == pytest.approx((rows["label"] == rows["prediction"]).mean())


def test_the_rest_of_the_study_uses_existing_results(finished):
    rules = finished.plan().rules
    assert not {"train", "train_and_keep", "branch", "retrain", "evaluate"} & set(rules)


# --- effects of changes

ONE = {"retrain": 1, "evaluate": 1}
RETRAINED = {"retrain": 5, "evaluate": 5}
FROM_BRANCH = {"branch": 2} | RETRAINED
SCORED = {"importance": 1, "prune": 1}  # dissociation after IAT


CHANGES: list[tuple[str, Callable[[Folder], None], dict[str, int]]] = [
    # the sweep uses this value for its other key
    ("alpha", setting("iat.alpha", 0.5), {"retrain": 3, "evaluate": 3} | SCORED),
    ("delta", setting("iat.delta", 0.15), {"branch": 1, "retrain": 3, "evaluate": 3} | SCORED),
    ("a control added", setting("iat.controls", ["random", "bottom"]), ONE),
    ("a value of alpha added", setting("iat.alphas", [1, 0.5]), {"retrain": 2, "evaluate": 2}),
    ("projections", setting("iat.projections", "qkvo"), RETRAINED | SCORED),
    ("a sampling added", setting("iat.samplings", ["annealed"]),
     {"train_and_keep": 1, "branch": 1, "retrain": 1, "evaluate": 2}),
    ("where the kept state is", setting("iat.reserve", 0.3),
     {"train_and_keep": 1} | FROM_BRANCH | {"evaluate": 6, "importance": 2, "prune": 2}),
    ("IAT's module", constant("headspec/training/iat.py"), FROM_BRANCH | SCORED),
    ("slices of heads", constant("headspec/models/head_parameters.py"), RETRAINED | SCORED),
    ("choices of heads", constant("headspec/heads/masks.py"),
     RETRAINED | {"evaluate": 8, "importance": 1, "prune": 2}),
    ("importance", constant("headspec/heads/importance.py"), FROM_BRANCH | {"importance": 2, "prune": 2}),
    ("comparison of methods", constant("headspec/statistics/training/improvement.py"), {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_a_change_reruns_what_depends_on_it(study, change, expected):
    change(study)
    rules = study.plan("iat").rules
    assert {rule: n for rule, n in rules.items() if rule in MODEL} == expected
    assert "improvement" in rules or "iat_dissociation" in rules


def test_a_variant_that_the_study_lacks_reruns_nothing(study):
    constant("headspec/training/variants/rescored.py")(study)
    assert study.plan("iat").rules == {}


# --- errors


def test_less_than_one_head_is_refused_before_any_job(study):
    study.set("iat.alpha", 0.1)
    study.set("iat.alphas", [0.12, 0.5])
    output = study.snakemake("--dry-run", fails=True)
    expected = "less than one of the 8 heads of models.bert; expected at least 0.125"
    assert f"iat.alpha: got 0.1, {expected}" in output and f"iat.alphas.0: got 0.12, {expected}" in output
