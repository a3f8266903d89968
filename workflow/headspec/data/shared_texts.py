"""Groups of examples that share texts, in a task and in the tasks that pair its texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: most texts of a group, and the number of groups for which groups may be smaller
TEXTS, GROUPS = 12, 50
TEXT_COLUMNS = ("text_a", "text_b")


class Grouped(NamedTuple):
    """Examples resampled in groups, `group` (n,), which tasks with the same `source` share."""

    source: str
    group: NDArray[np.intp]


def grouped(sources: Mapping[str, str], tables: Iterable[pd.DataFrame]) -> dict[str, Grouped]:
    """Return groups of examples for the tasks that share texts, from the validation tables of all.

    Pair tasks use every text twice, which joins all pairs to a few rings. Texts, with partners close
    together, are cut into groups of `TEXTS`; an example is in the group of its first text, and in about one
    pair of six the second text is in another group. `sources` has each task itself, or the task whose texts
    it pairs.
    """
    found: dict[str, Grouped] = {}
    for tasks in _sharing(sources, stored := dict(zip(sources, tables, strict=True))):
        groups = _groups([stored[task] for task in tasks])
        found |= {task: Grouped(tasks[0], group) for task, group in zip(tasks, groups, strict=True)}
    return found


def _sharing(sources: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> list[list[str]]:
    """Return tasks of one source that share texts, directly or through another task."""
    sets: list[tuple[list[str], set[str]]] = []
    for task, source in sources.items():
        texts = {*tables[task]["text_a"], *tables[task]["text_b"].dropna()}
        joined = [one for one in sets if sources[one[0][0]] == source and one[1] & texts]
        sets = [one for one in sets if one not in joined]
        members = [member for tasks, _ in joined for member in tasks]
        sets.append(([*members, task], texts.union(*(shared for _, shared in joined))))
    return [tasks for tasks, _ in sets if len(tasks) > 1]


def _groups(tables: Sequence[pd.DataFrame]) -> list[NDArray[np.intp]]:
    """Return the group of every example in tables that share texts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    texts = pd.Index(pd.concat([table[text] for table in tables for text in TEXT_COLUMNS]).dropna().unique())
    a, b = (np.concatenate([texts.get_indexer(table[text]) for table in tables]) for text in TEXT_COLUMNS)
    pairs = b >= 0
    links = coo_array((np.ones(np.count_nonzero(pairs)), (a[pairs], b[pairs])), (len(texts), len(texts)))
    order = reverse_cuthill_mckee((links + links.T).tocsr(), symmetric_mode=True)
    partnered = np.isin(order, np.union1d(a[pairs], b[pairs]))
    cut = np.arange(np.count_nonzero(partnered)) // max(1, min(TEXTS, len(texts) // GROUPS))
    group = np.empty(len(texts), dtype=np.intp)
    group[order[partnered]] = cut
    group[order[~partnered]] = cut.max(initial=-1) + 1 + np.arange(np.count_nonzero(~partnered))
    return np.split(group[a], np.cumsum([len(table) for table in tables])[:-1])
