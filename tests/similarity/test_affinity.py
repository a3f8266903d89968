"""Affinity of tasks: limits, known cases and repeatability of the three measures on tiny random models."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import approx_fprime

from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.similarity import gradient_affinity
from headspec.similarity.gradient_affinity import ENTRIES, Margins, Sketch
from headspec.similarity.sensitivity import SingleRuns, gradient, parameters, sampled
from headspec.similarity.table import PARAMETERS, affinity, both_ways, seed_table
from support.tiny import CPU, TAGS, encoder, examples, tagged

#: a task of classes, of scores, of words
CLASSES = {"a": ["no", "yes"], "b": None, "words": TAGS}
N = 12


def model(seed: int = 1) -> MultiTask:
    torch.manual_seed(seed)
    return MultiTask(encoder("bert", seed), "mean", CLASSES).eval()


DATA = {"a": examples(N, 2, 1), "b": examples(N, 3, 2), "words": tagged(N)}
FITTED, JUDGED = ({task: np.arange(start, N, 2) for task in CLASSES} for start in (0, 1))


def slope(net: MultiTask, task: str, rows: np.ndarray) -> np.ndarray:
    return gradient(net, task, DATA[task], rows, CPU, Progress(N, "examples")).astype(float)


def test_lookahead_tends_to_the_product_of_gradients():
    """Affinity over step is |weights| (g_s / |g_s|) g_t / L_t, at the step of the measure too."""
    net = model()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    size = np.sqrt(sum(float(p.detach().square().sum()) for p in parameters(net)))
    loss = [gradient_affinity._mean_loss(net, task, DATA[task], JUDGED[task], CPU) for task in CLASSES]
    along = np.stack([slope(net, task, FITTED[task]) for task in CLASSES])
    along *= size / np.linalg.norm(along, axis=1, keepdims=True)
    limit = along @ np.stack([slope(net, task, JUDGED[task]) for task in CLASSES]).T / loss

    def error(step: float) -> float:
        found = gradient_affinity.lookahead(net, list(CLASSES), DATA, FITTED, JUDGED, CPU, step) / step
        return float(np.abs(found - limit).max() / np.abs(limit).max())

    errors = [error(step) for step in (gradient_affinity.STEP, 100 * gradient_affinity.STEP)]
    assert errors[0] < 0.02 and errors[0] < errors[1]
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def test_lookahead_of_single_runs_is_at_the_targets_encoder(tmp_path):
    singles = {}
    for seed, task in enumerate(CLASSES):
        torch.manual_seed(seed)
        single = MultiTask(encoder("bert", seed), "mean", {task: CLASSES[task]})
        single.save(singles.setdefault(task, tmp_path / task))
    rows = {task: np.arange(N) for task in CLASSES}
    runs = SingleRuns(singles, DATA, rows, lambda: encoder("bert", 9), CPU, 0, tmp_path)
    found = gradient_affinity.lookahead_affinity_single(runs)
    for column, target in enumerate(CLASSES):
        net = replace(runs, encoder=lambda seed=column: encoder("bert", seed)).under_one_encoder()
        expected = gradient_affinity.lookahead(net, [target], DATA, FITTED, JUDGED, CPU)
        np.testing.assert_array_equal(found[:, column], expected[:, 0])
    assert np.isfinite(found).all() and (found != 0).all()


def test_the_gradient_of_a_fit_is_that_of_its_objective():
    rng = np.random.default_rng(0)
    task, at = Margins(rng.normal(size=20), rng.normal(size=(20, 6))), rng.normal(size=6)
    numeric = approx_fprime(at, lambda w: gradient_affinity.objective(w, task, 0.7)[0])
    np.testing.assert_allclose(gradient_affinity.objective(at, task, 0.7)[1], numeric, rtol=1e-4)
    best = gradient_affinity.fit_weights([task], 0.7)
    assert np.abs(gradient_affinity.objective(best, task, 0.7)[1]).max() < 1e-3


def test_products_of_sketches_are_right_in_expectation():
    """Also of vectors whose weight is in one column of a matrix."""
    rng = np.random.default_rng(0)
    heavy = np.zeros((600, 32))
    heavy[:, 3] = rng.normal(size=600)
    a, b = (torch.from_numpy(rng.normal(size=heavy.shape) + 5 * heavy).float() for _ in range(2))
    found = []
    for seed in range(200):
        sketch = Sketch(a.numel(), seed, CPU)
        found.append(float(sketch([a[:100], a[100:]]) @ sketch([b])))
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - float((a * b).sum())) < 4 * error
    assert np.std(found, ddof=1) < 2 * float(a.norm() * b.norm()) / np.sqrt(ENTRIES)


def sketch_of(net: MultiTask) -> Sketch:
    return Sketch(sum(p.numel() for p in parameters(net)), 0, CPU)


def test_margins_of_two_classes_are_differences_of_logits():
    net, rows = model(), FITTED["a"]
    sketch = sketch_of(net)
    found = gradient_affinity.margins(net, "a", DATA["a"], rows, sketch, CPU, Progress(N, "examples"))
    for row, value, sketched in zip(rows, *found, strict=True):
        logits = net.logits("a", net.pool(DATA["a"].batch(np.array([row]))))[0]
        right = int(DATA["a"].label[row])
        margin = logits[right] - logits[1 - right]
        slopes = torch.autograd.grad(margin, parameters(net), allow_unused=True, materialize_grads=True)
        assert value == pytest.approx(margin.item(), abs=1e-4)
        np.testing.assert_allclose(sketched, sketch(slopes), rtol=1e-3, atol=1e-4 * np.abs(sketched).max())


def test_margins_of_a_right_score_are_finite():
    net = model()
    score = net.predictions("b", net.pool(DATA["b"].batch(np.array([0])))).item()
    columns = {"example": [0], "label": [score], "input_ids": [DATA["b"].ids[0]], "token_type_ids": None}
    exact = Examples(pd.DataFrame(columns))
    found = gradient_affinity.margins(
        net, "b", exact, np.array([0]), sketch_of(net), CPU, Progress(1, "examples")
    )
    assert found.values[0] == pytest.approx(-np.log(np.expm1(gradient_affinity.LEAST)))
    assert np.isfinite(found.gradients).all()


def test_more_examples_of_the_same_help_and_of_the_opposite_harm():
    rng = np.random.default_rng(0)
    direction = rng.normal(size=20)

    def drawn(sign: int) -> Margins:
        x = rng.normal(size=(30, 20))
        return Margins(np.zeros(30), sign * np.sign(x @ direction)[:, None] * x)

    fitted, judged = ([drawn(sign) for sign in (1, 1, -1)] for _ in range(2))
    found = gradient_affinity.affinities(fitted, judged)
    assert min(found[0, 1], found[1, 0]) > 0.05
    assert max(found[2, 0], found[2, 1], found[0, 2], found[1, 2]) < -0.05
    assert (found.diagonal() == 0).all()


def test_every_kind_of_task_has_the_same_affinity_each_time():
    found = [gradient_affinity.grad_tag(model(), DATA, FITTED, JUDGED, CPU, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.isfinite(found[0]).all() and not np.allclose(found[0], found[2])
    again = [gradient_affinity.lookahead(model(), list(CLASSES), DATA, FITTED, JUDGED, CPU) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert (again[0] != 0).all()


def test_samples_are_drawn_by_task_and_seed():
    rows = sampled(DATA, 10, 0)
    assert {task: len(set(each)) for task, each in rows.items()} == dict.fromkeys(CLASSES, 10)
    assert any((rows[task] != sampled(DATA, 10, 1)[task]).any() for task in CLASSES)


def test_tables_of_affinity():
    tasks = ["p", "q"]
    values = [np.array([[9, value], [0.2, 9]]) for value in (0.1, 0.5)]
    seeds = [seed_table("grad-tag", tasks, each, directed=True)[1] for each in values]
    schema, symmetric = seed_table("fisher", tasks, values[0], directed=False)
    assert schema is PARAMETERS and symmetric.values.tolist() == [["fisher", "p", "q", 0.1]]
    table = affinity("m", seeds).set_index(["source", "target"])
    assert table["affinity"].to_dict() == pytest.approx({("p", "q"): 0.3, ("q", "p"): 0.2})
    assert table.loc[("p", "q"), "between_seeds"] == pytest.approx(np.std([0.1, 0.5], ddof=1))
    assert both_ways(seeds[0], tasks).to_dict("list") == {
        "measure": ["grad-tag"], "task_a": ["p"], "task_b": ["q"], "similarity": [pytest.approx(0.15)],
    }  # fmt: skip


def test_affinity_without_a_value_for_some_seed_has_none():
    values = [np.array([[9, value], [0.2, 9]]) for value in (0.1, np.nan)]
    seeds = [seed_table("grad-tag", ["p", "q"], each, directed=True)[1] for each in values]
    table = affinity("m", seeds).set_index(["source", "target"])["affinity"]
    assert np.isnan(table["p", "q"]) and table["q", "p"] == pytest.approx(0.2)
