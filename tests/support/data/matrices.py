"""Made-up pruning matrices, and answers under them."""

import numpy as np
import pandas as pd

TASKS = "abcdefghi"
#: share of right answers without pruning
BASE = 0.95
#: of two answers to an example, with different heads pruned, how often both are as hard
SHARED = 0.7


def additive(
    rng: np.random.Generator, k: int, lists: float = 0, tasks: float = 0, own: float = 0
) -> np.ndarray:
    """Relative performance (k, k), a row for each list: strengths and fragilities with these deviations."""
    by_list, by_task = rng.normal(size=(2, k))
    by_list, by_task = lists * (by_list - by_list.mean()), tasks * (by_task - by_task.mean())
    return np.clip(0.65 + by_list[:, None] + by_task - own * np.eye(k), 0.03, 0.97)


def multiplied(rng: np.random.Generator, k: int, together: bool = False) -> np.ndarray:
    """Relative performance (k, k), less the product of the strength of a list and the fragility of a task.

    `together`: the stronger the list of a task, the more fragile the task.
    """
    strength, fragility = rng.uniform(0.1, 1, size=(2, k))
    if together:
        strength, fragility = np.sort(strength), np.sort(fragility)
    return np.clip(1 - 0.9 * strength[:, None] * fragility, 0.03, 0.97)


def answers(performance: np.ndarray, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """A row for each answer to n examples of every task; examples are hard for several lists alike."""
    frames = []
    for i, task in enumerate(TASKS[: len(performance)]):
        hard = rng.random(n)
        for source, rate in zip(("none", *TASKS), (1, *performance[:, i]), strict=False):
            mine = np.where(rng.random(n) < SHARED, hard, rng.random(n))
            right = (mine < BASE * rate).astype(float)
            frames.append(
                pd.DataFrame({"pruned_for": source, "task": task, "example": range(n), "right": right})
            )
    return pd.concat(frames, ignore_index=True)


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Numbers of right answers, in place of a row for each."""
    keys = [name for name in rows.columns if name not in ("example", "right")]
    return rows.groupby(keys, sort=False)["right"].agg(right="sum", n="size").reset_index()
