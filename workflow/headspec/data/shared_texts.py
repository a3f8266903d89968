"""Groups of examples that share texts: those of a task, and of the tasks that pair its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: most texts of a group, and the number of groups for which there are fewer in each
TEXTS, GROUPS = 12, 50


class Grouped(NamedTuple):
    """Examples of a task that are not drawn one by one.

    Attributes
    ----------
    source : the task whose texts they are
    group : (n,), of each example by its number; tasks of the same source have the same groups
    """

    source: str
    group: NDArray[np.intp]


def grouped(sources: Mapping[str, str], tables: Iterable[pd.DataFrame]) -> dict[str, Grouped]:
    """Groups of the examples of tasks that share texts.

    Every text is in two pairs (see `headspec.data.pairs`), and so all pairs hang together in a few rings.
    Texts are put into an order in which partners stand close to each other, and that is cut into groups of
    `TEXTS`; an example is in the group of its first text. About one pair in six has its second text in
    another group.

    Parameters
    ----------
    sources : task: the task whose texts it has; itself, or that of which it has pairs
    tables : their validation tables
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    found: dict[str, Grouped] = {}
    stored = dict(zip(sources, tables, strict=True))
    for source in dict.fromkeys(sources.values()):
        tasks = [task for task in sources if sources[task] == source]
        both = [stored[task][text] for task in tasks for text in ("text_a", "text_b")]
        texts = pd.Index(pd.concat(both).dropna().unique())
        a, b = (
            np.concatenate([texts.get_indexer(stored[task][text]) for task in tasks])
            for text in ("text_a", "text_b")
        )
        pairs = b >= 0
        shape = (len(texts), len(texts))
        links = coo_array((np.ones(np.count_nonzero(pairs)), (a[pairs], b[pairs])), shape)
        order = reverse_cuthill_mckee((links + links.T).tocsr(), symmetric_mode=True)
        group = np.empty(len(texts), dtype=np.intp)
        group[order] = np.arange(len(texts)) // max(1, min(TEXTS, len(texts) // GROUPS))
        of_tasks = np.split(group[a], np.cumsum([len(stored[task]) for task in tasks])[:-1])
        found |= {task: Grouped(source, of_task) for task, of_task in zip(tasks, of_tasks, strict=True)}
    return found
