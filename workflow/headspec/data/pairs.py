"""Pair tasks from single-text tasks: do two texts have the same class?"""

import numpy as np
import pandas as pd

from headspec.errors import DataError, listing


def pair(parent: pd.DataFrame, rng: np.random.Generator, key: str = "pairs_of") -> pd.DataFrame:
    """Pair texts of the same class and of different classes (AG-Pair of Li et al., EMNLP 2023).

    There are as many pairs as items, half 'same', half 'different' (see `n_different`). Each item is text_a
    of one pair and text_b of another. No two pairs have the same two items, unless small or uneven classes
    make this unavoidable. The items of each class form a random ring. A random half of all items is paired
    with the next in the ring; the partners of the other half are shuffled until all these pairs differ in
    class.

    `parent` has columns label and text_a, key_a (see `headspec.data.overlap`), or both. Return as many rows
    in random order, with label ('same' or 'different') and text_a and text_b, or their keys. Raises DataError
    if the classes are too few or too uneven.
    """
    classes = parent["label"].astype("category").cat
    sizes = np.bincount(classes.codes, minlength=1)
    n, names = len(parent), dict(zip(classes.categories, sizes.tolist(), strict=True))
    differing = n_different(sizes)
    if differing is None:
        raise DataError(
            f"{key}: classes of {listing(f'{size} {name}' for name, size in names.items())} cannot be paired "
            "half within and half across classes, with each text in two pairs; expected no class with more "
            "than about three quarters of the texts"
        )
    same = _shares(sizes, n - differing, rng)
    codes = classes.codes.to_numpy()
    order = rng.permutation(n)
    by_class = order[np.argsort(codes[order], kind="stable")]
    partner = np.empty(n, dtype=np.int64)
    across = np.ones(n, dtype=bool)
    for ring, k in zip(np.split(by_class, np.cumsum(sizes)[:-1]), same, strict=True):
        partner[ring] = np.roll(ring, -1)
        across[rng.choice(ring, k, replace=False)] = False
    first = np.flatnonzero(across)
    partner[first] = _across_classes(first, partner[first], codes, rng)
    order = rng.permutation(n)
    pairs: dict[str, np.ndarray] = {}
    for column in {"text_a": "text_b", "key_a": "key_b"}.items():
        if column[0] in parent:
            values = parent[column[0]].to_numpy()
            pairs |= dict(zip(column, (values[order], values[partner[order]]), strict=True))
    pairs["label"] = np.where(codes[order] == codes[partner[order]], "same", "different")
    return pd.DataFrame(pairs)


def n_different(sizes: np.ndarray) -> int | None:
    """Return the number of pairs across classes that `pair` makes for class `sizes` (classes,), or None.

    With d_k = n_k - s_k items of class k paired across and D = sum d_k, the pairs exist if and only if every
    d_k <= D / 2 (each needs a partner outside its class) and s_k = 0 where n_k = 1 (no item is its own
    partner). n/2 of n pairs are across; one more or fewer if n is odd, or if n/2 is odd and there are two
    classes, because both have the same number across and D is even. None if such pairs do not exist.
    """
    n = int(sizes.sum())
    for across in sorted(range((n - 1) // 2, n // 2 + 2), key=lambda d: abs(2 * d - n)):
        least, most = _bounds(sizes, across)
        if 0 < across < n and (least <= most).all() and least.sum() <= n - across <= most.sum():
            return across
    return None


def _bounds(sizes: np.ndarray, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the fewest and most pairs within each class, (classes,), given `across` pairs across classes."""
    return np.maximum(0, sizes - across // 2), np.where(sizes > 1, sizes, 0)


def _shares(sizes: np.ndarray, within: int, rng: np.random.Generator) -> np.ndarray:
    """Return how many of `within` random items are in each class, (classes,), clipped to `_bounds`."""
    least, most = _bounds(sizes, int(sizes.sum()) - within)
    shares = np.clip(rng.multivariate_hypergeometric(sizes, within), least, most)
    while step := np.sign(within - shares.sum()):
        shares[rng.choice(np.flatnonzero(shares < most if step > 0 else shares > least))] += step
    return shares


def _across_classes(
    first: np.ndarray, second: np.ndarray, classes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return `second` (n,) shuffled so that each item differs in class from its partner in `first` (n,).

    Both have the same number d_k <= D / 2 of items of each class k. For a pair within class k, at most 2 d_k
    - 1 < D pairs have k on either side, so exchanging partners with another pair always works. Then pairs
    that occur in both directions are separated in the same way where possible.
    """
    second = rng.permutation(second)
    class_a, class_b = classes[first], classes[second]

    def exchange(i: np.intp) -> None:
        others = (class_a != class_b[i]) & (class_b != class_a[i])
        others[i] = False
        if others.any():
            swap = [i, rng.choice(np.flatnonzero(others))]
            second[swap], class_b[swap] = second[swap[::-1]], class_b[swap[::-1]]

    for i in np.flatnonzero(class_a == class_b):
        if class_a[i] == class_b[i]:  # an earlier exchange may have resolved it
            exchange(i)
    place = np.full(len(classes), -1)
    place[first] = np.arange(len(first))
    for i in np.flatnonzero(first == np.append(second, -1)[place[second]]):
        if first[i] == np.append(second, -1)[place[second[i]]]:
            exchange(i)
    return second
