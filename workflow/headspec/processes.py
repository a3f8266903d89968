"""Work shared by processes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Iterator[Result]:
    """Yield the results of `function` for `items`, in order, from `processes` of one thread each.

    With one process, the caller computes them, without a limit on threads.
    """
    if processes == 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,)) as pool:
        yield from pool.map(function, items)
