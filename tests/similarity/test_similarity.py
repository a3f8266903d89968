"""Measures of task similarity: known values and invariances."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headspec import plugins
from headspec.config.measures import similarity as similarity_measures
from headspec.similarity.measures import Traits
from headspec.similarity.table import combined, encodings, pairwise, traits
from support.schemas import SCHEMAS

BY_WEIGHTS = similarity_measures.by_rule("sensitivity")
SOURCES = similarity_measures.functions(m for m in similarity_measures.MEASURES if m not in BY_WEIGHTS)
MEASURES = {name: plugins.function(source) for name, source in SOURCES.items()}
SEEDLESS = similarity_measures.seedless(MEASURES)
CNM = {"cnm": MEASURES["cnm"]}
N, HIDDEN = 40, 24


def random_traits(seed: int) -> Traits:
    rng = np.random.default_rng(seed)
    return {
        "paradigm": "single",
        "text": rng.normal(size=HIDDEN),
        "vectors": rng.normal(size=(N, HIDDEN)).astype(np.float32),
        "head_fisher": rng.gamma(0.5, size=72),
        "importance": rng.gamma(2, size=72),
        "top": rng.permuted(np.arange(72) < 21),
        "encoding": rng.normal(size=500),
    }


def vectors(a: np.ndarray, b: np.ndarray, measure: str) -> float:
    return MEASURES[measure]({"vectors": a}, {"vectors": b})


def rotation(rng: np.random.Generator, n: int) -> np.ndarray:
    return stats.ortho_group.rvs(n, random_state=rng)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=st.integers(0, 1000))
def test_symmetric_and_one_for_equal_tasks(measure, seed):
    a, b = random_traits(seed), random_traits(seed + 1)
    similarity = MEASURES[measure]
    assert similarity(a, a) == pytest.approx(1, abs=1e-6)
    assert similarity(a, b) == pytest.approx(similarity(b, a), abs=1e-9)
    assert -1 - 1e-9 <= similarity(a, b) <= 1 + 1e-9


@pytest.mark.parametrize(("measure", "trait"), [("text", "text"), ("cnm", "encoding")])
def test_orthogonal_tasks_give_zero(measure, trait):
    a, b = {trait: np.array([1.0, 0, 2, 0])}, {trait: np.array([0, 3.0, 0, -1])}
    assert MEASURES[measure](a, b) == 0
    assert MEASURES[measure](a, {trait: -2 * a[trait]}) == pytest.approx(-1)


def test_independent_representations_give_about_zero():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000, 16))
    assert abs(vectors(a, b, "dse")) < 0.03
    assert vectors(a, b, "cka") < 0.02
    assert abs(vectors(a[:300], b[:300], "rsa")) < 0.03


def test_known_values():
    a, b = np.array([[1.0, 0], [0, 1]]), np.array([[1.0, 0], [1, 1]])
    assert vectors(a, b, "dse") == pytest.approx((1 + 1 / np.sqrt(2)) / 2)
    x, y = np.array([[1.0], [-1], [2], [-2]]), np.array([[1.0], [1], [-1], [-1]])
    assert vectors(x, y, "cka") == pytest.approx(0)  # x'y = 1 - 1 - 2 + 2
    y = np.array([[1.0], [-1], [0], [0]])
    assert vectors(x, y, "cka") == pytest.approx(stats.pearsonr(x[:, 0], y[:, 0])[0] ** 2)
    a, b = ({"head_fisher": np.array(each)} for each in ([3.0, 0, 4], [0, 1.0, 1]))
    assert MEASURES["head-fisher"](a, b) == pytest.approx(4 / (5 * np.sqrt(2)))
    top = MEASURES["top-heads"](
        {"top": np.array([[1, 1, 0, 0]], bool)}, {"top": np.array([[0, 1, 1, 0]], bool)}
    )
    assert top == pytest.approx(1 / 3)
    nothing = {"top": np.zeros((1, 4), bool)}
    assert np.isnan(MEASURES["top-heads"](nothing, nothing))
    assert MEASURES["paradigm"]({"paradigm": "pair"}, {"paradigm": "single"}) == 0


def test_importance_compares_ranks():
    a = random_traits(0)
    other: Traits = {"importance": np.exp(3 * a["importance"])}
    assert MEASURES["importance"](a, other) == pytest.approx(1)
    assert MEASURES["importance"](a, {"importance": -a["importance"]}) == pytest.approx(-1)


@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10))
def test_cka_is_invariant_to_rotation_scale_and_shift(seed, scale):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, N, 6))
    moved = scale * b @ rotation(rng, 6) + rng.normal(size=6)
    assert vectors(a, moved, "cka") == pytest.approx(vectors(a, b, "cka"), abs=1e-9)
    assert vectors(b, moved, "cka") == pytest.approx(1)


@given(seed=st.integers(0, 1000))
def test_rsa_is_invariant_to_scale_and_shift_of_sentences_and_rotation_about_equal_entries(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, N, 6))
    equal = np.ones((6, 1)) / np.sqrt(6)
    rest = stats.ortho_group.rvs(6, random_state=rng)
    basis = np.linalg.qr(np.hstack([equal, rest[:, :5]]))[0]
    turn = (
        basis
        @ np.block([[np.ones((1, 1)), np.zeros((1, 5))], [np.zeros((5, 1)), rotation(rng, 5)]])
        @ basis.T
    )
    for moved in (
        rng.uniform(0.5, 2, (N, 1)) * b + rng.normal(size=(N, 1)),
        b[:, rng.permutation(6)],
        b @ turn,
    ):
        assert vectors(a, moved, "rsa") == pytest.approx(vectors(a, b, "rsa"), abs=1e-6)


@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10))
def test_dse_is_invariant_to_scale_and_to_rotating_both(seed, scale):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, N, 6))
    turn = rotation(rng, 6)
    assert vectors(scale * a @ turn, b @ turn, "dse") == pytest.approx(vectors(a, b, "dse"))


def test_a_zero_vector_has_no_similarity():
    assert np.isnan(MEASURES["text"]({"text": np.zeros(3)}, {"text": np.ones(3)}))
    flat = np.ones((N, 4))
    assert np.isnan(vectors(flat, flat, "cka"))


# --- the table


def importance_table(task: str, values: np.ndarray) -> pd.DataFrame:
    layer, head = np.indices(values.shape)
    return pd.DataFrame(
        {"task": task, "fold": 0, "layer": layer.ravel(), "head": head.ravel(), "importance": values.ravel(),
         "n": 10, "fisher": values.ravel() ** 2}
    )  # fmt: skip


def test_traits_come_from_the_tables():
    heads = {task: np.random.default_rng(i).gamma(2, size=(2, 5)) for i, task in enumerate("ab")}
    representations = pd.DataFrame(
        {"task": ["a", "a", "b", "b"], "example": [0, 1, 0, 1], "vector": [[1.0, 2], [3, 4], [5, 6], [7, 8]]}
    )
    text = pd.DataFrame({"task": ["a", "b"], "example": None, "vector": [[1.0, 0], [0, 1]]})
    importances = {task: importance_table(task, values) for task, values in heads.items()}
    by_task = traits({"a": "single", "b": "pair"}, text, representations, importances, 0.3)
    assert by_task["b"]["vectors"].tolist() == [[5, 6], [7, 8]]
    assert by_task["a"]["text"].tolist() == [1, 0]
    assert np.allclose(by_task["b"]["head_fisher"], heads["b"].ravel() ** 2)
    assert (
        by_task["a"]["top"].sum() == 3
        and heads["a"].ravel()[by_task["a"]["top"]].min() >= np.sort(heads["a"].ravel())[-3]
    )


def test_seeds_and_subjects_are_averaged():
    scores = {"s1": ([1, 0, 0], [1, 0, 0]), "s2": ([1, 0, 0], [0, 1, 0]), "s3": ([1, 1, 0], [1, 0, 0])}
    rows = [
        pd.DataFrame({"task": task, "subject": subject, "voxel": range(3), "r": np.array(r, dtype=float)})
        for subject, both in scores.items()
        for task, r in zip("ab", both, strict=True)
    ]
    encoding = pd.concat(rows)
    cnm = [pairwise(each, ["a", "b"], CNM, subject) for subject, each in encodings(encoding).items()]
    first, second = np.eye(2)
    text = [{"a": {"text": first}, "b": {"text": b}} for b in (first, second)]
    measure = {"text": MEASURES["text"]}
    seeds = [pd.concat([pairwise(each, ["a", "b"], measure), *cnm]) for each in text]
    frame = combined("m", seeds, 0.95, SEEDLESS)
    assert list(frame) == list(SCHEMAS["similarity"].columns)
    text = frame[frame["measure"] == "text"].iloc[0]
    assert text["similarity"] == 0.5 and np.isnan(text["ci_low"])
    assert np.isnan(text["between_seeds"])  # the same for every seed
    assert frame.loc[frame["measure"] == "cnm", "between_seeds"].dropna().eq(0).all()
    subjects = frame[frame["subject"].notna()].set_index("subject")["similarity"]
    assert subjects.to_dict() == pytest.approx({"s1": 1, "s2": 0, "s3": np.sqrt(0.5)})
    mean = frame[(frame["measure"] == "cnm") & frame["subject"].isna()].iloc[0]
    low, high = stats.t.interval(0.95, 2, subjects.mean(), stats.sem(subjects))
    assert (mean["similarity"], mean["ci_low"], mean["ci_high"]) == pytest.approx(
        (subjects.mean(), low, high)
    )


def test_one_subject_has_no_interval():
    encoding = pd.DataFrame({"task": ["a", "b"], "subject": "s1", "voxel": 0, "r": [0.5, 0.2]})
    seeds = [pairwise(each, ["a", "b"], CNM, subject) for subject, each in encodings(encoding).items()]
    mean = combined("m", seeds, 0.95, SEEDLESS).query("subject.isna()").iloc[0]
    assert mean["similarity"] == pytest.approx(1) and np.isnan(mean["ci_low"])
