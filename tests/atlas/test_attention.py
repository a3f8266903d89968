"""Statistics of attention equal a loop over examples and tokens, in every architecture."""

import numpy as np
import pytest
import torch

from headspec.atlas.attention import MEASURES, Tokens, attention_measures, statistics
from headspec.atlas.sample import HEAD_FOLDS, sampled
from headspec.models.devices import Device
from headspec.tables import read, write
from support import tiny
from support.models import TRANSLATORS
from support.reference.single_texts import SEPARATORS, alone, heads, maps, separated, tokens
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS, QUICK, by_family, multitask


def by_loop(weights: np.ndarray, attending: list[int], seen: list[int], ends: set[int]) -> dict[str, float]:
    """The measures of one head on one text, from its weights (attending, seen) and the tokens."""
    every, (words, others) = range(len(attending)), (
        [i for i, token in enumerate(ids) if i == 0 or token not in ends] for ids in (attending, seen)
    )  # fmt: skip
    before_end = range(max(others) + 1)
    logs = [sum(-w * np.log(w) for w in weights[i] if w > 0) for i in every]
    reach = [(weights[i] > 0).sum() for i in every]
    places = {} if attending is not seen else {
        "to_self": np.mean([weights[i, i] for i in every]),
        "distance": np.mean([sum(abs(i - j) * weights[i, j] for j in every) for i in every]),
    }  # fmt: skip
    return places | {
        "confidence": np.mean([weights[i, before_end].max() for i in range(max(words) + 1)]),
        "confidence_no_separator": np.mean([weights[i, others].max() for i in words]),
        "confidence_with_separator": np.mean([weights[i].max() for i in every]),
        "to_separator": np.mean([sum(np.delete(weights[i], others)) for i in every]),
        "to_first": np.mean([weights[i, 0] for i in every]),
        "entropy": np.mean(logs),
        "entropy_relative": np.mean([logs[i] / np.log(reach[i]) for i in every if reach[i] > 1]),
    }


@pytest.mark.parametrize("made", [*by_family(), *cases(TRANSLATORS, QUICK.__contains__)], indirect=True)
def test_measures_equal_a_loop_without_batches(made):
    """In an encoder-decoder, whose cross-attention has no measures of places, with the ends of its texts."""
    model, texts = made
    ends = {*model.classes["a"]["after"]} if model.encoder.config.is_encoder_decoder else SEPARATORS
    n = len(texts)  # fewer than folds
    frame = attention_measures(model, {"a": texts}, n, ends, Device("cpu", None, tokens=30))
    found = frame.set_index(["measure", "fold", "layer", "head"])["value"]
    compared = 0
    for fold, row in enumerate(sampled("a", n, n)):
        batch = alone(texts, row)
        sides = [*tokens(model, batch)]
        weights = maps(model, batch)
        for layer, head in heads(model):
            for measure, expected in by_loop(weights[layer][head], *sides[layer], ends).items():
                value = found[measure, fold, layer, head]
                assert value == pytest.approx(expected, rel=1e-3, abs=1e-5), (measure, layer)
                compared += HEADS
    assert compared == len(frame) and (frame["n"] == 1).all()


def test_the_table(tmp_path):
    model, examples = multitask("bert", {}).train(), {"a": separated(30), "b": separated(7)}
    frame = attention_measures(model, examples, 25, SEPARATORS, CPU)
    assert model.training and model.encoder.training
    counts = frame.groupby(["task", "measure"])["n"].sum() / (LAYERS * HEADS)
    assert counts.to_dict() == {("a", name): 25 for name in MEASURES} | {("b", name): 7 for name in MEASURES}
    write(tmp_path / "attention.parquet", HEAD_FOLDS, frame, {})
    assert len(read(tmp_path / "attention.parquet")) == len(frame)


def test_neither_precision_nor_closing_a_head_changes_what_it_attends_to():
    model, texts = multitask("bert", {}), {"a": separated(24)}
    plain, half = (
        attention_measures(model, texts, 24, SEPARATORS, device)
        for device in (CPU, Device("cpu", "bfloat16", tokens=30))
    )
    np.testing.assert_allclose(plain["value"], half["value"], rtol=1e-4, atol=1e-6)
    model.gates.values = torch.ones(LAYERS, HEADS)
    model.gates.values[1, 2] = 0
    closed = attention_measures(model, texts, 24, SEPARATORS, CPU)
    same = (plain["value"] - closed["value"]).abs() < 1e-7
    assert same[plain["layer"] <= 1].all() and not same[plain["layer"] == 2].all()


def of(weights: torch.Tensor, ids: list[list[int]]) -> dict[str, torch.Tensor]:
    examples = tiny.examples(len(ids))
    examples.ids, examples.lengths = ids, np.array([len(row) for row in ids])
    batch = examples.batch(np.arange(len(ids)))
    found = statistics(weights, Tokens(batch.input_ids, batch.attention_mask, SEPARATORS))
    assert tuple(found) == MEASURES
    return found


def test_uniform_attention():
    """Of 4 tokens, the last a separator: in closed form, for encoders and decoders."""
    both = torch.full((1, 1, 4, 4), 1 / 4)
    before = torch.ones(1, 1, 4, 4).tril() / torch.arange(1, 5)[:, None]
    encoder, decoder = ({k: v.item() for k, v in of(w, [[9, 8, 7, 3]]).items()} for w in (both, before))
    quarters = dict.fromkeys(
        ["confidence", "confidence_no_separator", "confidence_with_separator", "to_separator", "to_first",
         "to_self"], 0.25,
    )  # fmt: skip
    assert encoder == pytest.approx(
        quarters | {"distance": 20 / 16, "entropy": np.log(4), "entropy_relative": 1}
    )
    thirds = (1 + 1 / 2 + 1 / 3) / 3  # the end token neither attends nor is attended to
    fourths = (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert decoder == pytest.approx({
        "confidence": thirds, "confidence_no_separator": thirds, "confidence_with_separator": fourths,
        "to_separator": 1 / 16, "to_first": fourths, "to_self": fourths,
        "distance": (0 + 1 / 2 + 1 + 3 / 2) / 4, "entropy": np.log(24) / 4, "entropy_relative": 1,
    })  # fmt: skip


def test_confidence_with_and_without_separators():
    """All attend to the separator between two texts, but for 0.1 to themselves."""
    weights = 0.1 * torch.eye(4) + 0.9 * (torch.arange(4) == 1)
    found = {name: value.item() for name, value in of(weights[None, None], [[5, 3, 6, 3]]).items()}
    assert found["confidence_with_separator"] == pytest.approx((3 * 0.9 + 1) / 4)
    assert found["confidence"] == pytest.approx((2 * 0.9 + 1) / 3)  # the end token left out
    assert found["confidence_no_separator"] == pytest.approx(0.1)
    assert found["to_separator"] == pytest.approx((0.9 + 1 + 0.9 + 1) / 4)


def test_texts_without_other_tokens_than_separators():
    """They count with all their tokens; and a token alone has no relative entropy."""
    found = of(torch.ones(2, 1, 1, 1), [[3], [9]])
    for name, value in found.items():
        expected = {"distance": 0, "entropy": 0, "entropy_relative": 0, "to_separator": 0}.get(name, 1)
        assert value.tolist() == [[expected], [expected]], name
