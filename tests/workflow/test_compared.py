"""A tiny study that compares its tasks: similarity, affinity, sentences, responses of brains."""

import itertools

import numpy as np
import pytest

from headspec import tables
from support.running.every_stage import AFFINITIES, SIMILARITIES, STUDY, TASKS

pytestmark = pytest.mark.slow


@pytest.fixture
def results(every_stage_finished):
    return every_stage_finished.results


def test_every_pair_has_every_measure(results):
    frame = tables.read(results / "tables" / "similarity.parquet")
    means = frame[frame["subject"].isna()].set_index(["measure", "task_a", "task_b"])["similarity"]
    pairs = itertools.combinations(TASKS, 2)
    assert {*means.index} == {(measure, *pair) for measure, pair in itertools.product(SIMILARITIES, pairs)}
    assert means.index.is_unique and means.between(-1 - 1e-9, 1 + 1e-9).all()
    subjects = frame[frame["subject"].notna()]
    assert subjects["measure"].eq("cnm").all() and set(subjects["subject"]) == {"s0", "s1"}
    assert means["paradigm"].eq(1).all()


def test_similarity_by_affinity_is_the_mean_of_both_directions(results):
    affinity = tables.read(results / "tables" / "affinity.parquet")
    by_pair = affinity.set_index(["measure", "source", "target"])["affinity"]
    assert {*by_pair.index} == {
        (measure, *pair) for measure in AFFINITIES for pair in itertools.permutations(TASKS, 2)
    }
    assert by_pair.lt(1).all()
    # a step on the pretrained encoder may change a loss of these random models by less than float32 rounds
    assert affinity["affinity"].ne(0).groupby(affinity["measure"]).any().all()
    frame = tables.read(results / "tables" / "similarity.parquet")
    for row in frame[frame["measure"].isin(AFFINITIES)].itertuples():
        both = [by_pair[row.measure, row.task_a, row.task_b], by_pair[row.measure, row.task_b, row.task_a]]
        assert row.similarity == pytest.approx(np.mean(both))


def test_the_correlation_is_of_pairs_of_which_models_have_learnt_both_tasks(results):
    combined = tables.read(results / "tables" / "combined.parquet")
    correlation = tables.read(results / "tables" / "correlation.parquet").set_index("measure")
    means = combined.query("task == 'mean' and method == 'tuned'")
    learnt = means.loc[~means["unpruned_at_chance"], "mixture"].nunique()
    assert learnt < 3 and correlation["n_pairs"].eq(learnt).all()
    assert set(correlation.index) == {*SIMILARITIES} and correlation["pearson_r"].isna().all()


def test_every_task_has_the_same_number_of_sentences(results):
    most = STUDY["similarity"]["max_sentences"]
    sentences = tables.read(results / "similarity" / "sentences.parquet")
    assert sentences["task"].value_counts().to_dict() == dict.fromkeys(TASKS, most // 3)
    vectors = tables.read(results / "similarity" / "bert" / "seed0" / "sentences.parquet")
    assert vectors.groupby("task").size().to_dict() == dict.fromkeys(TASKS, most)


def test_tables_of_the_brain(results):
    stimuli = tables.read(results / "brain" / "stimuli.parquet")
    nuisance = tables.read(results / "brain" / "nuisance.parquet")
    assert len(stimuli) == len(nuisance) == 40 and nuisance["nuisance"].str.len().eq(1).all()
    voxels = tables.read(results / "brain" / "voxels.parquet")
    assert len(voxels) == 2 * 6 * 5 and voxels["selected"].all()
    summary = tables.read(results / "similarity" / "bert" / "seed0" / "brain_encoding_summary.parquet")
    subjects = ["s0", "s1"]
    assert {*zip(summary["task"], summary["subject"], strict=True)} == {*itertools.product(TASKS, subjects)}
    assert summary["n_voxels"].eq(6).all() and summary["p_value"].between(1 / 40, 1).all()
    log = (results / "logs" / "brain" / "voxels.log").read_text()
    assert "s0: 6 voxels; left out: {'not finite': 0, 'constant': 0}" in log
