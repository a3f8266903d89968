"""The tutorial from a CSV to a result, with fewer examples than on its page."""

import os
from typing import Any

import pytest
import yaml

from support.pages import blocks
from support.paths import ROOT
from support.running.studies import Folder, changed

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

BLOCKS = blocks(ROOT / "docs" / "tutorial.md")
#: what makes the study of the page short
SHORTER = {
    "tasks.sentiment.train_examples": 80,
    "tasks.sentiment.validation_examples": 40,
    "tasks.site.train_examples": 80,
    "tasks.site.validation_examples": 40,
    "training.epochs": 1,
    "importance.samples": 20,
}


def test_it_goes_from_a_csv_to_a_result(tmp_path, monkeypatch, capsys):
    folder = Folder.new(tmp_path / "study")
    monkeypatch.chdir(folder.path)
    names: dict[str, Any] = {}
    data, *reading = [block.text for block in BLOCKS if block.language == "python"]
    exec(data, names)
    (config,) = [yaml.safe_load(block.text) for block in BLOCKS if block.language == "yaml"]
    folder.write(changed(config, SHORTER), "my-study.yaml")
    (command,) = [
        line.removeprefix("snakemake ").split()
        for block in BLOCKS
        for line in block.text.splitlines()
        if line.startswith("snakemake ")
    ]
    folder.snakemake(*command, PATH=os.environ["PATH"])
    for code in reading:
        exec(code, names)
    printed = capsys.readouterr().out
    shown = [block.text for block in BLOCKS if block.language == "text" and "task" in block.text]
    for words in ("n_pruned", "spearman  top_overlap", "random_by_layer", "layer  head"):
        assert words in printed and any(words in text for text in shown)
    assert {*names["pruning"]["n_pruned"]} == {0, 7, 21, 36}
    assert {*names["importance"].index.unique("task")} == {*config["tasks"]}
