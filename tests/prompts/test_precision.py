"""Prompted models in bfloat16: their weights, and scores, which stay float32."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headspec.atlas.ablation import ABLATION, ablate
from headspec.config.sections.model import Model
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.language import load_language_model, log_probabilities
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import tokenizer
from headspec.prompts.head import prompted
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.language import CLASSES, FILLED, PROMPT
from support.tiny import CPU, HEADS, LAYERS

BF16 = Device("cpu", "bfloat16")
ROWS = np.arange(12)


@pytest.fixture(scope="module", params=["llama", "gpt2", "bert"])
def made(request, tmp_path_factory) -> tuple[dict[str, MultiTask], Examples]:
    """A prompted model of weights that bfloat16 can hold, in both types, and examples."""
    folder = tmp_path_factory.mktemp(request.param)
    path, masked = language.make(request.param, folder / "model"), request.param in language.MASKED
    weights = load_file(path / "model.safetensors")
    rounded = {name: value.bfloat16().float() for name, value in weights.items()}
    save_file(rounded, path / "model.safetensors", metadata={"format": "pt"})
    joints = {}
    for dtype in ("fp32", "bf16"):
        settings = Model(source=str(path), max_length=64, dtype=dtype)
        answers = language.answers(path)
        wording = Wording(FILLED if masked else PROMPT, tuple(answers[name] for name in CLASSES))
        prompts = Prompts(tokenizer(settings, "models.m"), wording, 64, "tasks.t")
        whole = load_language_model(path, "m", not masked, dtype)
        prompted(whole, {"t": prompts.answers(CLASSES)}, {"t": CLASSES}).save(
            folder / dtype, encoders.reference(settings, "models.m")
        )
        joints[dtype] = MultiTask.load(folder / dtype)
    return joints, Examples(prompts.encode(language.table(), CLASSES)[0])


def logits(joint: MultiTask, examples: Examples, device: Device) -> torch.Tensor:
    with torch.no_grad(), device.cast():
        return joint.logits("t", joint.pool(examples.batch(ROWS)))


def test_linear_layers_alone_are_kept_in_bfloat16(made):
    half = made[0]["bf16"].encoder
    kinds = {type(module).__name__: {p.dtype for p in module.parameters(recurse=False)}
             for module in half.modules() if [*module.parameters(recurse=False)]}  # fmt: skip
    linear = kinds.keys() & {"Linear", "Conv1D"}
    assert linear and all(kinds[name] == {torch.bfloat16} for name in linear)
    assert all(dtypes == {torch.float32} for name, dtypes in kinds.items() if name not in linear)
    assert {p.dtype for p in made[0]["fp32"].parameters()} == {torch.float32}


def test_numbers_are_those_of_float32_weights_under_autocast(made):
    joints, examples = made
    expected = logits(joints["fp32"], examples, BF16)
    assert not torch.equal(expected, logits(joints["fp32"], examples, CPU))
    assert torch.equal(logits(joints["bf16"], examples, BF16), expected)
    alone = logits(joints["bf16"], examples, CPU)
    if joints["bf16"].pooling == "mask":  # states are chosen by a product, which now is that of float32
        torch.testing.assert_close(alone, expected, rtol=0.01, atol=0.01)
    else:
        assert torch.equal(alone, expected)


def test_gates_have_the_gradients_of_float32_weights_under_autocast(made):
    joints, examples = made
    expected = gate_gradients(joints["fp32"], "t", examples, ROWS, BF16)
    found = gate_gradients(joints["bf16"], "t", examples, ROWS, BF16)
    assert expected.any() and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_a_head_left_out_is_a_closed_gate(made):
    joints, examples = made
    ablated = ablate(joints["bf16"], "t", examples, ROWS, CPU, (ABLATION,))
    closed = np.zeros((LAYERS, HEADS), dtype=bool)
    gates = torch.ones(LAYERS, HEADS)
    closed[1, 2], gates[1, 2] = True, 0
    none = Mask("none", None, 0.0, None, np.zeros_like(closed))
    found = predictions(joints["bf16"], {"t": examples}, [none, Mask("random", None, 0.1, 0, closed)], CPU)[
        "t"
    ]
    np.testing.assert_array_equal(ablated.prediction, found[0])
    joints["bf16"].gates.values = gates
    batch = examples.batch(ROWS)
    with torch.no_grad():
        loss = joints["bf16"].losses("t", joints["bf16"].pool(batch), batch.labels).numpy()
    joints["bf16"].gates.values = None
    increase = loss - ablated.loss
    np.testing.assert_allclose(
        ablated.increase[ABLATION][:, 1, 2], increase, atol=0.1 * np.abs(increase).max()
    )


def test_scores_are_float32_under_autocast(made):
    joints, examples = made
    joint = joints["fp32"]
    with torch.no_grad(), BF16.cast():
        states = joint.pool(examples.batch(ROWS))
        found = joint.logits("t", states)
    with torch.no_grad():
        expected = joint.logits("t", states.float())
    assert found.dtype == torch.float32 and torch.equal(found, expected)
    assert not torch.equal(found, found.bfloat16().float())


def test_likelihoods_are_float32_under_autocast(made):
    head = made[0]["fp32"].head
    states, tokens = torch.randn(6, head.tokens.in_features), torch.arange(6)
    expected = head(states).log_softmax(1)[tokens, tokens]
    with BF16.cast():
        torch.testing.assert_close(log_probabilities(head, states, tokens), expected)
