"""Measures of the heads of encoder-decoders, of all three kinds of attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import tables
from headspec.atlas.ablation import ABLATION, MEAN_ABLATION, ablate, predictions_table
from headspec.atlas.attended import ATTENDED, attended
from headspec.atlas.attention import MEASURES, OF_PLACES, attention_measures
from headspec.atlas.integrated_gradient import measure as integrated_gradient
from headspec.atlas.relevance import loss_gradients, relevances
from headspec.atlas.resample_ablation import measure as resample_ablation
from headspec.atlas.sample import FOLDS, sampled
from headspec.config.sections.model import Model
from headspec.heads.importance import gate_gradients
from headspec.models.batching import Batch, Examples
from headspec.models.devices import Device
from headspec.models.internals.attention_maps import attention_maps
from headspec.models.internals.propagation import propagating
from headspec.models.internals.resuming import ablating
from headspec.models.multitask import MultiTask
from headspec.models.tokens import tokenization, vocabulary
from headspec.models.tokens.word_tokens import encode_words
from headspec.per_example import labels_and_predictions
from headspec.statistics.atlas.roles import POSITIONAL, RARE, SYNTACTIC, roles
from headspec.tasks.translation import decoding
from headspec.tasks.translation.tokens import ENCODING
from support.contexts import replaced, seen
from support.models import TEXTS, TRANSLATORS, make
from support.tiny import CPU, HEADS, KINDS
from support.translators import classes, translator

#: first rows of decoder self-attention and of cross-attention, and number of rows
DECODER, CROSS = KINDS["encoder"], KINDS["encoder"] + KINDS["decoder"]
ROWS = sum(KINDS.values())
SMALL = Device("cpu", None, tokens=30)  # several batches
N = 9


@pytest.fixture(scope="session")
def folders(shared) -> Path:
    return shared("translators", lambda path: [make(name, path / name) for name in TRANSLATORS])


@pytest.fixture(scope="module", params=TRANSLATORS)
def made(request, folders) -> tuple[MultiTask, Examples]:
    return translator(folders / request.param, request.param, N)


@pytest.fixture(scope="module")
def marian(folders) -> tuple[MultiTask, Examples]:
    return translator(folders / "marian", "marian", N)


def alone(examples: Examples, row: int) -> Batch:
    return examples.batch(np.array([row]))


def ends_of(model: MultiTask) -> set[int]:
    """What separates and ends texts, without the token that the decoder begins with."""
    of_task = model.classes["a"]
    assert isinstance(of_task, dict)
    return {*of_task["after"]}


@torch.no_grad()
def maps_of(model: MultiTask, batch: Batch) -> list[np.ndarray]:
    """The maps (heads, attending, attended to) of every row, of a batch of one."""
    maps: dict[int, np.ndarray] = {}
    with attention_maps(model.gates, lambda row, weights: maps.update({row: weights[0].numpy()})):
        model.read(batch)
    assert sorted(maps) == list(range(ROWS))
    return [maps[row] for row in range(ROWS)]


@torch.no_grad()
def test_maps_are_those_that_the_model_returns(made):
    model, examples = made
    batch = alone(examples, 2)
    maps = maps_of(model, batch)
    implementation = model.encoder.config._attn_implementation
    model.encoder.set_attn_implementation("eager")
    output = model.encoder(
        input_ids=batch.input_ids, decoder_input_ids=decoding.begun(model.encoder, batch.labels.ids),
        output_attentions=True,
    )  # fmt: skip
    model.encoder.set_attn_implementation(implementation)
    expected = [*output.encoder_attentions, *output.decoder_attentions, *output.cross_attentions]
    for weights, other in zip(maps, expected, strict=True):
        np.testing.assert_allclose(weights, other[0].numpy(), rtol=1e-4, atol=1e-6)
    source, target = batch.input_ids.shape[1], batch.labels.ids.shape[1]
    assert maps[0].shape == (HEADS, source, source) and maps[CROSS].shape == (HEADS, target, source)
    assert not np.triu(maps[DECODER], 1).any()  # what follows is not seen


def by_loop(weights: np.ndarray, attending: list[int], seen: list[int], ends: set[int]) -> dict[str, float]:
    """The measures of one head on one text, from its weights (attending, seen) and the tokens."""
    words, others = (
        [i for i, token in enumerate(ids) if i == 0 or token not in ends] for ids in (attending, seen)
    )
    before_end = range(max(others) + 1)
    entropy = -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=1)
    reach = np.array([(row > 0).sum() for row in weights])
    return {
        "confidence": np.mean([weights[i, before_end].max() for i in range(max(words) + 1)]),
        "confidence_no_separator": np.mean([weights[i, others].max() for i in words]),
        "confidence_with_separator": weights.max(axis=1).mean(),
        "to_separator": np.delete(weights, others, axis=1).sum(axis=1).mean(),
        "to_first": weights[:, 0].mean(),
        "entropy": entropy.mean(),
        "entropy_relative": np.mean(entropy[reach > 1] / np.log(reach[reach > 1])),
    }


def test_measures_of_attention_equal_a_loop_without_batches(made):
    model, examples = made
    ends = ends_of(model)
    frame = attention_measures(model, {"a": examples}, N, ends, SMALL)
    found = frame.set_index(["measure", "fold", "layer", "head"])["value"]
    for fold, row in enumerate(sampled("a", N, N)):  # fewer examples than folds
        batch = alone(examples, row)
        source = batch.input_ids[0].tolist()
        target = decoding.begun(model.encoder, batch.labels.ids)[0].tolist()
        sides = [(source, source)] * DECODER + [(target, target)] * (CROSS - DECODER)
        sides += [(target, source)] * (ROWS - CROSS)
        for layer, (weights, side) in enumerate(zip(maps_of(model, batch), sides, strict=True)):
            for measure, expected in by_loop(weights[1], *side, ends).items():
                value = found[measure, fold, layer, 1]
                assert value == pytest.approx(expected, rel=1e-3, abs=1e-5), (measure, layer)
    places = frame[frame["measure"].isin(OF_PLACES)]
    assert places["layer"].max() == CROSS - 1 and places["layer"].nunique() == CROSS
    others = frame[~frame["measure"].isin(OF_PLACES)]
    assert len(others) == (len(MEASURES) - len(OF_PLACES)) * N * ROWS * HEADS < N * FOLDS * ROWS * HEADS


def test_gates_on_tokens_add_up_to_the_gate_of_the_head(made):
    model, examples = made
    rows = np.arange(N)
    by_example, by_token = np.moveaxis(loss_gradients(model, "a", examples, rows, SMALL), 1, 0)
    expected = gate_gradients(model, "a", examples, rows, CPU)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(by_example, expected, rtol=2e-3, atol=5e-5 * scale)
    assert (by_token >= np.abs(by_example) - 1e-4 * scale).all() and (by_token > 1.01 * by_example).any()


@pytest.mark.parametrize("rules", ["constant_attention", "attnlrp"])
def test_batched_relevance_equals_a_loop(made, rules):
    model, examples = made
    rows = np.random.default_rng(0).permutation(N)
    batched = relevances(model, "a", examples, rows, CPU, rules=rules)
    assert batched.shape == (N, ROWS, HEADS) and (np.abs(batched).max(axis=(0, 2)) > 0).all()
    for i, row in enumerate(rows):
        one = relevances(model, "a", examples, np.array([row]), CPU, rules=rules)[0]
        np.testing.assert_allclose(batched[i], one, rtol=5e-3, atol=1e-4 * np.abs(one).max())


def test_relevance_is_that_of_the_largest_logits_and_ends_in_what_the_layers_take(made):
    """Embeddings of sources and of targets, and biases, of which T5 has none."""
    model, examples = made
    batch, inputs = alone(examples, 3), []

    def begin(layer, args):
        inputs.append(args[0].detach().requires_grad_())
        return inputs[-1] + 0, *args[1:]

    stacks = [model.encoder.get_encoder(), model.encoder.get_decoder()]
    hooks = [
        next(m for m in stack.modules() if isinstance(m, torch.nn.ModuleList))[0].register_forward_pre_hook(
            begin
        )
        for stack in stacks
    ]
    biases = [
        parameter.requires_grad_(True)
        for name, parameter in model.requires_grad_(False).named_parameters()
        if name.endswith("bias") and "embedding" not in name
    ]
    with propagating(model.gates, "constant_attention"):
        logit = model.evidence("a", model.pool(batch), batch.labels).sum()
    gradients = torch.autograd.grad(logit, [*inputs, *biases], allow_unused=True)
    for hook in hooks:
        hook.remove()
    model.requires_grad_(True)
    relevance = sum(
        float((end * gradient).sum().detach())
        for end, gradient in zip([*inputs, *biases], gradients, strict=True)
        if gradient is not None
    )
    assert relevance == pytest.approx(float(logit.detach()), rel=5e-3)
    with torch.no_grad():
        whole = model.encoder(input_ids=batch.input_ids, labels=batch.labels.ids).logits
    assert float(logit.detach()) == pytest.approx(float(whole.amax(-1).mean()), rel=1e-4)


def closing(model: MultiTask, layer: int, head: int) -> torch.Tensor:
    gates = torch.ones(ROWS, HEADS)
    gates[layer, head] = 0
    return gates


@torch.no_grad()
def test_ablation_is_a_full_pass_with_a_closed_gate(made):
    model, examples = made
    rows = sampled("a", N, N)
    found = ablate(model, "a", examples, rows, SMALL)
    batch = examples.batch(rows)
    plain = model.losses("a", model.pool(batch), batch.labels).numpy()
    np.testing.assert_allclose(found.loss, plain, rtol=1e-4, atol=1e-5)
    for layer, head in [(0, 0), (DECODER, 2), (DECODER + 1, 0), (CROSS, 3), (CROSS + 1, 1)]:
        model.gates.values = closing(model, layer, head)
        states = model.pool(batch)
        closed = model.losses("a", states, batch.labels).numpy()
        texts = model.predictions("a", states, batch.labels).numpy()
        model.gates.values = None
        np.testing.assert_allclose(
            found.increase[ABLATION][:, layer, head], closed - plain, rtol=1e-3, atol=1e-4
        )
        assert np.array_equal(found.predictions[ABLATION][:, layer, head], texts)


def contexts_of(model: MultiTask, batch: Batch) -> list[torch.Tensor]:
    """Context vectors (tokens, heads, size) of every row, of a batch of one."""
    with seen(model.gates) as found:
        model.read(batch)
    return [found[row][0] for row in range(ROWS)]


@torch.no_grad()
def test_mean_ablation_gives_every_token_the_mean_of_the_other_half(marian):
    """In full passes, with contexts replaced by a hook; texts, too, are written with them."""
    model, examples = marian
    rows = sampled("a", N, N)
    found = ablate(model, "a", examples, rows, SMALL, (ABLATION, MEAN_ABLATION))
    assert (found.predictions[ABLATION] != found.prediction[:, None, None]).any()  # texts depend on heads
    table = predictions_table("a", examples, rows, found)
    closed = table[(table["measure"] == ABLATION) & (table["layer"] == DECODER) & (table["head"] == 1)]
    label, prediction = labels_and_predictions(closed)
    np.testing.assert_array_equal(label, examples.label[rows])
    np.testing.assert_array_equal(prediction, found.predictions[ABLATION][:, DECODER, 1])
    for half in (0, 1):
        of_texts = [contexts_of(model, alone(examples, row)) for row in rows[1 - half :: 2]]
        batch = examples.batch(rows[half::2])
        plain = model.losses("a", model.pool(batch), batch.labels)
        for layer, head in [(0, 1), (DECODER, 0), (CROSS + 1, 3)]:
            mean = torch.cat([contexts[layer][:, head] for contexts in of_texts]).mean(0, keepdim=True)
            with replaced(model.gates, layer, head, mean):
                states = model.pool(batch)
                changed = model.losses("a", states, batch.labels)
                texts = model.predictions("a", states, batch.labels)
            increase = found.increase[MEAN_ABLATION][half::2, layer, head]
            np.testing.assert_allclose(increase, (changed - plain).numpy(), rtol=1e-3, atol=1e-4)
            assert np.array_equal(found.predictions[MEAN_ABLATION][half::2, layer, head], texts.numpy())


@torch.no_grad()
def test_what_stands_in_for_a_head_is_that_of_the_text_of_every_beam(marian):
    """Texts of several beams, together as alone."""
    model, examples = marian
    vectors = torch.randn(3, 1, 8, generator=torch.Generator().manual_seed(0))

    def written(rows: np.ndarray) -> list[str]:
        batch = examples.batch(rows)

        def run() -> torch.Tensor:
            return model.encoder.generate(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, num_beams=2, do_sample=False,
                max_new_tokens=6,
            )  # fmt: skip

        with ablating(model, next(iter(model.classes))) as passes:
            ids = passes.without(CROSS, 1, run, vectors[rows])
        return [model.tokenizer.decode(row, skip_special_tokens=True) for row in ids.tolist()]

    together = written(np.arange(3))
    assert together == [written(np.array([row]))[0] for row in range(3)]


@torch.no_grad()
def test_resampling_gives_targets_what_other_targets_have(marian):
    """Of a head of each kind; tokens of a shorter text repeat."""
    model, examples = marian
    rows = np.arange(N)
    found = resample_ablation(model, "a", examples, rows, CPU)
    for row in (1, 4):
        batch, other = alone(examples, row), alone(examples, np.roll(rows, N // 2)[row])
        plain = model.losses("a", model.pool(batch), batch.labels)
        contexts, own = contexts_of(model, other), contexts_of(model, batch)
        for layer, head in [(1, 1), (DECODER, 0), (CROSS, 3)]:
            length = len(own[layer])
            given = contexts[layer][np.arange(length) % len(contexts[layer]), head]
            with replaced(model.gates, layer, head, given):
                changed = model.losses("a", model.pool(batch), batch.labels)
            assert found[row, layer, head] == pytest.approx((changed - plain).item(), rel=1e-3, abs=1e-4)


def test_integrated_gradients_add_up_to_the_loss_without_heads(marian):
    model, examples = marian
    rows, batch = np.arange(N), examples.batch(np.arange(N))
    found = integrated_gradient(model, "a", examples, rows, CPU).sum(axis=(1, 2))
    with torch.no_grad():
        plain = model.losses("a", model.pool(batch), batch.labels)
        model.gates.values = torch.zeros(ROWS, HEADS)
        without = model.losses("a", model.pool(batch), batch.labels)
        model.gates.values = None
    np.testing.assert_allclose(found, (without - plain).numpy(), rtol=0.1, atol=0.1 * float(without.mean()))


def bank(n: int = 60) -> pd.DataFrame:
    """Sentences in which each word depends on the one before."""
    words = [TEXTS[i].split() for i in range(n)]
    columns = {
        "words": words, "head": [list(range(len(row))) for row in words],
        "relation": [["root"] + ["next"] * (len(row) - 1) for row in words],
    }  # fmt: skip
    return pd.DataFrame({"sentence": range(n), "name": [str(i) for i in range(n)], **columns})


@torch.no_grad()
def test_what_heads_attend_to_most_equals_a_loop(made):
    """In sources of a treebank, with words, and in target texts."""
    model, examples = made
    frame, counts = attended(model, model.tokenizer, bank(12), 12, SMALL, {"a": examples})
    assert counts == {"sentences": 12, "too_long": 0, "lost_words": 0}
    found = frame.set_index(["sentence", "layer", "head"])
    assert found.index.is_unique and len(frame) == (12 * DECODER + N * KINDS["decoder"]) * HEADS
    of_task = model.classes["a"]
    for sentence, row in ((12, 0), (12 + 4, 4)):
        batch = alone(examples, row)
        ids = decoding.begun(model.encoder, batch.labels.ids)[0].tolist()
        places = [i for i, token in enumerate(ids) if i and token not in of_task["before"] + of_task["after"]]
        weights = maps_of(model, batch)[DECODER + 1][2]
        mine = found.loc[(sentence, DECODER + 1, 2)]
        assert mine["tokens"].tolist() == [places[np.argmax(weights[i, places])] - i for i in places]
        assert mine["words"] is None
    for sentence in (3, 7):
        words = TEXTS[sentence].split()
        assert {len(of) for of in frame[frame["sentence"] == sentence]["words"]} == {len(words)}
        ids = model.tokenizer(TEXTS[sentence], return_special_tokens_mask=True)
        real = np.flatnonzero(np.array(ids["special_tokens_mask"]) == 0)
        maps: dict[int, np.ndarray] = {}
        with attention_maps(model.gates, lambda row, weights: maps.update({row: weights[0].numpy()})):  # noqa: B023
            model.encoder.get_encoder()(input_ids=torch.tensor([ids["input_ids"]]))
        mine = found.loc[(sentence, 1, 3)]
        assert mine["tokens"].tolist() == [real[np.argmax(maps[1][3][i, real])] - i for i in real]


def test_words_of_tokenizers_that_do_not_say_where_their_tokens_are(folders):
    """Pieces join to words; a word that has none leaves out its sentence."""
    model, _ = translator(folders / "marian", "marian", 2)
    tokenizer = model.tokenizer
    assert tokenizer is not None and not tokenizer.is_fast
    sentences = [*(text.split() for text in TEXTS[:20]), ["boatboat", "the"], ["the", "\u200b", "boat"]]
    tokens, left_out = encode_words(tokenizer, sentences, model.encoder.config.to_dict())
    assert left_out == {"too_long": 0, "lost_words": 1} and len(tokens.words) == 21
    several = 0
    for ids, words, sentence in zip(tokens.examples.ids, tokens.words, sentences[:21], strict=True):
        pieces = np.array(tokenizer.convert_ids_to_tokens(ids))
        joined = ["".join(pieces[words == i]).replace("\u2581", "") for i in range(len(sentence))]
        assert joined == sentence and (words == -1).sum() == 1
        several += (np.bincount(words[words >= 0]) > 1).sum()
    assert several


@pytest.mark.parametrize("name", ["described", "t5", "marian"])
def test_sentences_are_read_as_sources_are(folders, name):
    """With the prefixes of the tasks in turn, whose tokens belong to no word."""
    prefixes = ["translate English: ", "say it in French: "]
    if name == "described":  # two tokens of languages
        languages = ("de", "fr")
        tokenizer = vocabulary.tokenizer(vocabulary.pieces(TEXTS, 48, languages, "k"))
        told = [
            ENCODING.completed(tokenizer, classes("") | {"target_language": language}, 16, "tasks.a")
            for language in languages
        ]
        prefixes = [of_task["prefix"] for of_task in told]
    else:
        tokenizer = tokenization.tokenizer(Model(source=str(folders / name)), "m")
    config = {"model_type": "t5"}  # of any length
    sentences = [text.split() for text in TEXTS[:20]]
    tokens, left_out = encode_words(tokenizer, sentences, config, prefixes)
    plain, _ = encode_words(tokenizer, sentences, config)
    assert not any(left_out.values())
    for row, (ids, words) in enumerate(zip(tokens.examples.ids, tokens.words, strict=True)):
        assert list(ids) == tokenizer(prefixes[row % 2] + TEXTS[row])["input_ids"]
        assert list(words[words >= 0]) == list(plain.words[row][plain.words[row] >= 0])
        of_words, expected = (
            np.array(ids)[words >= 0],
            np.array(plain.examples.ids[row])[plain.words[row] >= 0],
        )
        assert list(of_words) == list(expected)
        assert len(words) > len(plain.words[row])


def test_a_translator_reads_a_treebank_with_its_prefix(folders):
    """Which changes what heads attend to, and leaves the words."""
    model, _ = translator(folders / "t5", "t5", 2)
    plain, _ = attended(model, model.tokenizer, bank(12), 12, CPU)
    model.classes["a"]["prefix"] = "translate English: "
    told, _ = attended(model, model.tokenizer, bank(12), 12, CPU)
    assert [*map(len, plain["words"])] == [*map(len, told["words"])]
    assert any(list(a) != list(b) for a, b in zip(plain["words"], told["words"], strict=True))


def test_roles_of_the_two_kinds_of_self_attention(folders, tmp_path):
    """Positional ones of both, planted in the maps of a real model; those of words of encoder heads alone."""
    model, examples = translator(folders / "marian", "marian", 60)
    frame, _ = attended(model, model.tokenizer, bank(), 100, CPU, {"a": examples})
    for layer, offset in ((1, 1), (DECODER + 1, -1)):
        planted = (frame["layer"] == layer) & (frame["head"] == 2)
        frame.loc[planted, "tokens"] = frame[planted]["tokens"].map(
            lambda of, offset=offset: (
                np.clip(np.arange(len(of)) + offset, 0, len(of) - 1) - np.arange(len(of))
            )
        )
    tables.write(tmp_path / "attended.parquet", ATTENDED, frame, {"attention": {"m": KINDS}})
    found = roles(tables.read(tmp_path / "attended.parquet"), bank())
    of_role = {role: rows for role, rows in found.groupby("role")}
    assert of_role[POSITIONAL]["layer"].nunique() == CROSS and not (found["layer"] >= CROSS).any()
    assert of_role[SYNTACTIC]["layer"].max() < DECODER and of_role[RARE]["layer"].max() < DECODER
    claimed = of_role[POSITIONAL][of_role[POSITIONAL]["claimed"]]
    assert claimed[["layer", "head", "offset"]].values.tolist() == [[1, 2, 1], [DECODER + 1, 2, -1]]
