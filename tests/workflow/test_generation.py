"""Snakemake on a tiny decoder that writes answers, whose heads are ranked by what they do."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from headspec import tables
from headspec.errors import HeadspecError
from headspec.pipeline import preflight
from support import language
from support.pages import blocks
from support.paths import ROOT
from support.running.studies import CONFIG, SMALL, Folder, changed

pytestmark = pytest.mark.slow

RUN = "results/tiny/runs/llama/{}/prompted/seed0/{}.parquet"
TARGETS = [
    "results/tiny/tables/dissociation.parquet", "results/tiny/tables/pruning_areas.parquet",
    "results/tiny/figures/curves.llama.writing+tone.prompted.png",
]  # fmt: skip
DOES = "induction", "retrieval", "function_vector"
JUDGE = """
from headspec import plugins

@plugins.text_score("words")
def words(text, answer):
    return len({*text.split()}) / 4
"""


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        made = language.make("llama", path / "models" / "tiny-llama")
        settings = json.loads((made / "config.json").read_text()) | {"max_position_embeddings": 512}
        (made / "config.json").write_text(json.dumps(settings))  # numbers are hidden in long texts
        known = language.answers(made).values()
        rows = pd.read_parquet(path / "texts" / "tone" / "train.parquet").head(60)
        rows.assign(answer=rows["label"].map({"good": "house", "bad": "old house"})).to_parquet(
            path / "w.parquet"
        )
        (path / "judging.py").write_text(JUDGE)
        folder.write(SMALL | {
            "plugins": ["judging.py"],
            "models": {"llama": {"source": "models/tiny-llama", "max_length": 40}},
            "tasks": {
                "writing": {"source": "w.parquet", "type": "generation", "text_a": "sentence", "shots": 1,
                            "prompt": "saw {text_a} the", "max_new_tokens": 4, "score": "words",
                            "metrics": ["generated_score", "generated_f1"], "validation_examples": 30},
                "tone": CONFIG["tasks"]["tone"] | {
                    "prompt": language.PROMPT, "answers": dict(zip(["good", "bad"], known, strict=True)),
                    "validation_examples": 30,
                },
            },
            "mixtures": {"pairs": ["writing", "tone"]},
            "methods": ["prompted"],
            "importance": {"samples": 20},
            "pruning": {"fraction": 0.3, "fractions": [], "heads": [1], "draws": 2, "bottom": False},
            "atlas": {"methods": ["prompted"],
                      "rankings": ["importance", "knockouts", *DOES],
                      "fractions": [0.3], "draws": 2, "examples": 40, "same_layers": ["induction"]},
            "dissociation": {"resamples": 100},
            "similarity": {"measures": []},
        })  # fmt: skip
        folder.snakemake(*TARGETS)

    return Folder(shared("generation", fill))


def read(study: Folder, name: str) -> pd.DataFrame:
    return pd.read_parquet(study.path / RUN.format("writing+tone", name))  # with texts


def test_what_a_model_writes_is_evaluated_under_every_mask(finished):
    pruning, predicted = read(finished, "pruning"), read(finished, "predictions")
    own = predicted[(predicted["task"] == "writing") & (predicted["pruned_for"] == "none")]
    counted = own["prediction_text"].map(lambda text: len({*text.split()}) / 4)
    none = pruning[(pruning["pruned_for"] == "none") & (pruning["task"] == "writing")]
    assert none.set_index("metric")["value"]["generated_score"] == pytest.approx(counted.mean())
    assert {*pruning.loc[pruning["task"] == "writing", "metric"]} == {"generated_score", "generated_f1"}
    changed = predicted[(predicted["task"] == "writing") & (predicted["pruned_for"] == "writing")]
    assert {*changed["prediction_text"]} != {*own["prediction_text"]}
    prompts = tables.footer(finished.results / "prompts" / "llama" / "writing" / "seed0" / "train.parquet")
    assert prompts["classes"]["seed"] == 0  # of samples
    table = tables.read(finished.results / "tables" / "dissociation.parquet")
    assert {*table["task"]} >= {"writing", "tone"} and table["dissociation"].notna().all()
    assert (read(finished, "importance").groupby("task")["importance"].max() > 0).all()


def test_heads_are_ranked_by_what_they_do(finished):
    areas = tables.read(finished.results / "tables" / "pruning_areas.parquet")
    assert {"importance", "knockouts", *DOES} <= {*areas["ranking"]}
    assert {*areas.query("against == 'same_layers'")["ranking"]} == {"induction"}
    for name in DOES:
        heads = read(finished, f"atlas/{name}").pivot_table("value", ["fold", "layer", "head"], "task")
        same = heads["writing"].equals(heads["tone"].rename("writing"))
        assert heads.notna().all(axis=None) and same == (name != "function_vector")


def test_a_score_that_fails_leaves_the_texts(finished, tmp_path):
    study = finished.copy(tmp_path / "study")
    study.replace(
        "judging.py", "    return", "    assert text in ('', 'house', 'old house'), 'no'\n    return"
    )
    target = RUN.format("writing+tone", "pruning")
    said = study.snakemake(target, fails=True)
    assert "tasks.writing.score: judging.py:words raised AssertionError: no, for the text" in said
    (kept,) = study.results.rglob("*.texts.jsonl")
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert {"example", "text"} == {*rows[0]} and len(rows) >= 20


def test_the_study_on_the_page_is_planned(tmp_path):
    page = ROOT / "docs" / "tasks-and-models.md"
    config, scores = (block.text for block in blocks(page) if block.heading == "Written answers")
    folder = Folder.new(tmp_path / "study")
    language.make("llama", folder.path / "llama")
    (folder.path / "scores.py").write_text(scores)
    (folder.path / "data").mkdir()
    rows = [f"{a} and {b},{a + b}" for a in range(30) for b in range(30)]
    (folder.path / "data" / "sums.csv").write_text("text,answer\n" + "\n".join(rows))
    pairs = [f"{a}{end},{b}{end}" for end in ("ain", "ing", "ore") for a in "abcdefgh" for b in "mnprst"]
    (folder.path / "data" / "rhymes.csv").write_text("text,answer\n" + "\n".join(pairs))
    models = {"llama": {"source": "llama", "max_length": 64}}
    small = {"tasks.sums.shots": 0, "tasks.rhymes.shots": 0, "pruning.fraction": 0.1}
    written = changed(yaml.safe_load(config), small)
    folder.write(written | {"study": "written", "seeds": [0], "models": models})
    plan = folder.plan("results/written/tables/belief.parquet")
    assert plan.rules["prompts"] == plan.rules["behaviour"] == 2 and "train" not in plan.rules


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pruning.ablation": "resample"},
         "pruning.ablation: got 'resample', which does not support a task of generation"),
        ({"tasks.writing.score": "word"}, "tasks.writing.score: got 'word', expected one of words. Did you"),
        ({"tasks.writing.score": ...}, "tasks.writing.score: got none, expected the name of a score with"),
        ({"tasks.writing.pattern": "(a"}, r"tasks.writing.pattern: got '\(a', expected a regular expression"),
        ({"tasks.writing.max_new_tokens": 39}, "expected fewer than models.llama.max_length"),
        ({"atlas.same_layers": ["ablation"]}, "atlas.same_layers.0: got 'ablation', expected one of atlas"),
        ({"methods": ["tuned"]}, "is of type generation, for which nothing is trained"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(finished, monkeypatch, change, message):
    monkeypatch.chdir(finished.path)
    with pytest.raises(HeadspecError, match=message):
        preflight.check(preflight.load(changed(finished.config, change)))
