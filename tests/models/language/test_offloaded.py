"""Prompted models whose weights do not all fit on their device, from which accelerate offloads the rest."""

import numpy as np
import pytest
import torch

from headspec.atlas.ablation import ABLATION, ablate
from headspec.config.sections.model import Model
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.language import load_language_model
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import from_pretrained
from headspec.models.tokenization import tokenizer
from headspec.prompts.head import prompted
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS

CLASSES, ROWS = language.CLASSES, np.arange(12)
#: answers of one token, which have rows of the output embedding, and longer ones, scored by all of it
ANSWERS = {"one": ("bad", "good"), "longer": (" really bad", " really good")}


@pytest.mark.parametrize(
    ("kind", "dtype", "answers"),
    cases(
        [(kind, dtype, answers) for kind in ("llama", "gpt2", "qwen3") for dtype in ("fp32", "bf16")
         for answers in ANSWERS],
        [("llama", "fp32", "one"), ("gpt2", "bf16", "longer")].__contains__,
    ),
)  # fmt: skip
def test_numbers_are_those_of_models_in_memory(kind, dtype, answers, tmp_path, caplog):
    path = language.make(kind, tmp_path / "m")
    settings = Model(source=str(path), max_length=64, dtype=dtype)
    known = language.answers(path) if answers == "one" else dict(zip(CLASSES, ANSWERS[answers], strict=True))
    prompts = Prompts(
        tokenizer(settings, "models.m"),
        Wording(language.PROMPT, tuple(known[each] for each in CLASSES)), 64, "tasks.t",
    )  # fmt: skip
    tokens = {"t": prompts.answers(CLASSES)}
    classes = CLASSES if tokens["t"] else {"type": "classification", "labels": prompts.labels(CLASSES)}
    whole = load_language_model(path, "m", True, **from_pretrained.weights(settings))
    size = (4 if dtype == "fp32" else 2) * sum(each.numel() for each in whole.parameters())
    placed = {"device_map": "auto", "max_memory": {"cpu": size // 2}}

    def made(**placed) -> MultiTask:
        loaded = load_language_model(path, "m", True, **from_pretrained.weights(settings), **placed)
        joint = prompted(loaded, tokens, {"t": classes})
        joint.save(tmp_path / "saved", encoders.reference(settings, "models.m"))
        return MultiTask.load(tmp_path / "saved", **placed).to("cpu")

    alone, off = made(), made(**placed)
    assert "% of the weights do not fit on the device" in caplog.text
    shares = [each.is_meta for each in off.encoder.parameters()]
    assert 0.2 < np.mean(shares) < 1
    examples = Examples.for_task(prompts.encode(language.table(), CLASSES)[0], classes)
    closed = np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) % 3 == 0
    masks = [Mask("none", None, 0.0, None, closed & False), Mask("t", "top", 0.3, None, closed)]

    def measured(net: MultiTask) -> list[np.ndarray]:
        return [
            gate_gradients(net, "t", examples, ROWS, CPU),
            under_masks(net, "t", examples, ROWS, masks, CPU).values,
            ablate(net, "t", examples, ROWS, CPU, (ABLATION,)).increase[ABLATION],
        ]

    for found, expected in zip(measured(off), measured(alone), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert np.ptp(measured(off)[0]) > 0
    ids = torch.tensor([examples.ids[0]])
    texts = [net.head.whole_model(net.encoder).generate(ids, max_new_tokens=4) for net in (off, alone)]
    assert texts[0].tolist() == texts[1].tolist()
    assert not any(each.is_meta for each in off.classifiers.parameters())
