"""Batches that do not fit in memory: a layer fails, as torch does, for more than some examples."""

import itertools
from contextlib import ExitStack, contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.errors import ModelError
from headspec.heads.any_model.halving import Halving
from headspec.heads.any_model.losses import own_loss
from headspec.heads.any_model.scored import Scored
from headspec.heads.any_model.scores import SCORES
from support import language
from support.model_types import any_model
from support.models import WORDS
from support.tiers import cases

FITS = 2


@contextmanager
def small_memory(model, fits=FITS, errors=(MemoryError, torch.OutOfMemoryError)):
    """Let the model's last attention run out of memory; yields the sizes of batches that it sees.

    Attempts end with each of the `errors` in turn: numpy has another than torch.
    """
    seen, failing = [], itertools.cycle(errors)

    def limited(module, args, kwargs):
        states = args[0] if args else kwargs["hidden_states"]
        seen.append(len(states))
        if len(states) > fits:
            raise next(failing)("CUDA out of memory")

    attention = headspec.HeadGates(model).sites[-1].attention
    handle = attention.register_forward_pre_hook(limited, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


def batches(kind, sizes=(7, 5)):
    generator, made = torch.Generator().manual_seed(0), []
    for n in sizes:
        ids = torch.randint(5, 90, (n, 6), generator=generator)
        mask = torch.ones_like(ids)
        mask[::2, 4:] = 0
        labels = ids.masked_fill(mask == 0, -100) if kind == "olmo2" else torch.arange(n) % 3
        made.append({"input_ids": ids, "attention_mask": mask, "labels": labels})
    return made


KINDS = "olmo2", "roberta"
NAMES = [name for name in SCORES if SCORES[name].values]


@pytest.mark.parametrize(
    ("kind", "score"),
    cases([(kind, score) for kind in KINDS for score in NAMES],
          [("roberta", "gradient"), ("olmo2", "mean_ablation")].__contains__),
)  # fmt: skip
def test_scores_are_those_of_whole_batches(kind, score):
    model, given = any_model.model(kind), batches(kind)
    more = {}
    if SCORES[score].donors == "corrupted":
        more["corrupted"] = [batch | {"input_ids": batch["input_ids"].flip(0)} for batch in given]
    expected = headspec.head_importance(model, given, score=score, per_example=True, **more)
    with small_memory(model) as seen:
        found = headspec.head_importance(model, given, score=score, per_example=True, **more)
    assert max(seen) > FITS, "the layer has not failed"
    resolution = 1e-6  # of float32 losses, whose differences these are
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=resolution)


@pytest.mark.parametrize(
    ("kind", "ablation"),
    cases([(kind, ablation) for kind in KINDS for ablation in ("zero", "mean", "resample")],
          [("roberta", "zero"), ("olmo2", "resample")].__contains__),
)  # fmt: skip
def test_curves_are_those_of_whole_batches(kind, ablation):
    model, given = any_model.model(kind), batches(kind)
    settings = {"fractions": [0.3], "draws": 5, "ablation": ablation}
    expected = headspec.head_curve(model, given, **settings)
    with small_memory(model) as seen:
        found = headspec.head_curve(model, given, **settings)
    assert max(seen) > FITS
    pd.testing.assert_frame_equal(found, expected, rtol=1e-3, atol=1e-5)


def test_other_functions_give_the_same():
    model, given = any_model.model("olmo2"), batches("olmo2")
    functions = [
        lambda: headspec.joint_knockouts(model, given)["effect"].to_numpy(),
        lambda: headspec.recovery(model, given, heads={0: [0, 1], 1: [2]}, draws=5)["value"].to_numpy(),
        lambda: np.stack([*headspec.attention_maps(model, given[0], {1: [0, 2]}).values()]),
    ]
    for function in functions:
        expected = function()
        with small_memory(model) as seen:
            found = function()
        assert max(seen) > FITS and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_behaviours_are_those_of_whole_batches(tmp_path):
    path = language.make("llama", tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(path, max_position_embeddings=512).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    tasks = {"next": [*zip(WORDS[:8], WORDS[1:9], strict=True)]}
    names = ["induction", "previous_token", "function_vector"]
    for behaviours in (names[:2], names[2:]):
        settings = {"sequences": 5, "tokens": 10, "tasks": tasks}
        expected = headspec.head_behaviours(model, tokenizer, behaviours, **settings)
        with small_memory(model) as seen:
            found = headspec.head_behaviours(model, tokenizer, behaviours, **settings)
        assert max(seen) > FITS
        pd.testing.assert_frame_equal(found, expected, rtol=1e-3, atol=1e-6)


ERRORS = pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])


@ERRORS
def test_the_loss_of_a_model_is_found_where_few_examples_fit(error):
    model, (batch, _) = any_model.model("roberta").eval(), batches("roberta")
    expected = own_loss(model, batch)
    with small_memory(model, errors=[error]) as seen:
        assert own_loss(model, batch).args == expected.args
    assert max(seen) > FITS


@ERRORS
def test_examples_that_start_again_stay_in_their_halves(error):
    """An odd number of them, so that another count of those before would swap the halves."""
    model, (batch, other) = any_model.model("roberta"), batches("roberta")
    scored = Scored(headspec.HeadGates(model), lambda *_: None, False, ExitStack())

    def halves(scored):
        if scored.n > FITS:
            raise error("CUDA out of memory")
        return torch.from_numpy(scored.half)

    found = torch.cat([*scored.values(halves, batch), *scored.values(halves, other)])
    assert found.tolist() == [0, 1] * 6


@ERRORS
def test_lost_derivatives_are_refused_after_a_pass_that_did_not_fit(error):
    model, given = any_model.model("roberta"), batches("roberta")
    layer = headspec.HeadGates(model).sites[-1].output

    def rounded(_, args):
        return ((args[0] * 100).round().to(torch.int8).float() / 100,)

    layer.register_forward_pre_hook(rounded)
    with small_memory(model, errors=[error]) as seen, pytest.raises(ModelError, match="no derivative by all"):
        headspec.head_importance(model, given, loss=lambda outputs, _: outputs.logits.sum(1))
    assert max(seen) > FITS


def test_later_batches_begin_with_the_size_that_fits():
    halving, sizes = Halving(torch.nn.Linear(1, 1)), []

    def compute(part):
        sizes.append(part.stop - part.start)
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return part.start, part.stop

    assert [*halving.over(8, compute)] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [*halving.over(3, compute)] == [(0, 2), (2, 3)]
    assert sizes == [8, 4, 2, 2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("error", "n", "processes"),
    [
        (torch.OutOfMemoryError("of one example"), 1, 1),
        (torch.OutOfMemoryError("of a process that others wait for"), 4, 2),
        (RuntimeError("another"), 4, 1),
    ],
    ids=["one example", "divided", "another"],
)
def test_what_halves_do_not_help_is_raised(error, n, processes):
    model = torch.nn.Linear(1, 1)
    model.tp_size = processes

    tried = []

    def compute(part):
        tried.append(part.stop)
        raise error

    with pytest.raises(type(error), match=str(error)):
        next(Halving(model).over(n, compute))
    assert tried == [n]
