"""Work shared by processes: the same results in the same order, with one thread each."""

import os

import numpy  # noqa: F401  its library of linear algebra has threads
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from headspec.processes import map_in_processes


def told(item: int) -> tuple[int, int, set[int]]:
    """What a process was given, its number, and those of its threads."""
    return item, os.getpid(), {library["num_threads"] for library in threadpool_info()}


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_order_from_as_many_processes(processes):
    with threadpool_limits(3):
        items, pids, threads = zip(*map_in_processes(told, range(20), processes), strict=True)
    assert items == tuple(range(20)) and len(set(pids)) <= processes
    assert (os.getpid() in pids) == (processes == 1)
    assert set().union(*threads) == ({3} if processes == 1 else {1})
