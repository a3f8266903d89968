"""Snakemake on tiny prompted tasks: the whole path without training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.errors import HeadspecError
from headspec.pipeline.commands.export import export_run
from headspec.tasks.kinds import KINDS
from headspec.tasks.metrics import score
from support import language
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        known = language.answers(language.make("llama", path / "models" / "tiny-llama")).values()
        answers = dict(zip(["good", "bad"], known, strict=True))
        prompt = {"prompt": language.PROMPT, "answers": answers}
        tone = CONFIG["tasks"]["tone"] | prompt | {"shots": 2, "calibration": True}
        other = CONFIG["tasks"]["tone"] | prompt | {"prompt": "{text_a} was:"}
        rows = pd.read_parquet(path / "texts" / "tone" / "train.parquet")
        worse = (
            rows["sentence"].str.replace("the", "the the").where(rows.index % 2 == 0, rows["sentence"] + " a")
        )
        scored = rows.assign(sentence_good=rows["sentence"], sentence_bad=worse, kind=rows["label"])
        scored = scored.assign(right=" the house", wrong=[f" the {word}" for word in rows["label"]])
        scored[scored["sentence_good"] != scored["sentence_bad"]].to_parquet(path / "scored.parquet")
        texts = {"source": "scored.parquet", "type": "minimal_pairs", "filter": {"kind": "good"}}
        own = {"source": "scored.parquet", "type": "answer_pairs", "text_a": "sentence", "shots": 1}
        whole = tone | {"answers": {"good": " really lovely", "bad": " really awful"}, "shots": 1}
        (path / "heads.csv").write_text("layer,head\n1,0\n1,2\n")
        folder.write(
            CONFIG
            | {
                "models": {
                    "llama": {"source": "models/tiny-llama", "max_length": 60, "heads": {"mine": "heads.csv"}}
                },
                "tasks": {
                    "tone": tone,
                    "other": other,
                    "whole": whole,
                    "texts": texts,
                    "own": own | {"prompt": "saw {text_a}:"},
                },
                "mixtures": {"pairs": ["tone", "other"], "groups": {"scored": ["whole", "texts", "own"]}},
                "methods": ["prompted"],
                "importance": {"samples": 40},
                "pruning": {"fraction": 0.3, "fractions": [], "heads": [1, 2], "draws": 4},
                "figures": {"dpi": 60, "formats": ["png"]},
            }
        )
        folder.snakemake()

    return Folder(shared("prompted", fill))


def test_the_whole_path_runs_without_training(finished):
    dissociation = tables.read(finished.results / "tables" / "dissociation.parquet")
    assert set(dissociation["method"]) == {"prompted"}
    assert np.isfinite(dissociation["dissociation"]).all() and dissociation["fraction"].nunique() == 3
    run = finished.results / "runs" / "llama" / "tone+other" / "prompted" / "seed0"
    predicted = tables.read(run / "predictions.parquet")
    pruning = tables.read(run / "pruning.parquet")
    none = pruning[pruning["pruned_for"] == "none"].set_index("task")["value"]
    for task, rows in predicted[predicted["pruned_for"] == "none"].groupby("task"):
        assert none[task] == pytest.approx(score("accuracy", rows["label"], rows["prediction"]))
    assert not list(finished.results.rglob("training.parquet"))


def test_whole_answers_and_pairs_are_pruned_for_one_another(finished):
    dissociation = tables.read(finished.results / "tables" / "dissociation.parquet")
    of_scored = dissociation[dissociation["mixture"] == "scored"]
    assert set(of_scored["task"]) >= {"whole", "texts", "own"} and len(of_scored) > 6
    run = finished.results / "runs" / "llama" / "scored" / "prompted" / "seed0"
    pruning, predicted = (tables.read(run / f"{name}.parquet") for name in ("pruning", "predictions"))
    none = pruning[pruning["pruned_for"] == "none"].set_index(["task", "metric"])["value"]
    for task, rows in predicted[predicted["pruned_for"] == "none"].groupby("task"):
        for metric in none[task].index:
            expected = score(metric, rows["label"], rows["prediction"])
            assert none[task, metric] == pytest.approx(expected, abs=1e-5)
    assert set(none.index) == {
        ("whole", "accuracy"),
        *((task, metric) for task in ("texts", "own") for metric in KINDS["answer_pairs"].metrics),
    }
    importance = tables.read(run / "importance.parquet")
    assert (importance.groupby("task")["importance"].max() > 0).all()


def test_listed_heads_are_judged_and_rerun_nothing_else(finished, tmp_path):
    verdicts = tables.read(finished.results / "tables" / "head_lists.parquet")
    verdicts = verdicts[verdicts["mixture"] == "tone+other"]
    assert verdicts["task"].tolist() == ["other", "tone"] and set(verdicts["heads"]) == {"mine"}
    assert (verdicts["n_pruned"] == 2).all()
    assert set(verdicts["verdict"]) <= {"specific", "important", "neither"}
    study = finished.copy(tmp_path / "study")
    (study.path / "heads.csv").write_text("layer,head\n1,0\n0,2\n")
    assert {*study.plan().rules} == {"listed", "head_lists"}
    study.set("models.llama.heads.mine", "heads.tsv")
    assert "models.llama.heads.mine: no file or folder 'heads.tsv'" in study.snakemake(fails=True)


def test_similarity_is_of_the_prompted_model_where_nothing_is_trained(finished, tmp_path):
    study = finished.copy(tmp_path / "study")
    study.set("mixtures", {"pairs": ["tone", "whole", "own"]})
    measures = ["paradigm", "text", "importance", "top-heads", "head-fisher"]
    study.set("similarity", {"measures": measures, "samples": 30})
    assert "train" not in study.plan().rules
    study.snakemake("results/tiny/tables/correlation.parquet")
    correlation = tables.read(study.results / "tables" / "correlation.parquet")
    assert set(correlation["measure"]) == {*measures}
    assert not list(study.results.rglob("training.parquet"))
    alone = study.results / "runs" / "llama" / "whole" / "prompted"
    assert len(list(alone.glob("seed*/importance.parquet"))) == 2

    study.set("similarity.measures", ["importance", "rsa"])
    refused = study.snakemake(fails=True)
    assert "similarity.measures.1: got 'rsa', which compares models that are trained" in refused
    study.set("methods", ["prompted", "lora"])
    assert "of type answer_pairs; expected a task to train on alone" in study.snakemake(fails=True)


def test_models_that_answer_prompts_are_not_exported(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    run = next(Path("results").glob("*/runs/llama/tone+other/prompted/seed0"))
    with pytest.raises(
        HeadspecError, match="its model answers prompts; export takes models with classifiers"
    ):
        export_run(run, 3, "tone")


def test_demonstrations_are_training_examples_drawn_by_seed(finished):
    folder = finished.results / "prompts" / "llama"
    shown = []
    for seed in (0, 1):
        path = folder / "tone" / f"seed{seed}" / "train.parquet"
        shown.append(tables.footer(path)["demonstrations"])
        assert not {*shown[-1]} & {*tables.read(path)["example"]}
    assert len({*shown[0]}) == 2 and shown[0] != shown[1]


def test_a_new_answer_reruns_the_prompts_of_its_task(finished, tmp_path):
    study = finished.copy(tmp_path / "study")
    assert not study.plan().rules
    study.set("tasks.other.shots", 1)
    plan = study.plan()
    assert plan.rules["prompts"] == 2 and "data" not in plan.rules and "validation" not in plan.rules
