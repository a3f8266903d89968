"""Snakemake on tiny prompted tasks: the whole path without training."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.errors import HeadspecError
from headspec.pipeline import preflight
from headspec.pipeline.commands.export import export_run
from headspec.tasks.metrics import score
from headspec.tasks.registry import KINDS
from support import language
from support.running.studies import CONFIG, SMALL, Folder, changed

pytestmark = pytest.mark.slow


MEASURES = ["paradigm", "text", "importance", "top-heads", "head-fisher"]
PAIRS = ["tone+whole", "tone+own", "whole+own"]
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("correlation", "head_lists")),
    "results/tiny/figures/curves.llama.scored.prompted.png",
]


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        known = language.answers(language.make("llama", path / "models" / "tiny-llama")).values()
        rows = pd.read_parquet(path / "texts" / "tone" / "train.parquet")
        good = rows["sentence"]
        bad = good.str.replace("the", "the the").where(rows.index % 2 == 0, good + " a")
        wrong = [f" the {word}" for word in rows["label"]]
        scored = rows.assign(sentence_good=good, sentence_bad=bad, kind=rows["label"], right=" the house",
                             wrong=wrong)  # fmt: skip
        scored[good != bad].to_parquet(path / "scored.parquet")
        (path / "heads.csv").write_text("layer,head\n1,0\n1,2\n")
        tone = CONFIG["tasks"]["tone"] | {
            "prompt": language.PROMPT, "answers": dict(zip(["good", "bad"], known, strict=True)), "shots": 2,
            "calibration": True,
        }  # fmt: skip
        folder.write(SMALL | {
            "models": {"llama": {"source": "models/tiny-llama", "max_length": 60,
                                 "heads": {"mine": "heads.csv"}}},
            "tasks": {
                "tone": tone,
                "whole": tone | {"answers": {"good": " really lovely", "bad": " really awful"}, "shots": 1},
                "texts": {"source": "scored.parquet", "type": "minimal_pairs", "filter": {"kind": "good"}},
                "own": {"source": "scored.parquet", "type": "answer_pairs", "text_a": "sentence", "shots": 1,
                        "prompt": "saw {text_a}:"},
            },
            "mixtures": {"pairs": ["tone", "whole", "own"], "groups": {"scored": ["whole", "texts"]}},
            "methods": ["prompted"],
            "importance": {"samples": 40},
            "pruning": {"fraction": 0.3, "fractions": [], "heads": [1, 2], "draws": 4},
            "similarity": {"measures": MEASURES, "samples": 30},
        })  # fmt: skip
        folder.snakemake(*TARGETS)

    return Folder(shared("prompted", fill))


def run_table(study: Folder, mixture: str, name: str) -> pd.DataFrame:
    return tables.read(study.results / "runs/llama" / mixture / "prompted/seed0" / f"{name}.parquet")


def test_the_whole_path_runs_without_training(finished):
    dissociation = tables.read(finished.results / "tables" / "dissociation.parquet")
    assert set(dissociation["method"]) == {"prompted"} and set(dissociation["mixture"]) == {*PAIRS, "scored"}
    assert np.isfinite(dissociation["dissociation"]).all() and dissociation["fraction"].nunique() == 3
    assert not list(finished.results.rglob("training.parquet"))
    correlation = tables.read(finished.results / "tables" / "correlation.parquet")
    assert set(correlation["measure"]) == {*MEASURES}
    importances = (finished.results / "runs" / "llama").glob("*/prompted/seed0/importance.parquet")
    assert {path.parts[-4] for path in importances} == {*PAIRS, "scored", "tone", "whole", "own"}
    path = finished.results / "prompts" / "llama" / "tone" / "seed0" / "train.parquet"
    demonstrations = {*tables.footer(path)["demonstrations"]}
    read = tables.read(finished.results / "data" / "tone" / "train.parquet")
    assert len(demonstrations) == 2 and demonstrations <= {*read["example"]}
    assert not demonstrations & {*tables.read(path)["example"]}


@pytest.mark.parametrize("mixture", [*PAIRS, "scored"])
def test_values_are_those_of_the_predictions(finished, mixture):
    pruning, predicted, importance = (
        run_table(finished, mixture, name) for name in ("pruning", "predictions", "importance")
    )
    none = pruning[pruning["pruned_for"] == "none"].set_index(["task", "metric"])["value"]
    for task, rows in predicted[predicted["pruned_for"] == "none"].groupby("task"):
        pairs = task in ("texts", "own")
        assert {*none[task].index} == {*(KINDS["answer_pairs"].metrics if pairs else ["accuracy"])}
        for metric, value in none[task].items():
            assert value == pytest.approx(score(metric, rows["label"], rows["prediction"]), abs=1e-5)
    assert (importance.groupby("task")["importance"].max() > 0).all()


def test_listed_heads_are_judged(finished):
    verdicts = tables.read(finished.results / "tables" / "head_lists.parquet")
    verdicts = verdicts[verdicts["mixture"] == "tone+whole"]
    assert sorted(verdicts["task"]) == ["tone", "whole"] and set(verdicts["heads"]) == {"mine"}
    assert (verdicts["n_pruned"] == 2).all()
    assert set(verdicts["verdict"]) <= {"specific", "important", "neither"}


def test_a_change_reruns_what_depends_on_it(finished, tmp_path):
    study = finished.copy(tmp_path / "study")
    (study.path / "heads.csv").write_text("layer,head\n1,0\n0,2\n")
    assert {*study.plan(*TARGETS).rules} == {"listed", "head_lists"}
    study.set("tasks.tone.shots", 1)
    rules = study.plan(*TARGETS).rules
    assert rules["prompts"] == 1 and "data" not in rules and "validation" not in rules


#: a setting, and why it is refused
REFUSED: dict[str, tuple[str, object]] = {
    "models.llama.heads.mine: no file or folder 'heads.tsv'": ("models.llama.heads.mine", "heads.tsv"),
    "similarity.measures.1: got 'rsa', which compares trained models":
        ("similarity.measures", ["importance", "rsa"]),
    "of type answer_pairs; expected a task to train on alone": ("methods", ["prompted", "lora"]),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_prompted_models_cannot_do_is_refused(finished, monkeypatch, message):
    monkeypatch.chdir(finished.path)
    with pytest.raises(HeadspecError, match=message):
        preflight.check(preflight.load(changed(finished.config, dict([REFUSED[message]]))))


def test_models_that_answer_prompts_are_not_exported(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    with pytest.raises(HeadspecError, match="its model answers prompts; export supports only models with"):
        export_run(Path("results/tiny/runs/llama/tone+whole/prompted/seed0"), 3, "tone")
