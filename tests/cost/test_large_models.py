"""Memory and masks of prompted models of 1B to 70B parameters whose weights are not here, beside counts."""

import importlib
import json
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from headspec.cost import memory
from headspec.cost.memory import Sizes
from headspec.models.pretrained.from_pretrained import keep_half
from support.paths import ROOT
from support.running.studies import prompted

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
    half, whole, packed = (
        memory.megabytes(
            prompted({"source": str(tmp_path), "max_length": 512} | more), "llama", stage, gpu, "nothing"
        )
        for more, gpu in (({"dtype": "bf16"}, False), ({}, False), ({"quantization": "nf4"}, False))
    )
    weights = memory.sizes(str(tmp_path)).prompted("bf16") / 1e6
    assert 2 * weights < half < 3 * weights + 24_000
    assert 1.2 * weights < packed < half < 0.7 * whole
    study = prompted({"source": str(tmp_path), "max_length": 512, "dtype": "bf16"})
    placed = memory.megabytes(study, "llama", stage, True, "nothing")
    assert max(weights, memory.ON_GPU) <= placed < max(1.25 * weights + 4000, 1.01 * memory.ON_GPU)


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
