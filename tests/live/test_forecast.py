"""The forecast of a run: sums by hand. No times are measured."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headspec.cost.passes import STARTS
from headspec.live import jobs as forecasts
from headspec.live.jobs import RATE, Forecast, LiveJob

MODEL, LIGHT = STARTS


def forecast(jobs: Iterable[LiveJob], now: float) -> Forecast:
    """The forecast of `jobs`, whose places are their ids."""
    return forecasts.forecast(dict(enumerate(jobs)), now)


def computing(seconds: float, rule: str = "train", **more) -> LiveJob:
    """A job that by the plan computes for `seconds` after its start."""
    return LiveJob(rule, operations=seconds * RATE, **more)


def test_a_run_without_models_is_known_from_the_start():
    at_start = forecast([LiveJob("data", at_once=2) for _ in range(3)], 0)
    assert (at_start.done, at_start.left, at_start.wall) == (0, 3 * LIGHT, 2 * LIGHT)
    assert at_start.share == 0


def test_the_time_of_models_is_unknown_until_one_shows_its_speed():
    jobs = [computing(10), computing(20)]
    assert forecast(jobs, 0).wall is None
    jobs[0].begun = 0
    assert forecast(jobs, 5).wall is None
    jobs[0].left = 3  # it takes 8 seconds where 10 + MODEL were planned
    assert forecast(jobs, 5).wall == pytest.approx(3 + (20 + MODEL) * 8 / (10 + MODEL))
    # a classifier alone says nothing of it
    classifier = computing(0, begun=0, taken=2)
    assert forecast([classifier, computing(10, "prune")], 2).wall is None
    assert forecast([classifier, computing(0)], 2).wall == 2


def test_jobs_correct_those_most_like_them():
    done = [
        computing(10, wildcards={"model": model}, begun=0, taken=factor * (10 + MODEL))
        for model, factor in (("a", 2), ("b", 4), ("b", 4), ("b", 100))  # the last was paused
    ]
    for more, factor in (
        ({"wildcards": {"model": "a"}}, 2),
        ({"wildcards": {"model": "b"}}, 4),
        ({"wildcards": {"model": "c"}}, 4),  # as its rule
        ({"wildcards": {"model": "a"}, "rule": "train_and_keep"}, 4),  # as those with its first word
        ({"wildcards": {"model": "a"}, "rule": "prune"}, 4),  # as all that compute
    ):
        assert forecast([*done, computing(5, **more)], 100).wall == pytest.approx(factor * (5 + MODEL))
    assert forecast([*done, LiveJob("data")], 100).wall == LIGHT  # of another kind
    # many small jobs do not outweigh a large one
    done = [computing(1, begun=0, taken=1)] * 9 + [computing(1000, begun=0, taken=2 * (1000 + MODEL))]
    assert forecast([*done, computing(10)], 9999).wall == pytest.approx(2 * (10 + MODEL))


def test_stages_follow_each_other_and_are_as_wide_as_they_can():
    jobs = [LiveJob("data", at_once=4) for _ in range(2)] + [LiveJob("figure", at_once=2) for _ in range(4)]
    assert forecast(jobs, 0).wall == LIGHT + 2 * LIGHT


def test_jobs_of_different_rules_run_side_by_side():
    """Twenty figures, each of a rule of its own, on two cores; they take what the first of them took."""
    slow = [LiveJob(f"data_{i}", begun=0, taken=20 * LIGHT) for i in range(9)]
    figures = [LiveJob(f"figure_{i}", at_once=2) for i in range(20)]
    figures[0].begun, figures[0].taken = 180 * LIGHT, LIGHT / 2
    assert forecast([*slow, *figures], 200 * LIGHT).wall == pytest.approx(10 * LIGHT / 2)


@given(st.integers(0, 10**6))
def test_the_time_left_is_that_of_the_longest_chain_and_of_all_work_at_least(seed):
    """And at most that of one job after another. Random jobs need some of those before them."""
    rng = random.Random(seed)
    jobs = [
        LiveJob(
            f"r{rng.randrange(5)}", at_once=rng.choice([1, 2, 4]), begun=0 if i < 1 else None,
            left=rng.uniform(0, 9), needs=tuple(rng.sample(range(i), min(i, rng.randrange(3)))),
        )
        for i in range(rng.randrange(1, 12))
    ]  # fmt: skip
    ends: list[float] = []
    for job in jobs:
        ends.append(job.left + max((ends[needed] for needed in job.needs), default=0))
    work = sum(job.left / job.at_once for job in jobs)
    wall = forecast(jobs, 0).wall
    assert max(*ends, work) - 1e-6 <= wall <= sum(job.left for job in jobs) + 1e-6


def test_a_run_lasts_as_long_as_its_longest_chain():
    """Training of 90 and of 10 seconds, pruning of both, and a job that compares them."""
    jobs = [computing(90, at_once=2, begun=0, left=left) for left in (90, 10)]
    jobs += [LiveJob("prune", at_once=2, needs=(i,), operations=0) for i in range(2)]
    jobs.append(LiveJob("compare", needs=(2, 3, 99)))  # the output of 99 was there before the run
    assert forecast(jobs, 0).wall == 90 + MODEL + LIGHT


def test_jobs_that_run_or_have_ended_count_for_what_they_have_done():
    half = forecast([computing(0, begun=0, left=30)], 30)
    assert (half.done, half.left, half.share) == (30, 30, 0.5)
    assert forecast([LiveJob("data", begun=0)], LIGHT / 3).share == pytest.approx(1 / 3)
    late = forecast([LiveJob("data", begun=0)], 10 * LIGHT)
    assert (late.left, late.wall) == (9 * LIGHT, 9 * LIGHT)  # as long again
    end = forecast([LiveJob("data", begun=0, taken=2), computing(3, begun=0, taken=4)], 6)
    assert (end.done, end.left, end.wall, end.share) == (6, 0, 0, 1)
    assert forecast([], 0).share == 1
