"""Effects of heads from passes in which several are closed, in simulations and by closing each alone."""

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.heads.knockouts import joint
from support import language
from support.model_types import any_model
from support.models import TEXTS


def simulated(seed: int, layers: int = 8, heads: int = 12, n: int = 40):
    """Effects that add up, their estimates and errors, and those of as many single ablations."""
    rng = np.random.default_rng(seed)
    exists = np.ones((layers, heads), dtype=bool)
    effects = rng.normal(0.05, 0.2, exists.sum()) * (rng.random(exists.sum()) < 0.5)
    own = effects + rng.normal(0, 0.3, (n, len(effects)))  # of each example
    closed = joint.drawn(exists, len(effects), rng)[:, exists]

    def rises(closed):
        return closed @ own.T + rng.normal(size=(len(closed), n))

    found, errors = joint.fitted(closed, rises(closed))
    return effects, found.mean(axis=0), errors, rises(np.eye(len(effects))).mean(axis=1)


def test_errors_are_nominal_and_smaller_than_those_of_single_ablations_at_equal_cost():
    runs = [simulated(seed) for seed in range(30)]
    missed = [np.abs(found - effects) > 1.96 * errors for effects, found, errors, _ in runs]
    assert 0.03 < np.mean(missed) < 0.07
    off = [
        np.sqrt(np.mean([np.square(run[i] - run[0]) for run in runs])) for i in (1, 3)
    ]  # knockouts, single
    assert off[0] < 0.7 * off[1]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_every_round_closes_every_head_once_and_spreads_over_layers(share):
    exists = np.ones((6, 10), dtype=bool)
    exists[3, 4:] = exists[5] = False
    total = int(exists.sum())
    closed = joint.drawn(exists, 3 * round(total / round(share * total)), np.random.default_rng(0), share)
    assert (closed.sum(axis=0) == 3 * exists).all()
    sizes = closed.sum(axis=(1, 2))
    by_layer = closed.sum(axis=2)
    assert np.ptp(sizes) <= 1 and all(np.ptp(by_layer[:, layer]) <= 1 for layer in range(6))


def test_with_few_heads_each_is_closed_alone():
    """And effects of examples are those of closing it, up to the shrinkage."""
    model, given = any_model.model("roberta"), any_model.batches("roberta")
    exact = headspec.head_importance(model, given, score="ablation", per_example=True)
    found = headspec.head_importance(model, given, score="knockouts", per_example=True)
    assert (
        found.shape == exact.shape and np.corrcoef(found.mean(0).ravel(), exact.mean(0).ravel())[0, 1] > 0.9
    )
    table = headspec.joint_knockouts(model, given)
    assert list(table.columns) == ["layer", "head", "effect", "se", "low", "high"] and len(table) == 8
    np.testing.assert_allclose(table["effect"], found.mean(0).ravel(), rtol=1e-4, atol=1e-7)
    assert (table["se"] > 0).all() and (table["high"] - table["low"]).to_numpy() == pytest.approx(
        2 * 1.95996 * table["se"].to_numpy(), rel=1e-4
    )


def test_effects_on_generated_answers_are_falls_of_their_metric(tmp_path):
    path = language.make("llama", tmp_path / "m")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    given = {"tokenizer": tokenizer, "prompts": TEXTS[:6], "answers": [" one"] * 6}

    def closed(text, answer):
        """Longer texts are worse."""
        return -len(text)

    metric = headspec.Generated(closed, max_new_tokens=3)
    table = headspec.joint_knockouts(model, metric=metric, passes=24, share=0.3, **given)
    opposite = headspec.joint_knockouts(
        model,
        metric=headspec.Generated(lambda *_: -closed(*_), max_new_tokens=3),
        passes=24,
        share=0.3,
        **given,
    )
    np.testing.assert_allclose(table["effect"], -opposite["effect"], atol=1e-9)
    assert table["effect"].std() > 0 and table[["effect", "se"]].notna().all().all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": 5}, "share: got 5, expected a number between 0 and 1"),
        ({"passes": 3}, "passes: got 3, expected at least 8"),
        ({"loss": max, "metric": "accuracy"}, "loss: not used with a metric; expected one of them"),
    ],
)
def test_what_estimates_nothing_is_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        headspec.joint_knockouts(any_model.model("roberta"), any_model.batches("roberta"), **given)
