"""Heads that retrieve and heads that carry a task, against loops over prompts and heads."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.heads.behaviours import function_vectors, retrieval
from headspec.heads.behaviours.probe import Probe, composed
from headspec.models.attention.past import fresh
from support import language
from support.model_types import any_model
from support.models import WORDS
from support.tiny import HEADS, LAYERS

TASKS = {
    "next": [*zip(WORDS[:8], WORDS[1:9], strict=True)],
    "before": [*zip(WORDS[1:9], WORDS[:8], strict=True)],
}
N, TOKENS = 3, 10


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = language.make("llama", tmp_path_factory.mktemp("made") / "m")
    model = AutoModelForCausalLM.from_pretrained(path, max_position_embeddings=512)
    return model.eval(), AutoTokenizer.from_pretrained(path)


def probe(model, tokenizer) -> Probe:
    asked = {task: [(f"Q: {q}\nA:", f" {a}") for q, a in pairs] for task, pairs in TASKS.items()}
    return Probe(headspec.HeadGates(model), tokenizer, None, N, TOKENS, 0, asked)


def test_numbers_are_where_they_are_said_to_be(made):
    rng = np.random.default_rng(0)
    for first in (True, False):
        hidden = retrieval._hidden(probe(*made), rng, first)
        ids = np.array(hidden.ids)
        assert (ids[hidden.needle] == ids[-len(hidden.needle) :]).all() and (
            hidden.needle < hidden.other
        ) == first
        assert (ids[hidden.other] != ids[hidden.needle]).any() and len(hidden.other) == len(hidden.needle)
        assert ids[0] == made[1].bos_token_id and len(ids) > 4 * TOKENS


def test_retrieval_counts_copied_tokens_with_the_largest_weight_on_them(made, monkeypatch):
    """Of a model that predicts every third token right, in short texts, so that random heads find some."""
    model, tokenizer = made

    def short(probe, rng, asked_first):
        ids = rng.integers(3, 60, 16)
        places = np.arange(4) + 1, np.arange(4) + 6
        needle, other = places if asked_first else places[::-1]
        return retrieval.Hidden([*ids.tolist(), *ids[needle].tolist()], needle.tolist(), other.tolist())

    monkeypatch.setattr(retrieval, "_hidden", short)

    def copies(module, args, kwargs, outputs):
        ids = kwargs["input_ids"]
        right = torch.arange(ids.shape[1] - 1)[::3]
        outputs.logits[:, right] = outputs.logits[:, right].scatter(2, ids[:, right + 1, None], 1e6)

    rng = np.random.default_rng(headspec.seeds.derive(0, "retrieval"))
    expected = np.zeros((2, 9, LAYERS, HEADS))
    for i in range(9):
        hidden = retrieval._hidden(probe(model, tokenizer), rng, i % 2 == 0)
        n, size = len(hidden.needle), len(hidden.ids)
        maps = headspec.attention_maps(model, {"input_ids": torch.tensor([hidden.ids])})
        for (layer, head), weights in maps.items():
            for j, place in enumerate(range(size - n - 1, size - 1)):
                if place % 3 == 0:
                    largest = weights[0, place].argmax()
                    expected[0, i, layer, head] += (largest == hidden.needle[j]) / n
                    expected[1, i, layer, head] += (largest == hidden.other[j]) / n
    hook = model.register_forward_hook(copies, with_kwargs=True)
    try:
        table = headspec.head_behaviours(model, tokenizer, ["retrieval"], sequences=9)
    finally:
        hook.remove()
    assert expected[0].max() > 0 < expected[1].max()
    np.testing.assert_allclose(table["score"], expected[0].mean(0).ravel(), atol=1e-6)
    np.testing.assert_allclose(table["control"], expected[1].mean(0).ravel(), atol=1e-6)


def test_function_vectors_are_rises_with_means_in_place_of_a_head(made):
    """By hooks at W_O, one prompt after another."""
    model, tokenizer = made
    table = headspec.head_behaviours(model, tokenizer, ["function_vector"], sequences=N, tasks=TASKS)
    projections = [module for name, module in model.named_modules() if name.endswith("o_proj")]
    size = projections[0].in_features // HEADS

    def run(batch, row, edit):
        """The probability of the first token of an answer; `edit` changes what W_O is given."""
        ids, end = batch.inputs["input_ids"][row], int(batch.ends[row]) + 1
        hooks = [each.register_forward_pre_hook(lambda _, args, i=i: (edit(i, args[0].clone()),))
                 for i, each in enumerate(projections)]  # fmt: skip
        with torch.no_grad():
            likely = model(input_ids=ids[None, :end]).logits[0, -1].softmax(-1)[batch.answers[row]]
        for hook in hooks:
            hook.remove()
        return float(likely)

    def vectors(batches):
        seen = []
        for batch in batches:
            for row in range(len(batch.ends)):
                own = {}
                run(batch, row, lambda i, x, own=own: own.setdefault(i, x.detach())[:, :] * 1)
                seen.append(torch.stack([own[i][0, -1] for i in range(LAYERS)]))
        return torch.stack(seen).unflatten(0, (N, function_vectors.AVERAGED)).mean(1)

    found = []
    for task, pairs in probe(*made).tasks.items():
        batches = {
            kind: [*function_vectors._prompts(
                probe(model, tokenizer), pairs, np.random.default_rng(headspec.seeds.derive(0, task, kind)),
                kind != "right", n,
            )]
            for kind, n in (
                ("right", function_vectors.AVERAGED), ("others", function_vectors.AVERAGED), ("asked", 1)
            )
        }  # fmt: skip
        means = [vectors(batches[kind]) for kind in ("right", "others")]
        for batch in batches["asked"]:
            for row in range(len(batch.ends)):  # all prompts of a task are in one batch
                before = run(batch, row, lambda i, x: x)
                rises = np.zeros((2, LAYERS, HEADS))
                for which, mean in enumerate(means):
                    for layer, head in np.ndindex(LAYERS, HEADS):

                        def edit(i, x, mean=mean, row=row, layer=layer, head=head):
                            part = slice(head * size, (head + 1) * size)
                            if i == layer:
                                x[0, -1, part] = mean[row, layer, part]
                            return x

                        rises[which, layer, head] = run(batch, row, edit) - before
                found.append(rises)
    expected = np.array(found)  # (prompts, 2, layers, heads)
    assert len(expected) == N * len(TASKS) and np.abs(expected).max() > 1e-4
    for name, which in (("score", 0), ("control", 1)):
        np.testing.assert_allclose(table[name], expected[:, which].mean(0).ravel(), rtol=2e-2, atol=1e-6)
    se = (expected[:, 0] - expected[:, 1]).std(0, ddof=1) / np.sqrt(len(expected))
    np.testing.assert_allclose(table["se"], se.ravel(), rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("shuffled", [False, True])
def test_prompts_show_examples_and_ask_for_another(made, shuffled):
    calls = []
    one = replace(probe(*made), compose=lambda *given: calls.append(given) or composed(*given))
    pairs = dict(one.tasks["next"])
    [*function_vectors._prompts(one, [*pairs.items()], np.random.default_rng(0), shuffled, 4)]
    assert len(calls) == 4 * N
    for shown, asked in calls:
        texts, answers = zip(*shown, strict=True)
        assert {*texts, asked} == {*pairs} and sorted(answers) == sorted(pairs[text] for text in texts)
    right = [pairs[text] == answer for shown, _ in calls for text, answer in shown]
    assert np.mean(right) < 0.5 if shuffled else all(right)


@pytest.mark.thorough
def test_heads_that_carry_nothing_are_above_as_seldom_as_said(made):
    """Of random models, which make nothing of examples, with a single task."""
    model, tokenizer = made
    found, models = [], 60
    for seed in range(models):
        rng = np.random.default_rng(seed)
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            drawn = AutoModelForCausalLM.from_config(model.config).eval()
            for parameter in drawn.parameters():
                parameter.mul_(4) if parameter.dim() == 2 else None
        tasks = {"random": [*zip(rng.permutation(WORDS)[:10], rng.permutation(WORDS)[:10], strict=True)]}
        table = headspec.head_behaviours(
            drawn, tokenizer, ["function_vector"], tasks=tasks, confidence=0.8, seed=seed
        )
        found.append(table["above"].any())
    assert np.mean(found) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / models)


@pytest.mark.parametrize(
    "kind", ["pythia", "gemma2", "opt", "bloom", "falcon-alibi", "deepseek-v3", "ragged"]
)
def test_passes_take_last_tokens_alone(kind):
    """Of prompts of different lengths, after which the model predicts the same."""
    model = any_model.model(kind).eval()
    ids = torch.from_numpy(np.random.default_rng(0).integers(3, 60, (3, 9)))
    lengths = torch.tensor([9, 5, 7])
    mask = (torch.arange(9) < lengths[:, None]).long()
    whole = function_vectors.Prompts(
        {"input_ids": ids * mask, "attention_mask": mask}, lengths - 1, torch.tensor([3, 4, 5])
    )
    last = whole.last_tokens(model)
    assert last.inputs["input_ids"].tolist() == ids.gather(1, lengths[:, None] - 1).tolist()
    for i, n in enumerate(lengths):
        alone = model(ids[i : i + 1, :n]).logits[0, -1].softmax(-1)[3 + i]
        found = last.probability(model(**fresh(last.inputs)))[i]
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-7)


def test_models_that_do_not_ignore_padding_read_whole_prompts(made, monkeypatch):
    model, _ = made
    ids = torch.arange(3, 15).view(2, 6)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    whole = function_vectors.Prompts(
        {"input_ids": ids, "attention_mask": mask}, torch.tensor([5, 3]), torch.tensor([3, 4])
    )
    assert whole.last_tokens(model) is not whole
    monkeypatch.setattr(model.model, "forward", functools.partial(unmasked, model.model.forward))
    assert whole.last_tokens(model) is whole


def unmasked(forward, *args, attention_mask, **kwargs):
    return forward(*args, attention_mask=None, **kwargs)


def test_what_texts_need_is_told(made):
    model, tokenizer = made
    long = {"tokenizer": tokenizer, "tokens": 10**5}
    few = {"tokenizer": tokenizer, "tasks": {"few": TASKS["next"][:5]}}
    for behaviour, given, message in (
        ("retrieval", {}, "tokenizer: missing; the behaviour 'retrieval' reads texts"),
        ("retrieval", long, "tokens: got 100000, with which 'retrieval' reads"),
        ("function_vector", {"tokenizer": tokenizer}, "tasks: missing; the behaviour 'function_vector'"),
        ("name_mover", {"tokenizer": tokenizer, "prompts": [("a b", "a", "b")]}, "prompts: got 1"),
        (
            "name_mover",
            {"tokenizer": tokenizer, "prompts": [("a b", "a", "c")] * 2},
            "prompts: 'c' is not in",
        ),
        ("function_vector", few, "tasks: 'few' has 5 different pairs, expected at least 6"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            headspec.head_behaviours(model, behaviours=[behaviour], **given)
