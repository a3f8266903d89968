"""Snakemake on a tiny study that compares its tasks: results, effects of changes, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from support.running.edits import constant, setting
from support.running.studies import CONFIG, TOPIC, Folder

pytestmark = pytest.mark.slow

TASKS = ["tone", "topic", "match"]
PAIRS = ["+".join(pair) for pair in itertools.combinations(TASKS, 2)]
AFFINITIES = ["lookahead", "lookahead-single", "grad-tag"]
MEASURES = ["paradigm", "text", "cka", "fisher", "gradient", *AFFINITIES, "top-heads", "cnm"]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "mixtures": {"pairs": TASKS},
    "methods": ["tuned"],
    "training": CONFIG["training"] | {"epochs": 8},
    "similarity": {"measures": MEASURES, "samples": 30, "max_sentences": 60},
    "brain": {
        "stimuli": "brain/stimuli.csv",
        "responses": "brain/responses.parquet",
        "nuisance": ["frequency"],
    },
    "figures": {"dpi": 60, "formats": ["png"]},
}
#: the figures of the study that these tests draw
FIGURES = ["correlation", "scatter.cka", "similarity.bert", "brain_encoding.bert"]
TARGETS = [
    "results/tiny/tables/correlation.parquet",
    "results/tiny/tables/affinity.parquet",
    *(f"results/tiny/figures/{name}.png" for name in FIGURES),
]


def brain(folder: Path) -> None:
    """Responses of two subjects to 40 sentences: the topic, and noise."""
    rng = np.random.default_rng(0)
    topics = [list(TOPIC)[i % 3] for i in range(40)]
    texts = [
        f"the {TOPIC[topic][rng.integers(3)]} {rng.choice(['was', 'near', 'our'])} house" for topic in topics
    ]
    folder.mkdir()
    pd.DataFrame({"stimulus_id": range(40), "text": texts}).to_csv(folder / "stimuli.csv", index=False)
    codes = pd.get_dummies(pd.Series(topics)).to_numpy(dtype=float)
    rows = [
        (subject, i, voxels)
        for subject in ("s1", "s2")
        for i, voxels in enumerate((codes @ rng.normal(size=(3, 25)) + rng.normal(size=(40, 25))).tolist())
    ]
    frame = pd.DataFrame(rows, columns=["subject", "stimulus_id", "voxels"])
    frame.to_parquet(folder / "responses.parquet")


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path: Path) -> None:
        folder = Folder.new(path)
        brain(folder.path / "brain")
        folder.write(STUDY)
        folder.snakemake(*TARGETS)

    return Folder(shared("compared", run))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "study")


def test_every_pair_has_every_measure(finished):
    frame = tables.read(finished.results / "tables" / "similarity.parquet")
    means = frame[frame["subject"].isna()]
    assert set(zip(means["measure"], means["task_a"] + "+" + means["task_b"], strict=True)) == set(
        itertools.product(MEASURES, PAIRS)
    )
    assert len(means) == len(MEASURES) * len(PAIRS)
    assert means["similarity"].between(-1 - 1e-9, 1 + 1e-9).all()
    subjects = frame[frame["subject"].notna()]
    assert subjects["measure"].eq("cnm").all() and set(subjects["subject"]) == {"s1", "s2"}
    same = means[means["measure"] == "paradigm"].set_index(["task_a", "task_b"])["similarity"]
    assert same.to_dict() == {("tone", "topic"): 1, ("tone", "match"): 0, ("topic", "match"): 0}


def test_similarity_by_affinity_is_the_mean_of_both_directions(finished):
    affinity = tables.read(finished.results / "tables" / "affinity.parquet")
    assert set(zip(affinity["measure"], affinity["source"], affinity["target"], strict=True)) == {
        (measure, *pair) for measure in AFFINITIES for pair in itertools.permutations(TASKS, 2)
    }
    assert affinity["affinity"].lt(1).all()
    # a step on the pretrained encoder may change a loss of these random models by less than float32 rounds
    assert affinity["affinity"].ne(0).groupby(affinity["measure"]).any().all()
    by_pair = affinity.set_index(["measure", "source", "target"])["affinity"]
    frame = tables.read(finished.results / "tables" / "similarity.parquet")
    for row in frame[frame["measure"].isin(AFFINITIES)].itertuples():
        both = [by_pair[row.measure, row.task_a, row.task_b], by_pair[row.measure, row.task_b, row.task_a]]
        assert row.similarity == pytest.approx(np.mean(both))


def test_the_correlation_is_of_pairs_of_which_models_have_learnt_both_tasks(finished):
    """Of pairs with `match`, which so few examples do not teach, there is none."""
    combined = tables.read(finished.results / "tables" / "combined.parquet")
    correlation = tables.read(finished.results / "tables" / "correlation.parquet").set_index("measure")
    nothing = combined[combined["unpruned_at_chance"]]
    assert set(nothing["task"]) == {"match", "mean"} and set(nothing["mixture"]) == {*PAIRS} - {"tone+topic"}
    assert set(correlation.index) == set(MEASURES) and correlation["n_pairs"].eq(1).all()
    assert correlation["pearson_r"].isna().all()


def test_every_task_has_the_same_number_of_sentences(finished):
    sentences = tables.read(finished.results / "similarity" / "sentences.parquet")
    assert sentences["task"].value_counts().to_dict() == dict.fromkeys(TASKS, 20)
    vectors = tables.read(finished.results / "similarity" / "bert" / "seed0" / "sentences.parquet")
    assert vectors.groupby("task").size().to_dict() == dict.fromkeys(TASKS, 60)


def test_tables_of_the_brain(finished):
    stimuli = tables.read(finished.results / "brain" / "stimuli.parquet")
    nuisance = tables.read(finished.results / "brain" / "nuisance.parquet")
    assert len(stimuli) == len(nuisance) == 40 and nuisance["nuisance"].str.len().eq(1).all()
    voxels = tables.read(finished.results / "brain" / "voxels.parquet")
    assert len(voxels) == 2 * 25 * 5 and voxels["selected"].all()
    summary = tables.read(
        finished.results / "similarity" / "bert" / "seed0" / "brain_encoding_summary.parquet"
    )
    assert set(zip(summary["task"], summary["subject"], strict=True)) == set(
        itertools.product(TASKS, ["s1", "s2"])
    )
    assert summary["n_voxels"].eq(25).all() and summary["p_value"].between(1 / 40, 1).all()
    log = (finished.results / "logs" / "brain" / "voxels.log").read_text()
    assert "s1: 25 voxels; left out: {'not finite': 0, 'constant': 0}" in log


def test_the_rest_of_the_study_is_planned(finished):
    rules = finished.plan().rules
    assert rules == {
        "figure_scatter": len(MEASURES) - 1, "figure_dissociation": 1, "figure_fractions": 1,
        "figure_reliability": 1, "reliability": 1, "figure_importance": 3, "figure_matrix": 3,
        "figure_curves": 3, "contrasts": 1,
    }  # fmt: skip


# --- effects of changes

TABLES = {"similarity": 1, "correlation": 1}
DRAWN = {"figure_correlation": 1, "figure_scatter": 1, "figure_similarity": 1}
FROM_SIMILARITY = TABLES | DRAWN
FROM_ENCODING = {"brain_encoding": 1, "figure_brain_encoding": 1} | FROM_SIMILARITY


def responses(study: Folder) -> None:
    path = study.path / "brain" / "responses.parquet"
    frame = pd.read_parquet(path)
    frame.assign(voxels=[2 * voxels for voxels in frame["voxels"]]).to_parquet(path)


REGISTRY = "workflow/headspec/config/measures/similarity.py"
CHANGES: list[tuple[str, Callable[[Folder], None], dict[str, int]]] = [
    ("a measure removed", setting("similarity.measures", [m for m in MEASURES if m != "fisher"]),
     FROM_SIMILARITY),
    ("another free measure", setting("similarity.measures", [*MEASURES, "importance"]), FROM_SIMILARITY),
    ("number of sentences", setting("similarity.max_sentences", 45),
     {"sentences": 1, "tokenize_texts": 1, "representations": 1} | FROM_SIMILARITY),
    ("samples", setting("similarity.samples", 25), {"text_embedding": 1, "sensitivity": 5} | FROM_SIMILARITY),
    ("nuisance regressors", setting("brain.nuisance", []),
     {"voxels": 1} | FROM_ENCODING),
    ("responses", responses, {"voxels": 1} | FROM_ENCODING),
    ("a measure's module", constant("headspec/similarity/measures.py"), FROM_SIMILARITY),
    ("a measure of sensitivity", constant("headspec/similarity/sensitivity.py"),
     {"sensitivity": 5} | FROM_SIMILARITY),
    ("a measure of affinity", constant("headspec/similarity/grad_tag.py"),
     {"sensitivity": 1} | FROM_SIMILARITY),
    ("the permutation test", constant("headspec/statistics/similarity/mantel.py"),
     {"correlation": 1, "figure_correlation": 1, "figure_scatter": 1}),
    ("a figure", constant("headspec/plots/scatter.py"), {"figure_scatter": 1}),
    ("a label", lambda study: study.replace(REGISTRY, '"CKA"', '"linear CKA"'), DRAWN),
    ("a label that is not shown", lambda study: study.replace(REGISTRY, '"RSA"', '"CRA"'), {}),
    ("an entry that is not used",
     lambda study: study.replace(REGISTRY, '"cka": ', '"new": SimilarityMeasure("new"), "cka": '),
     {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_a_change_reruns_what_depends_on_it(study, change, expected):
    change(study)
    assert study.plan(*TARGETS).rules == expected


# --- errors


def test_missing_files_are_refused_before_any_job(study):
    study.set("similarity.sentences", "brain/stimuli.txt")
    study.set("brain.responses", "brain/response.parquet")
    output = study.snakemake("--dry-run", fails=True)
    assert "similarity.sentences: no file or folder 'stimuli.txt'" in output
    assert "brain.responses: no file or folder 'response.parquet'" in output
    assert output.count("Did you mean") == 2
