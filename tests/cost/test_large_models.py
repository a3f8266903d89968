"""The plan for prompted models of 1B to 70B parameters whose weights are not here, beside counts."""

import importlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from headspec.config import loading
from headspec.cost import memory
from headspec.cost.memory import Sizes
from headspec.cost.operations import job_operations
from headspec.cost.workload import Extent, Lengths, Size
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.models.batching import Examples
from headspec.models.devices import SIZES, Device
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.from_pretrained import keep_half
from support import tiny
from support.paths import ROOT
from support.running.studies import CONFIG

sys.path.append(str(ROOT / "docs" / "studies"))
large_models = importlib.import_module("large_models")
LLAMAS, config = large_models.LLAMAS, large_models.config


@pytest.fixture(params=LLAMAS)
def name(request) -> str:
    return request.param


def test_bytes_of_weights_are_those_of_the_tensors(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config(name))
    model.tie_weights()
    sizes = Sizes.from_config(json.loads(config(name).to_json_string(use_diff=False)))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert sizes.parameters + sizes.head == pytest.approx(parameters, rel=1e-3)  # but for normalisation
    assert sizes.prompted("fp32") == pytest.approx(4 * parameters, rel=1e-3)
    keep_half(model)
    counted = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    assert sizes.prompted("bf16") == pytest.approx(counted, rel=1e-3)
    billions = float(name.removesuffix("B"))
    assert 0.95 * billions < parameters / 1e9 < 1.25 * billions


@pytest.mark.parametrize("stage", ["prune", "importance", "attention"])
def test_requests_hold_the_weights_and_what_is_read_of_them(name, stage, tmp_path):
    (tmp_path / "config.json").write_text(config(name).to_json_string(use_diff=False))

    def requested(dtype: str) -> float:
        models = {"llama": {"source": str(tmp_path), "dtype": dtype, "max_length": 512}}
        study = loading.load(prompted() | {"models": models})
        return 1e6 * memory.megabytes(study, "llama", stage, True, "nothing")

    weights = memory.sizes(str(tmp_path)).prompted("bf16")
    assert 2 * weights < requested("bf16") < max(2.5 * weights + 4e9, 1.01e6 * memory.ON_GPU)
    assert requested("bf16") < 0.65 * requested("fp32")


def prompted() -> dict:
    """The config of a study of one task with a prompt."""
    task = CONFIG["tasks"]["tone"] | {"prompt": "{text_a}:", "answers": {"good": " a", "bad": " b"}}
    tasks = {"tone": task, "other": task}
    return CONFIG | {"tasks": tasks, "mixtures": {"pairs": [*tasks]}, "methods": ["prompted"]}


def test_operations_of_pruning_are_those_that_run():
    """On a small model: counted while tasks are evaluated under masks, and planned from lengths alone."""
    prefix, own = 24, 8
    rows = SIZES["cpu"][0] // (own + prefix // 8)
    wide = {"hidden_size": 256, "intermediate_size": 512}  # as in large models, attention itself costs little
    encoder = tiny.encoder("llama", attn_implementation="eager", **wide)
    rng = np.random.default_rng(0)
    shared = rng.integers(5, tiny.VOCABULARY, prefix).tolist()
    ids = [[*shared, 5 + i, *rng.integers(5, tiny.VOCABULARY, own - 1)] for i in range(rows)]
    frame = pd.DataFrame({"example": range(rows), "label": np.arange(rows) % 2.0, "input_ids": ids})
    examples = Examples(frame.assign(token_type_ids=None))
    joint = MultiTask(encoder, "last", {"tone": ["a", "b"], "other": ["a", "b"]})
    study = loading.load(prompted() | {"models": {"llama": {"source": "llama"}}})
    shape = study.pruning.model_dump(include={"fraction", "fractions", "heads", "draws", "bottom"})
    importances = {task: rng.random((tiny.LAYERS, tiny.HEADS)) for task in ("tone", "other")}
    planned = masks(importances, seed=0, **shape)
    with FlopCounterMode(display=False) as counter:
        predictions(joint, {"tone": examples, "other": examples}, planned, Device("cpu", None))

    extent, size = Extent(study), Size(rows, rows, None, None, "")
    extent.configs["llama"] = encoder.config
    extent.sizes |= {"tone": size, "other": size}
    keys = [("llama", task) for task in importances]
    extent.lengths |= dict.fromkeys(keys, Lengths(own, prompt=prefix + own))
    job = {"model": "llama", "mixture": "tone+other", "method": "prompted", "seed": "0"}
    whole = job_operations(extent, "prune", job)
    extent.lengths |= dict.fromkeys(keys, Lengths(own, prompt=prefix + own, shared=prefix))
    once = job_operations(extent, "prune", job)
    assert once == pytest.approx(counter.get_total_flops(), rel=0.05)
    assert whole > 3 * once
    assert job_operations(extent, "importance", job) > 1.5 * once / len(planned), (
        "importance reads prompts whole"
    )


def test_the_measured_masks_read_what_they_say(monkeypatch):
    """Of a tiny model: with the beginning read once, fewer operations than with each prompt whole."""
    monkeypatch.setitem(LLAMAS, "tiny", ((64, 2, 4, 2, 128), 300, True))
    counted = []

    def counting(run):
        with FlopCounterMode(display=False) as counter:
            run()
        counted.append(counter.get_total_flops())
        return 0.0, 0.0

    monkeypatch.setattr(large_models, "measured", counting)
    found = large_models.measure(config("tiny"), n=24, tokens=40, shared=30)
    importance, once, whole = counted
    assert list(found) == ["importance", "a mask, beginning read once", "a mask, prompts read whole"]
    assert 2 * once < whole < importance
