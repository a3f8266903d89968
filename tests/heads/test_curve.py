"""A metric without the most important, least important and random heads, and its intervals in simulations."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy import stats
from torch.nn.functional import cross_entropy

import headspec
from support.model_types import any_model


def batches(model, n: int, seed: int, size: int = 16) -> list[dict[str, torch.Tensor]]:
    """Random texts, whose labels are drawn from what the model predicts."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 60, (n, 7), generator=generator)
    with torch.no_grad():
        chances = model.eval()(input_ids=ids).logits.softmax(-1)
    labels = torch.multinomial(chances, 1, generator=generator)[:, 0]
    return [{"input_ids": ids[i : i + size], "labels": labels[i : i + size]} for i in range(0, n, size)]


def closed_losses(model, batches, heads):
    with torch.no_grad(), headspec.HeadGates(model).closed(heads):
        return torch.cat([
            cross_entropy(model(**batch).logits, batch["labels"], reduction="none") for batch in batches
        ]).numpy()  # fmt: skip


def row(curve, order: str, fraction: float):
    (found,) = curve[(curve["order"] == order) & (curve["fraction"] == fraction)].itertuples()
    return found


def test_every_second_example_ranks_and_the_others_evaluate():
    model = any_model.model("roberta").eval()
    data = batches(model, 21, 0, size=5)
    ids, labels = (torch.cat([batch[name] for batch in data]) for name in ("input_ids", "labels"))
    rank, evaluate = ([{"input_ids": ids[i::2], "labels": labels[i::2]}] for i in (0, 1))
    scores = headspec.head_importance(model, rank)
    curve = headspec.head_curve(model, data, fractions=[0.25, 0.5], draws=3)
    assert list(curve["order"]) == ["none", "top", "bottom", "random", "top", "bottom", "random"]
    assert curve.attrs == {"metric": "loss", "n": 10}
    for fraction, n in ((0.25, 2), (0.5, 4)):
        for order, sign in (("top", 1), ("bottom", -1)):
            expected = closed_losses(model, evaluate, headspec.top_heads(sign * scores, n))
            found = row(curve, order, fraction)
            assert found.heads == n and found.value == pytest.approx(expected.mean(), rel=1e-4)
            assert found.low < found.value < found.high
            assert found.difference == pytest.approx(found.value - row(curve, "random", fraction).value)
            assert found.difference_low < found.difference < found.difference_high
    given = headspec.head_curve(model, data, fractions=[0.25], draws=3, scores=scores)
    whole = closed_losses(model, [{"input_ids": ids, "labels": labels}], headspec.top_heads(scores, 2))
    assert row(given, "top", 0.25).value == pytest.approx(whole.mean(), rel=1e-4) and given.attrs["n"] == 21
    errors = whole.std() / np.sqrt(21)
    assert row(given, "top", 0.25).high - whole.mean() == pytest.approx(2 * errors, rel=0.3)
    again = headspec.head_curve(model, data, fractions=[0.25], draws=3, scores=scores)
    assert again.equals(given)


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("roberta", "accuracy"), ("roberta-scores", "pearson"), ("roberta-labels", "micro_f1")],
)
def test_metrics_by_name_are_of_labels_and_predictions(kind, metric):
    model, given = any_model.model(kind), any_model.batches(kind)
    curve = headspec.head_curve(
        model, given, metric=metric, fractions=[0.5], draws=2, scores=np.arange(8.0).reshape(2, 4)
    )
    with torch.no_grad():
        logits = torch.cat([model.eval()(**batch).logits for batch in given]).double().numpy()
    labels = torch.cat([batch["labels"] for batch in given]).double().numpy()
    expected = {
        "accuracy": lambda: (logits.argmax(1) == labels).mean(),
        "pearson": lambda: np.corrcoef(logits[:, 0], labels)[0, 1],
        "micro_f1": lambda: 2 * ((logits > 0) * labels).sum() / ((logits > 0).sum() + labels.sum()),
    }[metric]()
    assert curve["value"][0] == pytest.approx(expected)


def metric_of(values):
    """A metric whose values of examples, (sets, n), do not depend on the model; the n-th call is of set n."""
    rows = iter(values)
    return lambda outputs, batch: torch.from_numpy(next(rows))


@pytest.mark.parametrize("vary", ["orders", "examples"])
def test_intervals_are_over_random_sets_and_examples(vary):
    model, draws, n = any_model.model("roberta").eval(), 5, 400
    values, rng = np.ones((3 + draws, n)), np.random.default_rng(0)
    if vary == "orders":
        values *= rng.normal(size=(3 + draws, 1))
    else:
        values += rng.normal(size=n)
    scores = rng.random((2, 4))
    curve = headspec.head_curve(
        model, batches(model, n, 0, size=n), metric=metric_of(values), fractions=[0.25], draws=draws,
        scores=scores, confidence=0.9,
    )  # fmt: skip
    drawn, at = (
        values[3:].mean(axis=1),
        {order: row(curve, order, 0.25) for order in ("top", "bottom", "random")},
    )
    spread, error = drawn.std(ddof=1), values[0].std() / np.sqrt(n)
    if vary == "orders":
        reach = stats.t.ppf(0.95, draws - 1) * spread * np.array([0, draws**-0.5, (1 + 1 / draws) ** 0.5])
    else:
        reach = stats.norm.ppf(0.95) * error * np.array([1, 1, 0])
    near = {"rel": 0.05, "abs": 1e-9}  # of as many resamples
    for i, order in enumerate(("top", "bottom"), 1):
        assert at[order].value == pytest.approx(values[i].mean())
        assert at[order].high - at[order].value == pytest.approx(reach[0], **near)
        assert at[order].value - at[order].low == pytest.approx(reach[0], **near)
        assert at[order].difference == pytest.approx(values[i].mean() - drawn.mean())
        assert at[order].difference_high - at[order].difference == pytest.approx(reach[2], **near)
        assert at[order].difference - at[order].difference_low == pytest.approx(reach[2], **near)
    assert at["random"].value == pytest.approx(drawn.mean())
    assert at["random"].high - drawn.mean() == pytest.approx(reach[1], **near)
    assert drawn.mean() - at["random"].low == pytest.approx(reach[1], **near)


def test_a_metric_may_be_a_function():
    model, given = any_model.model("pythia"), any_model.batches("pythia")

    def confidence(outputs, batch):
        return outputs.logits[:, -1].softmax(-1).amax(-1)

    curve = headspec.head_curve(
        model, given, metric=confidence, fractions=[0.5], draws=2, scores=np.arange(8.0).reshape(2, 4)
    )
    assert curve.attrs["metric"] == "confidence" and curve["value"].between(0, 1).all()
    given = {"model": model, "batches": given, "scores": np.ones((2, 4)), "fractions": [0.5]}
    with pytest.raises(ValueError, match=r"^metric: returned \(\), expected \(2,\), a value for each"):
        headspec.head_curve(**given, metric=lambda outputs, _: outputs.logits.sum())
    with pytest.raises(ValueError, match="^metric: got a name for logits .* expected a function of outputs"):
        headspec.head_curve(**given, metric="accuracy")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"draws": 1}, "draws: got 1, expected at least 2"),
        ({"fractions": [0.1]}, "fractions: got 0.1, expected one below 1 and at least one of 8 heads"),
        ({"fractions": [1.0]}, "fractions: got 1, expected one below 1"),
        ({"scores": np.ones((3, 4))}, r"scores: got \(3, 4\), expected \(2, 4\)"),
        ({}, "batches: got 3 examples, expected at least 4"),
    ],
    ids=str,
)
def test_what_makes_no_curve_is_refused(given, message):
    given = {"scores": np.ones((2, 4))} | given if given else given
    with pytest.raises(ValueError, match=f"^{message}"):
        headspec.head_curve(any_model.model("roberta"), any_model.batches("roberta"), **given)


def test_the_curve_is_drawn_with_its_intervals():
    model, given = any_model.model("roberta"), any_model.batches("roberta")
    curve = headspec.head_curve(
        model, given, metric="accuracy", fractions=[0.25, 0.5], draws=2, scores=np.arange(8.0).reshape(2, 4)
    )
    axes = headspec.plot_curve(curve, Figure().subplots())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("heads closed", "accuracy")
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(
        lines["most important heads"].get_ydata(), curve[curve["order"].isin(["none", "top"])]["value"]
    )
    assert len(axes.collections) == 3


@pytest.mark.thorough
def test_heads_ranked_by_chance_do_not_differ_from_random_ones():
    """Intervals of 95 % over new examples, new rankings and new random sets."""
    model = any_model.model("roberta", num_hidden_layers=4).eval()
    with torch.no_grad():
        population = batches(model, 20000, 1, size=2000)
        truth = closed_losses(model, population, [])
        truth = truth.mean()
    rng, covered, whole = np.random.default_rng(0), [], []
    for number in range(150):
        scores = rng.normal(size=headspec.HeadGates(model).exists.shape)
        curve = headspec.head_curve(
            model, batches(model, 60, 1000 + number, size=60), scores=scores, fractions=[0.125, 0.4],
            draws=10, seed=number,
        )  # fmt: skip
        pairs = curve[curve["order"].isin(["top", "bottom"])]
        covered.append((pairs["difference_low"] < 0) & (pairs["difference_high"] > 0))
        whole.append(curve["low"][0] < truth < curve["high"][0])
    rates = np.mean(covered, axis=0)
    assert (rates >= 0.92).all() and rates.mean() < 0.995
    assert 0.89 <= np.mean(whole) <= 0.99
