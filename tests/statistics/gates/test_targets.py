"""Numbers of heads that runs keep, and of those that their gates leave open."""

import numpy as np
import pandas as pd
import pytest

from headspec.statistics.gates.targets import counts

HEADS = 40


def gates(opened: float, task: str | None = None, fixed: int = 0) -> pd.DataFrame:
    """Ten heads are kept, beside `fixed` ones that never learn; `opened` of the others are open."""
    head = np.arange(HEADS + fixed)
    last = pd.DataFrame({"task": task, "step": 9, "layer": 0, "head": head, "kept": head < 10 + fixed})
    last["open_probability"] = np.where(head < fixed, 1, opened / HEADS)
    last["score"] = np.where(head < fixed, np.nan, 0.0)
    earlier = last.assign(step=3, kept=True, open_probability=1.0)
    return pd.concat([earlier, last], ignore_index=True)


@pytest.mark.parametrize(("opened", "missed"), [(8.1, 0), (11.9, 0), (7.9, 1), (12.1, 1), (38.0, 1)])
@pytest.mark.parametrize("fixed", [0, 100])
def test_a_target_is_missed_by_more_than_a_twentieth_of_the_heads_that_learn(opened, missed, fixed):
    found = counts(gates(opened, fixed=fixed))
    assert found == pytest.approx((10 + fixed, opened + fixed, missed))


def test_sets_of_tasks_miss_their_targets_apart():
    of_sets = pd.concat([gates(10.0, "a"), gates(30.0, "b")])
    assert counts(of_sets) == pytest.approx((10, 20, 0.5))


def test_gates_without_a_number_in_view_miss_none():
    assert counts(gates(30.0), open_ended=True)[0] == 10
    assert np.isnan(counts(gates(30.0), open_ended=True)[1:]).all()


def test_heads_without_a_probability_have_no_target():
    frame = gates(30.0).assign(open_probability=np.nan)
    assert np.isnan(counts(frame)[1:]).all()
