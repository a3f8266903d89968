"""A metric without the most important, least important and random heads, and its intervals in simulations."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import stats
from torch.nn.functional import cross_entropy

import headspec
from headspec.heads.any_model.curves import intervals
from headspec.heads.any_model.curves.halves import halves
from headspec.seeds import derive
from support.model_types import any_model
from support.reference import curve_rates


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


def test_one_half_ranks_and_the_other_evaluates():
    model = any_model.model("roberta").eval()
    data = batches(model, 21, 0, size=5)
    curve = headspec.head_curve(model, data, fractions=[0.25, 0.5], draws=5, seed=3)
    rank, evaluate = halves(data, "input_ids", np.random.default_rng(derive(3, "halves")))
    n = sum(len(batch["labels"]) for batch in evaluate)
    scores = headspec.head_importance(model, rank)
    assert list(curve["order"]) == ["none", *2 * ["top", "bottom", "random"], "all"]
    assert curve.attrs == {"metric": "loss", "n": n} and n in (10, 11)
    for fraction, heads in ((0.25, 2), (0.5, 4)):
        for order, sign in (("top", 1), ("bottom", -1)):
            expected = closed_losses(model, evaluate, headspec.top_heads(sign * scores, heads))
            found = row(curve, order, fraction)
            assert found.heads == heads and found.value == pytest.approx(expected.mean(), rel=1e-4)
            assert found.low < found.value < found.high
            assert found.difference == pytest.approx(found.value - row(curve, "random", fraction).value)
            assert found.difference_low < found.difference < found.difference_high
    given = headspec.head_curve(model, data, fractions=[0.25], draws=5, scores=scores)
    whole = closed_losses(model, data, headspec.top_heads(scores, 2))
    assert row(given, "top", 0.25).value == pytest.approx(whole.mean(), rel=1e-4) and given.attrs["n"] == 21
    expected = intervals.of_mean(whole[None], 0.95)
    assert (row(given, "top", 0.25).low, row(given, "top", 0.25).high) == pytest.approx(expected, rel=1e-3)
    again = headspec.head_curve(model, data, fractions=[0.25], draws=5, scores=scores)
    assert again.equals(given)


def test_top_heads_are_compared_with_random_heads_of_the_same_layers():
    """The values of other rows are the same with and without these."""
    model = any_model.model("roberta").eval()
    data, scores = batches(model, 21, 0), np.arange(8.0).reshape(2, 4)
    given = {"scores": scores, "fractions": [0.25, 0.5, 0.75], "draws": 5}
    curve = headspec.head_curve(model, data, **given, same_layers=True)
    plain = headspec.head_curve(model, data, **given)
    assert curve[curve["order"] != "same_layers"][plain.columns].reset_index(drop=True).equals(plain)
    for fraction, n in ((0.25, 2), (0.5, 4), (0.75, 6)):
        top, same = (row(curve, order, fraction) for order in ("top", "same_layers"))
        assert same.heads == n and top.difference_layers == pytest.approx(top.value - same.value)
        assert top.difference_layers_low <= top.difference_layers <= top.difference_layers_high
    # of all four heads of the last layer there is one set; of two more of the first, each of six
    assert row(curve, "same_layers", 0.5).value == pytest.approx(row(curve, "top", 0.5).value)
    every = [closed_losses(model, data, {1: [0, 1, 2, 3], 0: [*pair]}).mean()
             for pair in itertools.combinations(range(4), 2)]  # fmt: skip
    assert min(every) - 1e-6 <= row(curve, "same_layers", 0.75).value <= max(every) + 1e-6
    assert curve.loc[curve["order"] != "top", "difference_layers"].isna().all()
    axes = headspec.plot_curve(curve)
    assert "random heads, same layers" in [text.get_text() for text in axes.get_legend().get_texts()]


@given(
    classes=st.lists(st.integers(0, 3), min_size=4, max_size=40),
    order=st.sampled_from(["as drawn", "sorted", "in turns"]),
    size=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_halves_have_as_many_of_each_class_whatever_the_order(classes, order, size, seed):
    if order == "in turns":
        classes = [i % 2 for i in range(len(classes))]
    labels = torch.tensor(sorted(classes) if order == "sorted" else classes)
    ids = torch.arange(len(labels))[:, None] * torch.ones(1, 3, dtype=torch.long)
    data = [
        {"input_ids": ids[i : i + size], "labels": labels[i : i + size]} for i in range(0, len(labels), size)
    ]
    parts = halves(data, "input_ids", np.random.default_rng(seed))
    first, second = (torch.cat([batch["labels"] for batch in part]).bincount(minlength=4) for part in parts)
    assert (first + second).equal(labels.bincount(minlength=4))
    assert (first - second).abs().max() <= 1 and abs(int(first.sum() - second.sum())) <= 1
    examples = torch.cat([batch["input_ids"][:, 0] for part in parts for batch in part])
    assert sorted(examples.tolist()) == [*range(len(labels))]


@pytest.mark.parametrize("padding", [0, 4])
def test_repeated_examples_stay_in_one_half(padding, caplog):
    """Also where they are padded differently; labels may differ."""
    ids, mask = torch.arange(6)[:, None] + torch.tensor([[3, 9]]), torch.ones(6, 2, dtype=torch.long)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    once = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    pad = {
        name: torch.nn.functional.pad(once[name], (0, padding)) for name in ("input_ids", "attention_mask")
    }
    again = {**pad, "labels": 1 - labels}
    parts = halves([once, again, again], "input_ids", np.random.default_rng(0))
    first, second = ({int(i) for batch in part for i in batch["input_ids"][:, 0]} for part in parts)
    assert len(first) == len(second) == 3 and not first & second
    assert "12 of 18 examples are duplicates" in caplog.text
    few = [{name: value[:3] for name, value in each.items()} for each in (once, again)]
    with pytest.raises(
        ValueError, match="^batches: got 6 examples, 3 of them different; expected at least 4"
    ):
        halves(few, "input_ids", np.random.default_rng(0))


@pytest.mark.parametrize(("labels", "lacks"), [([0, 0, 0, 2, 0], True), ([0, 1, 0, 1, 1], False)], ids=str)
def test_a_class_that_a_half_lacks_is_told(labels, lacks, caplog):
    data = [{"input_ids": torch.arange(10).view(5, 2), "labels": torch.tensor(labels)}]
    halves(data, "input_ids", np.random.default_rng(0))
    assert ("has none of the 1 of class 2" in caplog.text) == lacks == bool(caplog.records)


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("roberta", "accuracy"), ("roberta-scores", "pearson"), ("roberta-labels", "micro_f1")],
)
def test_metrics_by_name_are_of_labels_and_predictions(kind, metric):
    model, given = any_model.model(kind), any_model.batches(kind)
    curve = headspec.head_curve(
        model, given, metric=metric, fractions=[0.5], draws=5, scores=np.arange(8.0).reshape(2, 4)
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
    model, draws, n = any_model.model("roberta").eval(), 5, 40
    values, rng = np.ones((4 + draws, n)), np.random.default_rng(0)
    if vary == "orders":
        values *= rng.normal(size=(4 + draws, 1))
    else:
        values += stats.norm.ppf((np.arange(n) + 0.5) / n)  # not skewed
    scores = rng.random((2, 4))
    curve = headspec.head_curve(
        model, batches(model, n, 0, size=n), metric=metric_of(values), fractions=[0.25], draws=draws,
        scores=scores, confidence=0.9,
    )  # fmt: skip
    drawn = values[3:-1].mean(axis=1)
    at = {order: row(curve, order, 0.25) for order in ("top", "bottom", "random")}
    if vary == "orders":
        spread = stats.t.ppf(0.95, draws - 1) * drawn.std(ddof=1)
        reach = spread * np.array([0, draws**-0.5, (1 + 1 / draws) ** 0.5])
    else:
        reach = stats.t.ppf(0.95, n - 1) * stats.sem(values[0]) * np.array([1, 1, 0])
    near = {"rel": 1e-6, "abs": 1e-9}
    for i, order in enumerate(("top", "bottom"), 1):
        assert at[order].value == pytest.approx(values[i].mean())
        assert at[order].difference == pytest.approx(values[i].mean() - drawn.mean())
        for low, middle, high, size in (
            (at[order].low, at[order].value, at[order].high, reach[0]),
            (at[order].difference_low, at[order].difference, at[order].difference_high, reach[2]),
        ):
            assert (high - middle, middle - low) == (pytest.approx(size, **near),) * 2
    assert at["random"].value == pytest.approx(drawn.mean())
    assert at["random"].high - drawn.mean() == pytest.approx(reach[1], **near)
    assert drawn.mean() - at["random"].low == pytest.approx(reach[1], **near)


@given(n=st.integers(2, 80), draws=st.integers(1, 8), share=st.floats(0, 1), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_shares_have_intervals_of_clopper_and_pearson_inside_their_bounds(n, draws, share, seed):
    rng = np.random.default_rng(seed)
    values = (rng.random((draws, n)) < share).astype(float)
    for each in values:
        exact = stats.binomtest(int(each.sum()), n).proportion_ci(0.95)
        assert intervals.of_mean(each[None], 0.95, (0, 1)) == pytest.approx((exact.low, exact.high))
    low, high = intervals.of_mean(values, 0.95, (0, 1))
    assert 0 <= low <= values.mean() <= high <= 1 and high - low > 0.5 / n
    moved = intervals.of_mean(2 * values - 1, 0.95, (-1, 1))
    assert moved == pytest.approx((2 * low - 1, 2 * high - 1))


@pytest.mark.parametrize(
    ("kind", "metric", "lowest"),
    [("roberta", "accuracy", 0), ("roberta", "matthews", -1), ("roberta-scores", "spearman", -1),
     ("roberta-labels", "macro_f1", 0), ("roberta", lambda out, batch: torch.ones(len(batch["labels"])), 0)],
)  # fmt: skip
def test_what_is_right_without_exception_is_not_certain(kind, metric, lowest):
    """Nor is it certain that no other example would tell sets of heads apart."""
    model = any_model.model(kind).eval()
    ids = torch.randint(3, 60, (30, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    right = {
        "roberta": logits.argmax(1),
        "roberta-scores": logits[:, 0],
        "roberta-labels": (logits > 0) * 1.0,
    }
    data = [{"input_ids": ids, "labels": right[kind]}]
    scores = np.arange(8.0).reshape(2, 4)
    curve = headspec.head_curve(model, data, metric=metric, fractions=[0.5], draws=5, scores=scores)
    whole = curve.iloc[0]
    exact = stats.binomtest(30, 30).proportion_ci(0.95).low
    assert whole.value == pytest.approx(1) and whole.high == pytest.approx(1)
    assert whole.low == pytest.approx(lowest + (1 - lowest) * exact)
    assert ((curve["low"] >= lowest) & (curve["high"] <= 1 + 1e-9) & (curve["low"] < curve["high"])).all()
    differences = curve[curve["order"].isin(["top", "bottom"])]
    assert (differences["difference_high"] - differences["difference_low"] > 0.1).all()


def test_a_metric_may_be_a_function():
    model, given = any_model.model("pythia"), any_model.batches("pythia")

    def confidence(outputs, batch):
        return outputs.logits[:, -1].softmax(-1).amax(-1)

    curve = headspec.head_curve(
        model, given, metric=confidence, fractions=[0.5], draws=5, scores=np.arange(8.0).reshape(2, 4)
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
        ({"draws": 4}, "draws: got 4, expected at least 5"),
        ({"confidence": 95}, "confidence: got 95, expected a number between 0 and 1"),
        ({"fractions": [0.1]}, "fractions: got 0.1, expected less than 1, and at least one of 8 heads"),
        ({"fractions": [1.0]}, "fractions: got 1, expected less than 1"),
        ({"scores": np.ones((3, 4))}, r"scores: got \(3, 4\), expected \(2, 4\)"),
        ({}, "batches: got 3 examples; expected at least 4"),
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
        model, given, metric="accuracy", fractions=[0.25, 0.5], draws=5, scores=np.arange(8.0).reshape(2, 4)
    )
    axes = headspec.plot_curve(curve, Figure().subplots())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("heads closed", "accuracy of 3 examples")
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(
        lines["most important heads"].get_ydata(), curve[curve["order"].isin(["none", "top"])]["value"]
    )
    assert len(axes.collections) == 3


def test_intervals_of_skewed_losses_reach_further_up():
    values = np.exp(2 * stats.norm.ppf((np.arange(20) + 0.5) / 20))
    low, high = intervals.of_mean(values[None], 0.95)
    plain = stats.t.ppf(0.975, 19) * stats.sem(values)
    assert high - values.mean() > 1.5 * plain > 1.5 * (values.mean() - low) > 0
    mirrored = intervals.of_mean(-values[None], 0.95)
    assert mirrored == pytest.approx((-high, -low))


@pytest.mark.thorough
def test_intervals_miss_as_often_as_the_page_says():
    """Of 95 %; of losses with few large values more often."""
    for measure, most in (("accuracy", (0.05, 0.05, 0.05, 0.05)), ("loss", (0.09, 0.09, 0.06, 0.05))):
        for n in (20, 60):
            rates = [
                curve_rates.missed(measure, n, 20, *each, 300) for each in ((0, 0.3), (1, 0.3), (2, 0.3))
            ]
            assert (np.mean(rates, axis=0) <= np.array(most) + 0.02).all()


@pytest.mark.thorough
def test_heads_ranked_by_chance_do_not_differ_from_random_ones():
    """Intervals of 95 % over new examples, new rankings and new random sets, by the function itself."""
    model = any_model.model("roberta", num_hidden_layers=4).eval()
    with torch.no_grad():
        truth = closed_losses(model, batches(model, 20000, 1, size=2000), []).mean()
    rng, covered, whole = np.random.default_rng(0), [], []
    for number in range(150):
        scores = rng.normal(size=headspec.HeadGates(model).exists.shape)
        curve = headspec.head_curve(
            model, batches(model, 20, 1000 + number, size=60), scores=scores, fractions=[0.125, 0.4],
            draws=5, seed=number,
        )  # fmt: skip
        pairs = curve[curve["order"].isin(["top", "bottom"])]
        covered.append((pairs["difference_low"] < 0) & (pairs["difference_high"] > 0))
        whole.append(curve["low"][0] < truth < curve["high"][0])
    assert (np.mean(covered, axis=0) >= 0.92).all() and np.mean(whole) >= 0.91
