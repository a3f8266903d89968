"""`headspec export`: from the folder of a run to a folder that is used without headspec, and its refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import cli, tables
from headspec.heads.ranking import importance_map, top_heads
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import encode
from support.running.studies import Folder, tokenizer

pytestmark = pytest.mark.slow

PAIR, FROZEN, SINGLE = (
    f"results/tiny/runs/bert/{run}/seed0" for run in ("tone+topic/tuned", "tone+topic/frozen", "match/single")
)


@pytest.fixture(scope="module")
def ranked(shared) -> Path:
    """A study with importance of a run of two tasks, of a frozen one, and of one of a single task."""
    names = [f"{run}/importance.parquet" for run in (PAIR, FROZEN, SINGLE)]
    return shared("ranked", lambda path: Folder.new(path).snakemake(*names))


@pytest.fixture
def study(ranked, tmp_path, monkeypatch) -> Path:
    path = Folder(ranked).copy(tmp_path / "study").path
    monkeypatch.chdir(path)
    return path


def export(*arguments: str) -> str:
    """What `headspec export` ends with: nothing, or its error."""
    try:
        cli.app(["export", *arguments], standalone_mode=False)
    except cli.HeadspecError as error:
        return str(error)
    return ""


def closed(run: str, task: str, n: int) -> MultiTask:
    """The model of a run, with the gates of all heads but `n` closed."""
    model = MultiTask.load(Path(run, "model"))
    ranking = importance_map(tables.read(Path(run, "importance.parquet")), task)
    model.gates.values = torch.from_numpy(top_heads(ranking, n)).float()
    return model


@pytest.mark.parametrize(("run", "task"), [(PAIR, "topic"), (SINGLE, "match")], ids=["pair", "single"])
def test_the_card_runs_without_headspec(study, run, task):
    """Its code prints the logits of the gated model for two texts of different lengths."""
    options = ["--task", task] if run == PAIR else []
    assert export(run, "--heads", "3", *options, "--out", "out/small") == ""
    card = Path("out/small/README.md").read_text()
    code = re.search(r"```python\n(.+?)```", card, re.DOTALL)[1]
    assert len(code.splitlines()) == 6
    texts = ["the old boat was near our house", "moss"]
    code = code.replace('["One text.", "Another one."]', repr(texts))
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['headspec'] = sys.modules['torch'] = None\n{code}"],
        cwd="out/small", env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    model = closed(run, task, 3)
    table = pd.DataFrame({"example": [0, 1], "text_a": texts, "text_b": None})
    examples = Examples(encode(tokenizer(), table, 16, None)[0])
    with torch.no_grad():
        expected = model.logits(task, model.pool(examples.batch(np.arange(2)))).numpy()
    printed = np.array(json.loads(re.sub(r"(?<=[\d.\]])\s+(?=[-\d\[])", ",", ran.stdout)))
    np.testing.assert_allclose(printed, expected, atol=1e-5)


def test_what_the_folder_says_of_itself(study, capsys):
    export(PAIR, "--heads", "3", "--task", "tone")
    out = Path("results/tiny/export/bert/tone+topic/tuned/seed0/tone-3")
    said = json.loads((out / "model.json").read_text())
    kept = closed(PAIR, "tone", 3).gates.values.numpy()
    assert said["kept_heads"] == [np.flatnonzero(layer).tolist() for layer in kept]
    assert said["tasks"] == {"tone": ["bad", "good"], "topic": ["sea", "wood", "town"]}
    assert said["ranked_for"] == "tone" and said["run"] == PAIR
    assert said["compared"]["texts"] > 60 and said["compared"]["largest_difference_of_logits"] < 1e-5
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: 3 of 8 heads, by layer ") and "differ by at most" in printed
    files = {path.name for path in out.iterdir()}
    assert files == {"README.md", "model.json", "model.onnx", "tokenizer.json"}
    assert export(FROZEN, "--heads", "8", "--task", "tone", "--out", "whole") == ""
    assert json.loads(Path("whole/model.json").read_text())["kept_heads"] == [[0, 1, 2, 3]] * 2


def test_refusals_come_before_anything_is_written(study):
    before = sorted(study.rglob("*"))
    wrong = {
        (f"{SINGLE}/model", "--heads", "3"): f"Did you mean '{SINGLE}'?",
        (SINGLE.replace("match", "macth"), "--heads", "3"): f"Did you mean '{SINGLE}'?",
        ("nowhere", "--heads", "3"): f"There are {SINGLE}, {FROZEN}, {PAIR}.",
        (SINGLE, "--heads", "0"): "--heads: got 0, expected 1 to 8",
        (SINGLE, "--heads", "9"): "--heads: got 9, expected 1 to 8",
        (PAIR, "--heads", "3"): "--task: missing; the run has tone, topic",
        (PAIR, "--heads", "3", "--task", "topc"): "has tone, topic. Did you mean 'topic'?",
        (SINGLE, "--heads", "3", "--out", "texts"): "texts: exists",
    }
    for arguments, message in wrong.items():
        assert message in export(*arguments)
    assert sorted(study.rglob("*")) == before


def test_what_is_missing_or_has_changed_is_named(study):
    file = Path("models/tiny-bert/tokenizer.json")
    file.write_text(file.read_text() + "\n")
    assert "the tokenizer of 'models/tiny-bert' is no longer the tokenizer" in export(SINGLE, "--heads", "3")
    shutil.rmtree("results/tiny/tokens")
    tokens = "results/tiny/tokens/bert/match/validation.parquet: missing"
    assert export(SINGLE, "--heads", "3").startswith(tokens)
    for name in ("importance.parquet", "model/model.safetensors", "model/classifiers.json"):
        Path(SINGLE, name).unlink()
        assert export(SINGLE, "--heads", "3").startswith(f"{SINGLE}: no {name}; run snakemake")
