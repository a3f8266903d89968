"""Prompted models whose weights are quantised while they are loaded, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, GPT2Config, LlamaConfig

from headspec.config.loading import load
from headspec.config.quantizations import QUANTIZATIONS
from headspec.config.sections.model import Model
from headspec.cost import memory
from headspec.errors import ConfigError, MissingError, ModelError
from headspec.heads.importance import gate_gradients
from headspec.models import encoders
from headspec.models.attention.projections import is_packed
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.language import load_language_model
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import from_pretrained, quantized, study_checks
from headspec.models.tokenization import tokenizer
from headspec.prompts.head import prompted
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.running.studies import CONFIG, changed
from support.running.studies import prompted as prompted_study
from support.tiny import CPU

ROWS = np.arange(12)
ASKED = CONFIG["tasks"]["tone"] | {"prompt": "{text_a}:", "answers": {"good": " a", "bad": " b"}}
STUDY = CONFIG | {
    "models": {"m": {"source": "m", "quantization": "nf4"}},
    "tasks": {"tone": ASKED, "other": ASKED},
    "mixtures": {"pairs": ["tone", "other"]},
    "methods": ["prompted"],
}
FREE = "models.m.quantization: got 'nf4', expected null, because "
#: what a study must not have beside a quantised model: change, message
REFUSED = {
    "adapters": ({"methods": ["prompted", "lora"]}, FREE + "methods.1, 'lora', trains; quantised models"),
    "classifiers": ({"methods": ["frozen", "prompted"]}, FREE + "methods.0, 'frozen', trains; "),
    "training": ({"methods": ["tuned"]}, FREE + "only the method 'prompted' runs quantised models"),
    "magnitudes": (
        {"methods": ["prompted", "atlas"], "atlas": {"methods": ["prompted"], "rankings": ["magnitude"]}},
        FREE + "atlas.rankings has 'magnitude', a measure of weights in floating point",
    ),
    "names": (
        {"models.m.quantization": "nf5"},
        "models.m.quantization: got 'nf5', expected nf4, int8, torchao-int8 or torchao-float8",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_packed_weights_cannot_do_is_refused(case):
    changes, message = REFUSED[case]
    load(STUDY)
    with pytest.raises(ConfigError, match=message):
        load(changed(STUDY, changes))


def test_models_that_cannot_be_quantised_here_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(QUANTIZATIONS, "nf4", replace(QUANTIZATIONS["nf4"], package="a_package_that_is_not"))
    key = r"^models.llama.quantization: got 'nf4',"
    language.make("llama", tmp_path / "m")
    settings = {"source": str(tmp_path / "m"), "max_length": 32, "quantization": "nf4"}
    with pytest.raises(ModelError, match=f"{key} which needs the package a_package_that_is_not") as told:
        study_checks.check_models(prompted_study(settings))
    assert [*map(type, told.value.errors)] == [MissingError]
    monkeypatch.setitem(QUANTIZATIONS, "nf4", replace(QUANTIZATIONS["nf4"], package="torch"))
    for config, source, reason in (
        ({"quantization_config": {"load_in_4bit": True}}, "m", "'m' is quantised already"),
        (None, "m.gguf", "'m.gguf' is a GGUF file"),
    ):
        with pytest.raises(ModelError, match=f"{key} expected null, because {reason}"):
            quantized.check("nf4", config, "models.llama", source)
    quantized.check("nf4", {}, "models.llama", "m")


def installed(name: str) -> None:
    pytest.importorskip(QUANTIZATIONS[name].package)


def joint(path, name: str, dtype: str, kind: str) -> tuple[MultiTask, Examples]:
    """A prompted model that was saved and loaded, and examples."""
    settings = Model(source=str(path), max_length=64, dtype=dtype, quantization=name)
    masked, answers = kind in language.MASKED, language.answers(path)
    wording = Wording(
        language.FILLED if masked else language.PROMPT, tuple(answers[each] for each in language.CLASSES)
    )
    prompts = Prompts(tokenizer(settings, "models.m"), wording, 64, "tasks.t")
    whole = load_language_model(path, "m", not masked, **from_pretrained.weights(settings))
    made = prompted(whole, {"t": prompts.answers(language.CLASSES)}, {"t": language.CLASSES})
    made.save(path.parent / "saved", encoders.reference(settings, "models.m"))
    frame, _ = prompts.encode(language.table(), language.CLASSES)
    return MultiTask.load(path.parent / "saved"), Examples(frame)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("name", QUANTIZATIONS)
@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_quantised_models_are_those_of_transformers_and_have_derivatives(kind, name, dtype, tmp_path):
    installed(name)
    path, masked = language.make(kind, tmp_path / "m"), kind in language.MASKED
    made, examples = joint(path, name, dtype, kind)
    layers = made.encoder.encoder.layer if masked else made.encoder.layers
    assert all(map(is_packed, (each for each in layers.modules() if isinstance(each, torch.nn.Linear))))
    computes = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    loading = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    plain = loading.from_pretrained(
        path, quantization_config=quantized.config(name, computes), dtype=computes, device_map="cpu"
    )
    quantized.keep_derivatives(plain)
    plain.eval()
    batch = examples.batch(ROWS)
    with torch.no_grad():
        states = plain.base_model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)[0].float()
        found = made.states(batch).float()
    real = batch.attention_mask.bool()
    within = 1e-3 if dtype == "fp32" else 0.05
    assert (found - states)[real].norm() < within * states[real].norm()
    device = CPU if dtype == "fp32" else Device("cpu", "bfloat16")
    gradients = gate_gradients(made, "t", examples, ROWS, device)
    assert np.isfinite(gradients).all() and (np.abs(gradients).max(axis=0) > 0).all()
    if dtype == "bf16" or name == "int8":  # small differences are mostly rounding
        return
    step, place = 0.02, (1, 2)
    losses = []
    for value in (1 - step, 1 + step):
        made.gates.values = torch.ones(made.gates.layers, made.gates.heads)
        made.gates.values[place] = value
        with torch.no_grad():
            losses.append(made.losses("t", made.pool(batch), batch.labels).numpy())
    made.gates.values = None
    expected = (losses[1] - losses[0]) / (2 * step)
    np.testing.assert_allclose(gradients[:, *place], expected, rtol=0.05, atol=0.02 * np.abs(expected).max())


@pytest.mark.slow
def test_projections_of_gpt2_are_packed_by_bitsandbytes_and_refused_with_torchao(tmp_path):
    """Its projections are no Linear, which torchao alone packs."""
    installed("nf4")
    installed("torchao-int8")
    config = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=99)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    assert sum(map(is_packed, load_language_model(tmp_path, "m", quantization="nf4").modules())) == 8
    with pytest.raises(ModelError, match="m cannot be loaded as a language model: torchao-int8 packs none"):
        load_language_model(tmp_path, "m", quantization="torchao-int8")


def test_memory_of_packed_weights_is_planned(tmp_path):
    """By bits for each weight, beside the file while it is read; embeddings are in float32."""
    sizes = memory.Sizes(layers=2, heads=4, hidden=8, inner=32, parameters=1000, embedded=200, head=50)
    assert sizes.prompted("bf16", "int8") == 800 + 4 * 250
    assert sizes.prompted("fp32", "nf4") == pytest.approx(800 * 4.13 / 8 + 4 * 250)
    source = {"source": str(language.make("llama", tmp_path / "m")), "dtype": "bf16"}
    megabytes = [
        memory.megabytes(prompted_study(source | more), "llama", "importance", False, "nothing")
        for more in ({}, {"quantization": "int8"}, {"quantization": "nf4"})
    ]
    assert megabytes == sorted(megabytes, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nf4", "int8"])
def test_bits_of_a_weight_are_those_of_its_tensors(name, tmp_path):
    installed(name)
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 1, "vocab_size": 99}
    AutoModelForCausalLM.from_config(LlamaConfig(**sizes, num_attention_heads=4)).save_pretrained(tmp_path)
    layer = load_language_model(tmp_path, "m", quantization=name).model.layers[0]
    state = {key: each for key, each in layer.state_dict().items() if "norm" not in key}
    counted = sum(each.numel() * each.element_size() for each in state.values())
    weights = 4 * 512 * 512 + 3 * 512 * 1024
    assert 8 * counted / weights == pytest.approx(QUANTIZATIONS[name].bits, rel=0.02)
