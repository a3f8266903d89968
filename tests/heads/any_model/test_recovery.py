"""Heads of a closed list whose clean vectors are restored."""

import matplotlib
import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn.functional import cross_entropy

import headspec
from headspec.heads.any_model.curves import recovery
from headspec.heads.any_model.curves.halves import halves
from headspec.seeds import derive
from support.model_types import any_model
from support.reference import recovery_rates
from support.reference.contexts import at_outputs, seen

matplotlib.use("agg")
LIST = [(0, 1), (0, 3), (1, 0), (1, 2)]


def drawn(model, n: int, seed: int, size: int = 5) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 60, (n, 7), generator=generator)
    labels = torch.randint(0, 3, (n,), generator=generator)
    return [{"input_ids": ids[i : i + size], "labels": labels[i : i + size]} for i in range(0, n, size)]


def losses(model, batches, restored) -> np.ndarray:
    """Losses with the list closed except for `restored` heads, by hooks."""
    gates, found = headspec.HeadGates(model), []
    for batch in batches:
        with torch.no_grad(), seen(gates) as clean:
            model(**batch)

        def change(row, context, clean=clean):
            context = context.clone()
            for layer, head in LIST:
                if layer == row:
                    context[:, :, head] = clean[row][:, :, head] if (layer, head) in restored else 0
            return context

        with torch.no_grad(), at_outputs(gates, change):
            logits = model(**batch).logits
        found.append(cross_entropy(logits, batch["labels"], reduction="none"))
    return torch.cat(found).numpy()


def row(table, order: str, restored: int):
    (found,) = table[(table["order"] == order) & (table["restored"] == restored)].itertuples()
    return found


def test_restored_heads_have_clean_vectors():
    model = any_model.model("roberta").eval()
    data, scores = drawn(model, 21, 0), np.arange(8.0).reshape(2, 4)
    found = headspec.recovery(model, data, heads=LIST, scores=scores, draws=5)
    order = [(1, 2), (1, 0), (0, 3), (0, 1)]
    assert found.attrs == {"metric": "loss", "n": 21, "heads": order}
    assert found["order"].tolist() == ["none", *2 * ["top", "bottom", "random", "same_layers"], "all"]
    closed, unpruned = losses(model, data, []), losses(model, data, LIST)
    for k in (1, 2):
        for name, heads in (("top", order[:k]), ("bottom", order[-k:])):
            expected, each = losses(model, data, heads), row(found, name, k)
            assert each.value == pytest.approx(expected.mean(), rel=1e-5)
            share = (expected - closed).mean() / (unpruned - closed).mean()
            assert each.recovered == pytest.approx(share, rel=1e-3)
            assert each.recovered_low < each.recovered < each.recovered_high
            assert each.difference == pytest.approx(each.value - row(found, "random", k).value)
            layers = each.value - row(found, "same_layers", k).value if name == "top" else np.nan
            assert each.difference_layers == pytest.approx(layers, nan_ok=True)
    # of one head in the layer of the first, and of the only two there
    single = {losses(model, data, [head]).mean() for head in LIST[2:]}
    assert min(single) - 1e-6 <= row(found, "same_layers", 1).value <= max(single) + 1e-6
    assert row(found, "same_layers", 2).value == pytest.approx(row(found, "top", 2).value)
    assert row(found, "none", 0).recovered == 0 and row(found, "all", 4).recovered == 1
    again = headspec.recovery(model, data, heads=LIST, scores=scores, draws=5)
    assert again.equals(found)


@pytest.mark.parametrize("kind", ["roberta", "pythia", "whisper", "vit"])
@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
def test_all_restored_is_the_unpruned_model_and_none_the_closed_one(kind, ablation):
    """Exactly, and as in a curve of the same heads."""
    model, given = any_model.model(kind), any_model.batches(kind)
    exists = headspec.HeadGates(model).exists
    scores = np.where(exists, np.arange(exists.size).reshape(exists.shape), np.nan)
    options = {"scores": scores, "draws": 5, "ablation": ablation}
    top, total = headspec.top_heads(scores, 3), int(exists.sum())
    curve = headspec.head_curve(model, given, fractions=[3 / total], **options).set_index("order")
    found = headspec.recovery(model, given, heads=top, **options).set_index("order")
    assert found.loc["all", "value"] == curve.loc["none", "value"]
    assert found.loc["none", "value"] == pytest.approx(curve.loc["top", "value"], rel=1e-6)
    assert found.loc["none", "value"] != found.loc["all", "value"]


@pytest.mark.parametrize(("heads", "n", "draws", "number"), [(24, 1, 5, 24), (24, 7, 5, 5), (6, 4, 30, 30)])
def test_random_sets_have_every_head_as_often(heads, n, draws, number):
    """Also within layers, whose numbers of heads are those of the first."""
    ranks = np.random.default_rng(0).permutation(heads).reshape(3, -1).astype(float)
    sets = [*recovery._sets(ranks, [n], draws, 0)]
    top = sets[1].heads
    orders = "random", "same_layers"
    by_order = {order: [each.heads for each in sets if each.order == order] for order in orders}
    assert [len(drawn) for drawn in by_order.values()] == [number, number]
    assert {int(each.sum()) for each in by_order["random"]} == {n}
    assert all((each.sum(axis=1) == top.sum(axis=1)).all() for each in by_order["same_layers"])
    assert np.ptp(np.sum(by_order["random"], axis=0)) <= 1
    assert (np.ptp(np.sum(by_order["same_layers"], axis=0), axis=1) <= 1).all()


def test_every_random_set_is_as_likely():
    """Of 10 sets of 2 out of 5 heads; every third spans two orders."""
    listed, counts = np.ones((1, 5), dtype=bool), {}
    for seed in range(1000):
        drawn = [
            *recovery._balanced(
                listed & (np.arange(5) < 2), listed, np.zeros(1, int), 3, np.random.default_rng(seed)
            )
        ]
        for place in (0, 2):
            key = (place, *np.flatnonzero(drawn[place]))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 20 and stats.chisquare([*counts.values()]).pvalue > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("kind", recovery_rates.ADD)
@pytest.mark.parametrize("measure", ["accuracy", "loss"])
def test_intervals_miss_as_often_as_the_page_says(measure, kind):
    for n, heads in ((20, 8), (60, 24)):
        first, random, *differences = recovery_rates.missed(measure, n, 20, heads, kind, 1.0, 60).T
        assert (first <= 0.15).all() and (random <= 0.1).all() and np.mean(differences) <= 0.07


def test_one_half_orders_heads_greedily_and_the_other_evaluates():
    model = any_model.model("roberta").eval()
    data = drawn(model, 26, 1)
    found = headspec.recovery(model, data, heads=LIST, counts=[1, 3], draws=5, seed=2)
    rank, evaluate = halves(data, "input_ids", np.random.default_rng(derive(2, "halves")))
    restored: list[tuple[int, int]] = []
    while len(restored) < len(LIST):
        left = [head for head in LIST if head not in restored]
        restored.append(min(left, key=lambda head: losses(model, rank, [*restored, head]).mean()))
    assert found.attrs["heads"] == restored
    for k in (1, 3):
        expected = losses(model, evaluate, restored[:k])
        assert row(found, "top", k).value == pytest.approx(expected.mean(), rel=1e-5)


def test_a_score_orders_heads_and_a_metric_needs_no_loss():
    model = any_model.model("roberta").eval()
    data = drawn(model, 26, 1)
    options = {"heads": LIST, "draws": 5, "metric": "accuracy"}
    found = headspec.recovery(model, data, score="magnitude", **options)
    scores = headspec.head_importance(model, score="magnitude")
    assert found.attrs["heads"] == sorted(LIST, key=lambda head: -scores[head])
    assert found.attrs["metric"] == "accuracy" and found.attrs["n"] == 26
    assert found[["low", "high"]].stack().between(0, 1).all()


def test_it_is_drawn_from_the_closed_list_to_the_unpruned_model():
    model = any_model.model("roberta").eval()
    found = headspec.recovery(model, drawn(model, 21, 0), heads=LIST, score="magnitude", draws=5)
    axes = headspec.plot_curve(found)
    lines = {line.get_label(): line for line in axes.get_lines()}
    ends = found.set_index("order")["value"]
    assert axes.get_xlabel() == "of 4 closed heads, restored"
    for label in (
        "most important heads",
        "least important heads",
        "random heads",
        "random heads, same layers",
    ):
        x, y = lines[label].get_data()
        assert (x[0], x[-1], y[0], y[-1]) == (0, 1, ends["none"], ends["all"])
    assert lines["all heads open"].get_ydata()[0] == ends["all"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": [(0, 1)]}, "heads: got 1, expected a list of at least 2"),
        ({"heads": [(0, 1), (7, 0)]}, "heads: "),
        ({"counts": [0]}, "counts: got 0, expected whole numbers from 1 to 3"),
        ({"counts": [4]}, "counts: got 4, expected whole numbers from 1 to 3"),
        ({"counts": [1.5]}, "counts: got 1.5, expected"),
        ({"metric": headspec.Generated()}, "metric: got Generated, whose tokens have no clean vectors"),
        ({"draws": 2}, "draws: got 2, expected at least 5"),
        ({"score": "gredy"}, "score: got 'gredy', expected one of greedy, "),
        ({"ablation": "means"}, "ablation: got 'means'"),
        ({"scores": np.ones((3, 3))}, r"scores: got \(3, 3\), expected \(2, 4\)"),
    ],
)
def test_what_does_not_fit_is_refused(options, said):
    model = any_model.model("roberta").eval()
    with pytest.raises(ValueError, match=f"^{said}"):
        headspec.recovery(model, drawn(model, 12, 0), **({"heads": LIST} | options))
