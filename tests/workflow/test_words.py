"""Snakemake on a tiny study of tasks on words, beside one on texts: the whole path."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headspec import per_example
from headspec.errors import HeadspecError
from headspec.pipeline.export import of_run
from headspec.tasks.metrics import chance, score
from support.data import treebanks
from support.running.edits import constant
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

BANK = "texts/bank"
MEASURES = ["text", "cka", "fisher", "importance", "dse", "head-fisher"]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "tasks": {
        "tone": CONFIG["tasks"]["tone"],
        "pos": {"source": f"{BANK}/trees", "type": "tags"},
        "arcs": {"source": f"{BANK}/trees", "type": "dependencies"},
        "places": {"source": f"{BANK}/annotated", "type": "spans"},
        "brackets": {"source": f"{BANK}/annotated", "type": "constituents"},
        "roles": {"source": f"{BANK}/annotated", "type": "roles"},
    },
    "mixtures": {
        "pairs": ["tone", "pos", "arcs"],
        "single": ["tone", "pos"],
        "groups": {"words": ["pos", "arcs", "places", "brackets", "roles"]},
    },
    "methods": ["tuned", "iat", "atlas", "gates", "probes"],
    "training": CONFIG["training"] | {"epochs": 3},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 20},
    "similarity": {"measures": MEASURES, "max_sentences": 60},
    "iat": {"mixtures": ["tone+pos"], "controls": ["random", "even"]},
    "atlas": {"methods": ["tuned"], "mixtures": ["tone+pos"], "examples": 40, "fractions": [0.5], "draws": 2,
              "rankings": ["importance", "relevance", "ablation"], "sentences": 50,
              "treebank": {"source": f"{BANK}/trees"}},
    "gates": {"mixtures": ["tone+pos"], "scope": ["per_task"], "kept": [0.5], "epochs": 1,
              "pruning_methods": ["subset"]},
    "probes": {"mixtures": ["pos", "tone+pos", "words"], "methods": ["tuned", "single", "iat", "even"]},
    "figures": {"dpi": 60, "formats": ["png"]},
}  # fmt: skip
#: what `all` makes but for repeated figures, and the other targets
TABLES = "dissociation", "contrasts", "correlation", "reliability"
FIGURES = [
    *("dissociation", "fractions.bert", "reliability", "similarity.bert", "scatter.dse"),
    *(
        f"{kind}.bert.{mixture}.tuned"
        for kind in ("importance", "matrix", "curves")
        for mixture in ("tone+pos", "words")
    ),
]
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in TABLES),
    *(f"results/tiny/figures/{name}.png" for name in FIGURES),
    *("iat", "atlas", "gates", "probes"),
]


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        treebanks.write(path / BANK)
        folder.write(STUDY)
        folder.snakemake(*TARGETS)

    return Folder(shared("words", fill))


@pytest.fixture
def copy(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "copy")


def test_tags_are_learnt_and_counted_by_word(finished):
    table = pd.read_parquet(finished.results / "runs/bert/pos/single/seed0/evaluation.parquet")
    label, prediction = per_example.labels_and_predictions(table)
    words, right = label[:, 0], prediction[:, 0]
    stored = pd.read_parquet(finished.results / "data/pos/validation.parquet")
    lengths = stored.set_index("example")["text_a"].str.split().str.len()
    assert words.tolist() == lengths[table["example"]].tolist()
    assert (right <= words).all()
    reached = score("word_accuracy", label, prediction)
    assert reached > chance("word_accuracy", label) + 0.2
    assert reached == right.sum() / words.sum()


def test_every_type_is_learnt_beside_the_others(finished):
    table = pd.read_parquet(finished.results / "runs/bert/words/tuned/seed0/predictions.parquet")
    table = table[table["pruned_for"] == "none"]
    metrics = {"pos": "word_accuracy", "arcs": "las", "places": "span_f1", "brackets": "bracket_f1"}
    for task, metric in {**metrics, "roles": "role_f1"}.items():
        rows = table[table["task"] == task]
        label, prediction = per_example.labels_and_predictions(rows)
        reached = score(metric, label, prediction)
        assert reached > (0.2 if task == "brackets" else chance(metric, label)), (task, reached)


def test_heads_of_words_and_texts_dissociate_in_one_table(finished):
    table = pd.read_parquet(finished.results / "tables/dissociation.parquet")
    of_pair = table[(table["mixture"] == "tone+pos") & (table["method"] == "tuned")]
    assert {*of_pair["task"]} == {"tone", "pos"} and {*of_pair["metric"]} == {"accuracy", "word_accuracy"}
    assert np.isfinite(of_pair[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
    similarity = pd.read_parquet(finished.results / "tables/similarity.parquet")
    assert {*MEASURES} == {*similarity["measure"]}
    heads = pd.read_parquet(finished.results / "tables/heads.parquet")
    assert {"ablation", "relevance", "confidence"} <= {*heads[heads["task"] == "pos"]["measure"]}


def test_heads_know_tags_that_words_decide(finished):
    table = pd.read_parquet(finished.results / "tables/probes.parquet").query(
        "task == 'pos' and label.isna()"
    )
    assert {*table["method"]} == {"pretrained", "random", "single", "tuned", "iat", "even"}
    assert {*table["mixture"]} == {"none", "pos", "tone+pos", "words"}
    best = table[table["heads"] == "best"]
    before, after = (
        best.loc[best["method"] == method, "accuracy"].item() for method in ("pretrained", "single")
    )
    assert 0 < before < after <= best["accuracy_high"].max() <= 1
    assert best.loc[best["method"] == "random", "accuracy"].item() < before
    words = pd.read_parquet(finished.results / "data/pos/validation.parquet")["text_a"].str.split().str.len()
    assert (best["n"] == words.sum()).all()
    changes = pd.read_parquet(finished.results / "tables/probe_changes.parquet").query("task == 'pos'")
    befores = changes.groupby(["mixture", "method"])["before"].agg(set).to_dict()
    both = {"pretrained", "single"}
    assert befores == {
        ("pos", "single"): {"pretrained"}, ("tone+pos", "tuned"): both, ("words", "tuned"): both,
        ("tone+pos", "iat"): both | {"tuned"}, ("tone+pos", "even"): both | {"tuned"},
    }  # fmt: skip
    assert len(list((finished.results / "figures/probes").glob("*.png"))) == 3 * 5 + 1


def test_tasks_together_are_compared_with_tasks_alone(finished):
    table = pd.read_parquet(finished.results / "tables/sharing.parquet")
    run = table[(table["mixture"] == "words") & (table["task"] == "pos")].iloc[0]
    alone = table[(table["mixture"] == "pos") & (table["task"] == "pos")].iloc[0]
    assert run["difference"] == pytest.approx(run["value"] - alone["value"])
    assert {*table["method"]} == {"single", "tuned", "iat", "even"}


def test_runs_of_words_are_not_exported(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    run = "results/tiny/runs/bert/tone+pos/tuned/seed0"
    with pytest.raises(
        HeadspecError, match=f"^{re.escape(run)}: pos: tasks on words; expected a run of tasks"
    ):
        of_run(Path(run), n=3, task="tone")
    assert not Path("results/tiny/export").exists()


def test_an_edited_type_reruns_the_jobs_that_have_it(copy):
    assert not copy.plan(*TARGETS).rules
    constant("headspec/tasks/tags/head.py")(copy)
    plan = copy.plan(*TARGETS)
    trained = [message for message in plan.messages if message.startswith("Training")]
    assert trained and not [message for message in trained if "on tone, single" in message]
    assert not {"data", "validation", "tokenize"} & set(plan.rules)


@pytest.mark.parametrize(("type_of_task", "read"), [("tags", "pos"), ("classification", "tone")])
def test_how_a_type_is_read_concerns_its_tasks_alone(copy, type_of_task, read):
    constant(f"headspec/tasks/{type_of_task}/data.py")(copy)
    messages = [each for each in copy.plan(*TARGETS).messages if each.startswith("Reading")]
    assert {*messages} == {f"Reading {split} texts of task {read}" for split in ("training", "validation")}


def test_a_new_type_is_a_folder_and_a_line_and_reruns_nothing(copy):
    tasks = "workflow/headspec/tasks"
    shutil.copytree(copy.path / tasks / "regression", copy.path / tasks / "degree")
    copy.replace(f"{tasks}/kinds.py", '"regression",', '"regression", "degree",')
    assert not copy.plan(*TARGETS).rules
    copy.set("tasks.tone.type", "degree")
    assert "tasks.tone.label: row 1 of" in (output := copy.snakemake(*TARGETS, fails=True))
    assert "needs finite numbers" in output


def test_a_rate_of_decoders_reruns_the_trainings_that_have_one(copy):
    copy.set("training.decoder_learning_rate", 0.01)
    trained = [each for each in copy.plan(*TARGETS).messages if each.startswith("Training ")]
    mixtures = {
        "pos, single",
        "tone+pos, tuned",
        "tone+pos, iat",
        "tone+pos, iat-random",
        "tone+pos, even",
        "words, tuned",
    }
    mixtures |= {"tone+arcs, tuned", "pos+arcs, tuned", "arcs, single"}
    assert {*trained} == {f"Training bert on {mixture}, seed 0" for mixture in mixtures}


def test_sentences_that_are_no_annotation_are_refused_before_any_job(copy):
    path = copy.path / BANK / "trees" / "train.conllu"
    lines = path.read_text().split("\n")
    fields = lines[1].split("\t")
    lines[1] = "\t".join([*fields[:3], "_", *fields[4:]])
    path.write_text("\n".join(lines))
    output = copy.snakemake("--dry-run", fails=True)
    assert "tasks.pos.label: 1 of 150 sentences of train.conllu have no tags in upos" in output
    assert "the sentence at line 2: word 1 has no tag" in output
