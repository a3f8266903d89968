"""Sharing of independent statistics between processes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """Apply `function` to each of `items` in several processes; results are in order."""
    if processes == 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,)) as pool:
        yield from pool.map(function, items)
