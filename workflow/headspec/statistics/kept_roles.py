"""Roles of kept heads, before any is closed and after training without the others (Voita et al. 2019)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import ALL, PrunedRun, Run
from headspec.head_arrays import as_array, existing
from headspec.seeds import derive
from headspec.statistics.atlas.roles import NONE
from headspec.statistics.kept_heads import NUMBERS, SET_KEYS, numbers, within_layers
from headspec.statistics.resampling import holm, p_value
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

KEPT_ROLES = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "seed": INT, "way": TEXT, "scope": TEXT,
     "fraction": FLOAT, "penalty": FLOAT, "task": TEXT, "layer": INT, "head": INT, "role": TEXT, "kept": FLAG,
     "role_after": TEXT},
    keys=11,
    about={
        "role": "in the trained run, before any head is closed",
        "role_after": "after the further training, `none` if closed; null for methods not in "
            "`gates.keep_models`",
    },
)  # fmt: skip
ROLE_COUNTS = Schema(
    SET_KEYS
    | {"role": TEXT, "heads": FLOAT, "n_seeds": INT}
    | dict.fromkeys(
        ("before", "kept", "kept_least", "kept_most", "kept_by_layer", "p_value", "p_holm", "after", "moved"),
        FLOAT,
    ),
    keys=9,
    about={
        "heads": "number of heads kept, without cross-attention, mean over seeds",
        "before": "heads with the role in the trained run",
        "kept": "how many of them are kept",
        "kept_by_layer": "how many by chance within layers",
        "after": "heads with the role after the further training; null as `role_after`",
        "moved": "how many of them lacked it before",
    },
)  # fmt: skip

#: enough for Holm's correction over about a hundred tests
PERMUTATIONS = 20_000


def kept_roles(
    gates: Mapping[PrunedRun, pd.DataFrame],
    before: Mapping[Run, pd.DataFrame],
    after: Mapping[tuple[PrunedRun, str], pd.DataFrame],
) -> pd.DataFrame:
    """Return the table `kept_roles` from 'gates_of_run' of every pruned run.

    Roles are from `headspec.statistics.atlas.roles.one_role`: `before` for every run; `after`, if its model
    was saved, for the model trained further without the heads that the set (a task, or `all`) does not keep.
    """
    frames = []
    for pruned, table in gates.items():
        last = table[table["step"] == table["step"].max()]
        heads_with_roles = last.merge(before[pruned.run][["layer", "head", "role"]], on=["layer", "head"])
        for task, set_rows in heads_with_roles.groupby("task", dropna=False):
            roles = after.get((pruned, ALL if pd.isna(task) else str(task)))
            then = None
            if roles is not None:
                matched = set_rows.merge(roles, on=["layer", "head"], suffixes=("", "_then"))["role_then"]
                then = np.where(set_rows["kept"], matched, NONE)
            run = {name: getattr(pruned.run, name) for name in ("model", "mixture", "method", "seed")}
            columns = {
                "way": pruned.pruning_method,
                "scope": pruned.scope,
                **numbers(pruned),
                "role_after": then,
            }
            frames.append(set_rows.assign(**run, **columns))
    frame = pd.concat(frames, ignore_index=True).astype(dict.fromkeys(NUMBERS, float))
    ordered: pd.DataFrame = frame[list(KEPT_ROLES.columns)]
    return ordered


def role_counts(
    frame: pd.DataFrame, roles: Sequence[str], seed: int, draws: int = PERMUTATIONS
) -> pd.DataFrame:
    """Return the table `role_counts`: how many kept heads have each of `roles`, from the table `kept_roles`.

    Seeds of one pretrained model keep similar heads with similar roles. Heads are therefore permuted within
    their layers in the same way in all seeds, which preserves what the seeds have in common. p_holm is
    corrected over the rows of the same model, mixture, method and scope.
    """
    rows = []
    for model, model_rows in frame.groupby("model", sort=False):
        heads = model_rows.drop_duplicates(["layer", "head"]).set_index(["layer", "head"])
        exists = existing(as_array(heads["kept"]))
        rng = np.random.default_rng(derive(seed, "roles of kept heads", str(model)))
        order = within_layers(exists, draws, rng)
        for key, group in model_rows.groupby([*SET_KEYS], dropna=False, sort=False):
            rows += [
                dict(zip(SET_KEYS, key, strict=True)) | row for row in _rows(group, roles, order, exists)
            ]
    result = pd.DataFrame(rows, columns=list(ROLE_COUNTS.columns))
    return result.assign(p_holm=result.groupby([*SET_KEYS][:4])["p_value"].transform(holm))


def _rows(
    group: pd.DataFrame, roles: Sequence[str], order: NDArray[np.int_], exists: NDArray[np.bool_]
) -> Iterator[dict[str, object]]:
    """Yield a row for each of `roles`, over all seeds of a method, number of heads and set.

    `order` and `exists` are as in `by_layer`.
    """
    ordered = group.sort_values(["seed", "layer", "head"])
    n, saved = group["seed"].nunique(), group["role_after"].notna().all()
    role, then = (np.full((n, *exists.shape), None, dtype=object) for _ in range(2))
    kept = np.zeros((n, *exists.shape), dtype=bool)  # (seeds, layers, heads)
    for values, name in ((role, "role"), (kept, "kept"), (then, "role_after")):
        values[:, exists] = ordered[name].to_numpy().reshape(n, -1)
    for name in roles:
        has, has_then = role == name, then == name
        by_seed = (has & kept).sum(axis=(1, 2))  # (seeds,)
        expected, null = by_layer(has, kept, order, exists)
        varies = null.min() < null.max()
        yield {
            "role": name, "heads": kept.sum() / n, "n_seeds": n, "before": has.sum() / n,
            "kept": by_seed.mean(), "kept_least": by_seed.min(), "kept_most": by_seed.max(),
            "kept_by_layer": expected,
            "p_value": float(p_value(by_seed.mean() - expected, null - expected)) if varies else np.nan,
            "after": has_then.sum() / n if saved else np.nan,
            "moved": (has_then & ~has).sum() / n if saved else np.nan,
        }  # fmt: skip


def by_layer(
    has: NDArray[np.bool_], kept: NDArray[np.bool_], order: NDArray[np.int_], exists: NDArray[np.bool_]
) -> tuple[float, NDArray[np.float64]]:
    """Return how many kept heads have a role, mean over seeds, if heads are permuted within their layers.

    These are the expectation over all permutations and the values (draws,) for those in `order`, which are
    from `within_layers` and the same in all seeds. `has` (the role) and `kept` are (seeds, layers, heads),
    `exists` is (layers, heads).
    """
    together = np.einsum("slh,slk->lhk", has.astype(int), kept.astype(int))  # with the role at h, kept at k
    layer, head = np.nonzero(has.any(axis=0))
    null = together[layer, head, order[:, layer, head]].sum(axis=1) / len(has)
    heads = exists.sum(axis=1)[exists.any(axis=1)]
    common = np.lcm.reduce(heads)  # so that sums are of integers, which are exact
    expected = together.sum(axis=(1, 2))[exists.any(axis=1)] @ (common // heads)
    return expected / common / len(has), null
