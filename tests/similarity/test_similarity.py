"""Measures of task similarity: known values and invariances."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headspec import plugins
from headspec.config.measures import similarity as similarity_measures
from headspec.similarity import traits
from headspec.similarity.measures import Measure, Traits, by_subject, pairwise
from headspec.similarity.table import combined
from support.paths import ROOT
from support.schemas import SCHEMAS

RULES = ROOT / "workflow" / "rules"
BY_WEIGHTS = similarity_measures.of_weights(similarity_measures.MEASURES)
MEASURES = {
    name: plugins.function(similarity_measures.MEASURES[name].function)
    for name in similarity_measures.MEASURES
    if name not in BY_WEIGHTS
}
SEEDLESS = similarity_measures.seedless(MEASURES)
N, HIDDEN = 40, 24
SEEDS, SCALES = st.integers(0, 1000), st.floats(0.1, 10)


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


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Vectors of two tasks, (N, 6), and a generator of what moves them."""
    rng = np.random.default_rng(seed)
    return *rng.normal(size=(2, N, 6)), rng


def rotation(rng: np.random.Generator, n: int = 6) -> np.ndarray:
    return stats.ortho_group.rvs(n, random_state=rng)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=SEEDS)
def test_symmetric_and_one_for_equal_tasks(measure, seed):
    a, b = random_traits(seed), random_traits(seed + 1)
    similarity = MEASURES[measure]
    assert similarity(a, a) == pytest.approx(1, abs=1e-6)
    assert similarity(a, b) == pytest.approx(similarity(b, a), abs=1e-9)
    assert -1 - 1e-9 <= similarity(a, b) <= 1 + 1e-9


VECTOR, ORTHOGONAL, OPPOSITE = np.array([[1.0, 0, 2, 0], [0, 3, 0, -1], [-2, 0, -4, 0]])
FIRST, SECOND, NO_HEAD = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)
LINE = np.array([[1.0], [-1], [2], [-2]])


@pytest.mark.parametrize(
    ("measure", "trait", "a", "b", "expected"),
    [
        ("text", "text", VECTOR, ORTHOGONAL, 0),
        ("text", "text", VECTOR, OPPOSITE, -1),
        ("text", "text", np.zeros(3), np.ones(3), np.nan),
        ("cnm", "encoding", VECTOR, ORTHOGONAL, 0),
        ("cnm", "encoding", VECTOR, OPPOSITE, -1),
        ("dse", "vectors", np.array([[1.0, 0], [0, 1]]), np.array([[1.0, 0], [1, 1]]), (1 + 0.5**0.5) / 2),
        ("cka", "vectors", LINE, np.array([[1.0], [1], [-1], [-1]]), 0),  # x'y = 1 - 1 - 2 + 2
        ("cka", "vectors", LINE, np.array([[1.0], [-1], [0], [0]]), 2**2 / (10 * 2)),
        ("cka", "vectors", np.ones((N, 4)), np.ones((N, 4)), np.nan),
        ("head-fisher", "head_fisher", np.array([3.0, 0, 4]), np.array([0, 1.0, 1]), 4 / (5 * 2**0.5)),
        ("importance", "importance", LINE[:, 0], np.exp(3 * LINE[:, 0]), 1),  # of ranks
        ("importance", "importance", LINE[:, 0], -LINE[:, 0], -1),
        ("top-heads", "top", FIRST, SECOND, 1 / 3),
        ("top-heads", "top", NO_HEAD, NO_HEAD, np.nan),
        ("paradigm", "paradigm", "pair", "single", 0),
    ],
)  # fmt: skip
def test_known_values(measure, trait, a, b, expected):
    assert MEASURES[measure]({trait: a}, {trait: b}) == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_independent_representations_give_about_zero():
    a, b = np.random.default_rng(0).normal(size=(2, 2000, 16))
    assert abs(vectors(a, b, "dse")) < 0.03
    assert vectors(a, b, "cka") < 0.02
    assert abs(vectors(a[:300], b[:300], "rsa")) < 0.03


@given(seed=SEEDS, scale=SCALES)
def test_cka_is_invariant_to_rotation_scale_and_shift(seed, scale):
    a, b, rng = drawn(seed)
    moved = scale * b @ rotation(rng) + rng.normal(size=6)
    assert vectors(a, moved, "cka") == pytest.approx(vectors(a, b, "cka"), abs=1e-9)
    assert vectors(b, moved, "cka") == pytest.approx(1)


@given(seed=SEEDS)
def test_rsa_is_invariant_to_scale_and_shift_of_sentences_and_rotation_about_equal_entries(seed):
    a, b, rng = drawn(seed)
    equal = np.ones((6, 1)) / np.sqrt(6)
    basis = np.linalg.qr(np.hstack([equal, rotation(rng)[:, :5]]))[0]
    turn = np.eye(6)
    turn[1:, 1:] = rotation(rng, 5)
    scaled = rng.uniform(0.5, 2, (N, 1)) * b + rng.normal(size=(N, 1))
    for moved in (scaled, b[:, rng.permutation(6)], b @ basis @ turn @ basis.T):
        assert vectors(a, moved, "rsa") == pytest.approx(vectors(a, b, "rsa"), abs=1e-6)


@given(seed=SEEDS, scale=SCALES)
def test_dse_is_invariant_to_scale_and_to_rotating_both(seed, scale):
    a, b, rng = drawn(seed)
    turn = rotation(rng)
    assert vectors(scale * a @ turn, b @ turn, "dse") == pytest.approx(vectors(a, b, "dse"))


# --- the registry


def test_every_trait_has_a_function_that_reads_its_table():
    read = [name for name, trait in similarity_measures.TRAITS.items() if trait.path]
    assert len(read) > 5 and all(callable(getattr(traits, name, None)) for name in read)


def test_the_page_has_every_measure_those_that_are_directed_and_those_that_train_nothing():
    page = (ROOT / "docs/methods/similarity.md").read_text(encoding="utf-8")
    every = similarity_measures.MEASURES
    rows = [name for cell in re.findall(r"^\| (`.+?) \|", page, re.M) for name in re.findall("`(.+?)`", cell)]
    assert sorted(rows) == sorted(every)
    sentences = re.findall("(.+) are directed", page) + re.findall("All but (.+) also train", page)
    assert [re.findall("`(.+?)`", sentence) for sentence in sentences] == [
        [name for name, measure in every.items() if measure.directed],
        similarity_measures.seedless(every),
    ]


def test_entries_say_which_measures_have_no_seed():
    entries = similarity_measures.entries(similarity_measures.MEASURES, "single")
    without = [name for name, entry in entries.items() if not entry["single"]]
    assert without == similarity_measures.seedless(similarity_measures.MEASURES) == ["paradigm", "text"]


# --- the table


def test_traits_come_from_the_tables():
    heads = {task: np.random.default_rng(i).gamma(2, size=(2, 5)) for i, task in enumerate("ab")}
    layer, head = (index.ravel() for index in np.indices((2, 5)))
    importances = {
        task: pd.DataFrame({"task": task, "fold": 0, "layer": layer, "head": head, "n": 10})
        .assign(importance=values.ravel(), fisher=values.ravel() ** 2)
        for task, values in heads.items()
    }  # fmt: skip
    representations = pd.DataFrame(
        {"task": ["a", "a", "b", "b"], "example": [0, 1, 0, 1], "vector": [[1.0, 2], [3, 4], [5, 6], [7, 8]]}
    )
    text = pd.DataFrame({"task": ["a", "b"], "example": None, "vector": [[1.0, 0], [0, 1]]})
    tables = {"importance": pd.concat(importances.values()), "text": text, "sentences": representations}
    read = {
        name: {None: getattr(traits, name)(tables[Path(trait.path).stem], 0.3)}
        for name, trait in similarity_measures.TRAITS.items()
        if trait.path and Path(trait.path).stem in tables
    }
    ((subject, by_task),) = by_subject({"a": "single", "b": "pair"}, read).items()
    assert subject is None
    assert [by_task[task]["paradigm"] for task in "ab"] == ["single", "pair"]
    assert by_task["b"]["vectors"].tolist() == [[5, 6], [7, 8]]
    assert by_task["a"]["text"].tolist() == [1, 0]
    for task, values in heads.items():
        assert np.allclose(by_task[task]["head_fisher"], values.ravel() ** 2)
        assert np.allclose(by_task[task]["importance"], values.ravel())
        assert (by_task[task]["top"] == (values.ravel() >= np.sort(values.ravel())[-3])).all()


def compared_by_subject(r: dict[str, tuple[list, list]]) -> list[pd.DataFrame]:
    """Similarity by `cnm`, from the predictability of each subject's voxels for the tasks a and b."""
    rows = [
        pd.DataFrame({"task": task, "subject": subject, "voxel": range(len(values)), "r": values})
        for subject, both in r.items()
        for task, values in zip("ab", both, strict=True)
    ]
    cnm = {"cnm": Measure("encoding", MEASURES["cnm"])}
    whole, *subjects = by_subject({}, {"encoding": traits.encoding(pd.concat(rows), 0.3)}).items()
    assert whole == (None, {})
    return [pairwise(*each, ["a", "b"], cnm) for each in subjects]


def test_seeds_and_subjects_are_averaged():
    cnm = compared_by_subject({
        "s1": ([1.0, 0, 0], [1.0, 0, 0]), "s2": ([1.0, 0, 0], [0, 1.0, 0]), "s3": ([1.0, 1, 0], [1.0, 0, 0]),
    })  # fmt: skip
    first, second = np.eye(2)
    text = [{"a": {"text": first}, "b": {"text": b}} for b in (first, second)]
    measure = {"text": Measure("text", MEASURES["text"])}
    seeds = [pd.concat([pairwise(None, each, ["a", "b"], measure), *cnm]) for each in text]
    frame = combined("m", seeds, 0.95, SEEDLESS)
    assert list(frame) == list(SCHEMAS["similarity"].columns)
    text = frame[frame["measure"] == "text"].iloc[0]
    assert text["similarity"] == 0.5 and np.isnan(text["ci_low"])
    assert np.isnan(text["between_seeds"])  # the same for every seed
    assert frame.loc[frame["measure"] == "cnm", "between_seeds"].dropna().eq(0).all()
    subjects = frame[frame["subject"].notna()].set_index("subject")["similarity"]
    assert subjects.to_dict() == pytest.approx({"s1": 1, "s2": 0, "s3": np.sqrt(0.5)})
    mean = frame[(frame["measure"] == "cnm") & frame["subject"].isna()].iloc[0]
    interval = stats.t.interval(0.95, 2, subjects.mean(), stats.sem(subjects))
    assert (mean["similarity"], mean["ci_low"], mean["ci_high"]) == pytest.approx(
        (subjects.mean(), *interval)
    )


def test_one_subject_has_no_interval():
    seeds = compared_by_subject({"s1": ([0.5], [0.2])})
    mean = combined("m", seeds, 0.95, SEEDLESS).query("subject.isna()").iloc[0]
    assert mean["similarity"] == pytest.approx(1) and np.isnan(mean["ci_low"])
