"""Partitions of tasks: closed forms, brute force, and coverage of intervals."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from headspec.statistics.grouping import partition as parts


def gains(k: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(k, k))
    np.fill_diagonal(values, np.nan)
    return values


def mean_gain(partition, gain):
    """By the definition."""
    total = 0.0
    for group in partition:
        for target in group:
            partners = [source for source in group if source != target]
            total += np.mean([gain[source, target] for source in partners]) if partners else 0
    return total / len(gain)


def value(partition, gain, below=0.0, above=0.0):
    return parts.value(parts.weights(partition, len(gain)), gain, gain - below, gain + above)


def test_value_is_the_mean_over_tasks_of_the_mean_over_partners():
    gain, partition = gains(6), ((0, 2, 5), (1, 4), (3,))
    found = value(partition, gain, 0.1, 0.3)
    reach = 5**0.5 / 6  # five targets with a partner
    expected = mean_gain(partition, gain)
    assert found == pytest.approx((expected, expected - 0.1 * reach, expected + 0.3 * reach))
    assert value(tuple((task,) for task in range(6)), gain) == (0, 0, 0)
    gain[0, 2] = np.nan
    assert np.isnan(value(partition, gain).gain)
    known = ((0, 1), (2, 3, 4, 5))
    assert value(known, gain).gain == pytest.approx(mean_gain(known, gain))


def test_errors_of_one_target_add_up_and_those_of_two_do_not():
    error = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]]) / 10  # [source, target]
    found = value(((0, 1, 2),), np.zeros((3, 3)), error, error)
    assert found.high == pytest.approx((0.8**2 + 0.7**2 + 0.6**2) ** 0.5 / 6)
    # the difference of two partitions, in which 0 and 1 count negatively for each other
    weights = parts.weights(((0, 1, 2),), 3) - parts.weights(((0, 1), (2,)), 3)
    found = parts.value(weights, np.zeros((3, 3)), -error, 2 * error)
    down, up = (0.5 + 2 * 0.3, 0.6 + 2 * 0.1, 0.2 + 0.4), (2 * 0.5 + 0.3, 2 * 0.6 + 0.1, 2 * 0.2 + 2 * 0.4)
    assert found == pytest.approx((0, -np.linalg.norm(down) / 6, np.linalg.norm(up) / 6))


@pytest.mark.parametrize("encoders", [1, 2, 3, 6])
def test_the_best_partition_is_the_best_of_all(encoders):
    for seed in range(5):
        gain = gains(6, seed)
        every = {parts.partition(labels) for labels in itertools.product(range(encoders), repeat=6)}
        best, exact = parts.best_partition(gain, encoders)
        assert exact and mean_gain(best, gain) == pytest.approx(max(mean_gain(each, gain) for each in every))
        assert sorted(task for group in best for task in group) == list(range(6)) and len(best) <= encoders


def test_a_group_with_an_unknown_gain_is_not_chosen():
    gain = np.full((4, 4), 0.1)
    gain[0, 1], gain[0, 2] = 9, np.nan
    assert parts.best_partition(gain, 2)[0] in (((0, 1), (2, 3)), ((0, 3), (1, 2)), ((0, 1, 3), (2,)))


def test_many_tasks_are_annealed():
    """Fourteen tasks in two groups that help each other, and hurt the other group."""
    side = np.arange(14) % 2
    best, exact = parts.best_partition(np.where(side[:, None] == side, 1.0, -1.0), 2)
    assert not exact and {*best} == {tuple(range(0, 14, 2)), tuple(range(1, 14, 2))}


def test_every_partition_without_an_empty_group_is_as_likely():
    drawn = parts.random_partitions(5, 3, 5000, 0)
    assert {len(partition) for partition in drawn} == {3}
    counts = Counter(frozenset(map(frozenset, partition)) for partition in drawn)
    assert len(counts) == 25  # Stirling number S(5, 3)
    assert chisquare([*counts.values()]).pvalue > 0.01


@pytest.mark.parametrize(("tasks", "groups"), [(12, 12), (20, 20), (40, 30), (7, 1), (1, 1)])
def test_partitions_into_many_groups_are_drawn_at_once(tasks, groups):
    """Random labels would leave a group of 20 empty in all but 2e-8 of draws."""
    for drawn in parts.random_partitions(tasks, groups, 50, 0):
        assert len(drawn) == groups and sorted(itertools.chain(*drawn)) == list(range(tasks))


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.95])
def test_intervals_cover_whatever_errors_of_a_target_share(shared):
    rng, k = np.random.default_rng(1), 8
    weights = parts.weights(((0, 1, 2), (3, 4, 5), (6, 7)), k)
    errors = shared**0.5 * rng.normal(size=(2000, 1, k)) + (1 - shared) ** 0.5 * rng.normal(size=(2000, k, k))
    found = [parts.value(weights, e, e - 1.96, e + 1.96) for e in errors]
    covered = np.mean([each.low <= 0 <= each.high for each in found])
    assert covered > 0.94 and (shared < 0.9 or covered < 0.97)


def test_trained_groups_weigh_their_means_by_their_tasks():
    rows = [
        {"mixture": mixture, "method": "tuned", "task": task, "difference": difference,
         "ci_low": difference - 0.02, "ci_high": difference + 0.03}
        for mixture, tasks, difference in (("a+b", "ab", 0.01), ("rest", "cde", -0.02))
        for task in (*tasks, "mean")
    ]  # fmt: skip
    table = pd.DataFrame([*rows, rows[2] | {"method": "iat", "difference": 9}])
    expected, reach = (2 * 0.01 - 3 * 0.02) / 6, (2**2 + 3**2) ** 0.5 / 6
    found = parts.trained(table, ["ba", "cde", "f"])
    assert found == pytest.approx((expected, expected - 0.02 * reach, expected + 0.03 * reach))
    assert parts.trained(table, ["ac", "b"]) is None
