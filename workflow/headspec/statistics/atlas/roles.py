"""Roles of heads: positional, syntactic, rare word (Voita et al. 2019), from where they attend most.

A head has a role if its largest weight shows it more often than expected by chance and from the dependence of
words in a sentence: one-sided tests on effective numbers of cases (see `proportions`), Holm-corrected over
all heads of the role, and for syntactic roles over heads x relations x directions. In simulations of 72 or
1,000 heads exactly at their threshold, on 60 to 500 sentences, any head is claimed in 0 to 8 % of studies,
and in 13 % if half of a sentence's words are hit or missed together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.errors import DataError
from headspec.statistics.atlas.proportions import effective_cases, exact_interval, exceeding, exceeding_pairs
from headspec.statistics.resampling import holm
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema


@dataclass
class Attended:
    """Places (tokens or words) that heads attend to most, for all places of all sentences, in order."""

    offsets: NDArray[np.int32]  # (places, heads), to the place attended to most; 0 is itself
    layer: NDArray[np.int64]  # (heads,)
    head: NDArray[np.int64]  # (heads,)
    sentence: NDArray[np.int64]  # (places,), from 0
    place: NDArray[np.int64]  # (places,), from 0 in each sentence
    length: NDArray[np.int64]  # (places,), number of places in the sentence

    @classmethod
    def from_table(cls, table: pd.DataFrame, unit: str) -> Attended:
        """Read the column `unit` (`tokens` or `words`) of the table 'attended', sorted by its keys."""
        places = table[["layer", "head"]].drop_duplicates()
        heads = len(places)
        lengths = table[unit].str.len().to_numpy()[::heads]
        parts = np.split(np.concatenate(table[unit].tolist()), np.cumsum(lengths)[:-1] * heads)
        offsets = [part.reshape(heads, length) for part, length in zip(parts, lengths, strict=True)]
        return cls(
            np.ascontiguousarray(np.concatenate(offsets, axis=-1).T),
            places["layer"].to_numpy(),
            places["head"].to_numpy(),
            np.repeat(np.arange(len(lengths)), lengths),
            np.concatenate([np.arange(length) for length in lengths]),
            np.repeat(lengths, lengths),
        )

    @property
    def causal(self) -> bool:
        """Whether no head ever attends to later places, as in decoders."""
        return not (self.offsets > 0).any()


ROLES = Schema(
    {"layer": INT, "head": INT, "role": TEXT, "relation": TEXT, "direction": TEXT, "offset": INT, "hits": INT,
     "cases": INT, "sentences": INT, "rate": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "baseline": FLOAT,
     "threshold": FLOAT, "p_value": FLOAT, "claimed": FLAG},
    keys=5,
    paths=(
        "{run}/atlas/roles.parquet",
        "{run}/gates/{pruning_method}/{scope}/{kept}/atlas/{kept_for}/roles.parquet",
    ),
    about={
        "hits": "cases in which the head attends most to the position that its role predicts",
        "cases": "all",
        "sentences": "sentences with a case",
        "threshold": "least rate of the role",
        "claimed": "whether the head has the role",
    },
)  # fmt: skip

HEAD_ROLES = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "seed": INT, "layer": INT, "head": INT, "role": TEXT,
     "relation": TEXT, "direction": TEXT, "offset": INT, "rate": FLOAT, "baseline": FLOAT},
    keys=6,
    about={
        "role": "first of `positional`, `syntactic` and `rare word` that the head has, or `none`",
        "relation": "dependency relation that exceeds its baseline most",
    },
)  # fmt: skip

POSITIONAL, SYNTACTIC, RARE, NONE = "positional", "syntactic", "rare word", "none"
FROM_DEPENDENT, FROM_HEAD = "dependent to head", "head to dependent"

SAME_POSITION = 0.9  # minimum share of tokens that attend to one relative position
MARGIN = 0.1  # over the baseline
REACH = 5  # largest relative position of a positional head, on either side
MOSTLY = 0.5  # minimum share of words that attend to the rarest word
FEWEST = 50  # sentences with a case
ALPHA = 0.05  # for each role: probability that any head is claimed wrongly
CONFIDENCE = 0.95


def roles(attended: pd.DataFrame, sentences: pd.DataFrame) -> pd.DataFrame:
    """Return the table `roles`: all roles of all heads, claimed or not, from 'attended' and 'treebank'.

    Syntactic roles need sentences with trees. Heads that read target texts, whose words are unknown, have
    only positional roles, corrected separately. Word frequencies are counted in all `sentences`, ignoring
    case. Raises DataError if 'attended' has fewer than `FEWEST` sentences.
    """
    no_words = attended["words"].isna()
    targets, attended = attended[no_words], attended[~no_words]
    if (left := attended["sentence"].nunique()) < FEWEST:
        raise DataError(f"treebank: {left} sentences fit the model; expected at least {FEWEST}")
    tokens, words = Attended.from_table(attended, "tokens"), Attended.from_table(attended, "words")
    used = sentences.set_index("sentence").loc[attended["sentence"].unique()]
    count = Counter(word.lower() for row in sentences["words"] for word in row)
    frequency = np.array([count[word.lower()] for row in used["words"] for word in row])
    frames = [positional(tokens), rare_word(words, frequency)]
    if used["head"].notna().all():
        trees = (np.concatenate(used[column].tolist()) for column in ("head", "relation"))
        frames.append(syntactic(words, *trees))
    if len(targets):
        frames.append(positional(Attended.from_table(targets, "tokens")))
    frame = pd.concat([frame for frame in frames if len(frame)], ignore_index=True)
    return frame.astype({"offset": "Int32"})[list(ROLES.columns)]


def positional(tokens: Attended) -> pd.DataFrame:
    """Return rows of the table `roles` on heads that attend to one relative position.

    A positional head attends there from more than `SAME_POSITION` of the tokens. The first token of a
    sentence has none before it, so it is not a case for position -1. The choice of a head's most frequent
    position needs no correction: at most one can reach the threshold, unless sentences are hardly longer than
    `REACH`.
    """
    tables = []
    for offset in range(-REACH, REACH + 1):
        target = tokens.place + offset  # (places,)
        rows = np.flatnonzero((target >= 0) & (target < tokens.length))
        if _sentences(tokens.sentence[rows]) >= FEWEST:
            hits = tokens.offsets[rows] == offset  # (cases, heads)
            tables.append(_rates(hits, tokens.sentence[rows], SAME_POSITION) | {"offset": offset})
    return _tested(tokens, [_best(tables)] if tables else [], POSITIONAL)


def _best(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of each head from the table with its highest rate."""
    best = np.argmax([table["rate"] for table in tables], axis=0)
    return {
        name: np.choose(best, [np.broadcast_to(table[name], best.shape) for table in tables])
        for name in tables[0]
    }


def rare_word(words: Attended, frequency: np.ndarray) -> pd.DataFrame:
    """Return rows of the table `roles` on heads that attend to the rarest word (in decoders: so far).

    Any of several equally rare words is a hit; if all are equally frequent, there is no case. The baseline is
    a random word. Any preference for content words exceeds it by `MARGIN`, so at least `MOSTLY` of the words
    must also attend to the rarest word. `frequency` is (places,).
    """
    least, most, ties, choices = _rarest(frequency, words)
    rows = np.flatnonzero(least < most)
    if _sentences(words.sentence[rows]) < FEWEST:
        return _tested(words, [], RARE)
    targets = rows[:, None] + words.offsets[rows]  # (cases, heads)
    hits = frequency[targets] == least[rows, None]  # (cases, heads)
    baseline = float((ties[rows] / choices[rows]).mean())
    threshold = max(baseline + MARGIN, MOSTLY)
    rates = _rates(hits, words.sentence[rows], threshold) | {"baseline": baseline}
    return _tested(words, [rates], RARE)


def _rarest(frequency: np.ndarray, words: Attended) -> tuple[np.ndarray, ...]:
    """Return by word, (places,): lowest and highest frequency it sees, numbers of rarest and all words."""
    parts: list[list[np.ndarray]] = []
    for counts in np.split(frequency, np.flatnonzero(np.diff(words.sentence)) + 1):
        n = len(counts)
        if words.causal:
            least, most = np.minimum.accumulate(counts), np.maximum.accumulate(counts)
            ties = (np.tril(counts == least[:, None])).sum(axis=1)
            parts.append([least, most, ties, np.arange(1, n + 1)])
        else:
            low = counts.min()
            values = low, counts.max(), (counts == low).sum(), n
            parts.append([np.full(n, value) for value in values])
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def syntactic(words: Attended, heads: np.ndarray, relations: np.ndarray) -> pd.DataFrame:
    """Return rows of `roles` on heads that attend from words to dependency partners.

    There is a row for each head, relation and direction. From a word to its dependents, any with the relation
    is a hit. The baseline is the best fixed offset for the relation and direction, chosen on the same cases,
    which favours it. A head's rate must exceed it by `MARGIN`, tested on the differences of hits case by
    case. In decoders, partners that follow are not cases.

    `heads` (places,) have the number of each word's head, from 1, or 0 for the root; `relations` (places,)
    are those to these heads.
    """
    dependents = np.flatnonzero(heads > 0)
    partners = dependents - words.place[dependents] + heads[dependents] - 1
    tables = []
    for relation in np.unique(relations[dependents]):
        chosen = relations[dependents] == relation
        for direction, step in ((FROM_DEPENDENT, 1), (FROM_HEAD, -1)):
            query, target = (dependents[chosen], partners[chosen])[::step]
            if (table := _relation(words, query, target)) is not None:
                tables.append(table | {"relation": relation, "direction": direction})
    return _tested(words, tables, SYNTACTIC)


def _relation(words: Attended, query: np.ndarray, target: np.ndarray) -> dict[str, Any] | None:
    """Return hit rates for a relation and direction, and for its best offset.

    They are None if fewer than `FEWEST` sentences have a case. `query` and `target` are places, (pairs,);
    pairs with the same query are one case.
    """
    order = np.argsort(query, kind="stable")
    query, offset = query[order], (target - query)[order]
    if words.causal:
        query, offset = query[offset < 0], offset[offset < 0]
    case = np.flatnonzero(np.diff(query, prepend=-1))  # the first pair of each attending word
    sentence = words.sentence[query[case]]
    if _sentences(sentence) < FEWEST:
        return None
    hits = np.add.reduceat(words.offsets[query] == offset[:, None], case, dtype=np.int8)  # (cases, heads)
    offsets, counts = np.unique(offset, return_counts=True)
    best = offsets[counts.argmax()]
    fixed = np.add.reduceat(offset == best, case, dtype=np.int8)  # (cases,)
    baseline = float(fixed.mean())
    table = _rates(hits, sentence, baseline + MARGIN)
    excess = hits - fixed[:, None]  # (cases, heads): -1, 0 or 1
    differing = np.abs(excess).mean(axis=0)
    mean, effective = effective_cases(*_by_sentence(excess, sentence), differing)
    p = exceeding_pairs(mean, differing, effective, MARGIN)
    return table | {"p_value": p, "baseline": baseline, "offset": best}


def _sentences(sentence: np.ndarray) -> int:
    """Return the number of sentences that the cases come from; `sentence` (cases,) is sorted."""
    return int(np.count_nonzero(np.diff(sentence, prepend=-1)))


def _by_sentence(values: np.ndarray, sentence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of `values` (cases, ...) by sentence, and numbers of cases; `sentence` is sorted."""
    starts = np.flatnonzero(np.diff(sentence, prepend=-1))
    return np.add.reduceat(values, starts, dtype=float), np.diff(starts, append=len(sentence))


def _rates(hits: np.ndarray, sentence: np.ndarray, threshold: float) -> dict[str, Any]:
    """Return columns of the table for hits (cases, heads) of one role, each (heads,) or a scalar."""
    sums, cases = _by_sentence(hits, sentence)  # (sentences, heads), (sentences,)
    rate, effective = effective_cases(sums, cases)
    low, high = exact_interval(rate, effective, CONFIDENCE)
    return {
        "hits": sums.sum(axis=0).astype(int), "cases": int(cases.sum()), "sentences": len(cases),
        "rate": rate, "ci_low": low, "ci_high": high, "threshold": threshold,
        "p_value": exceeding(rate, effective, threshold),
    }  # fmt: skip


def _tested(attended: Attended, tables: list[dict[str, Any]], role: str) -> pd.DataFrame:
    """Return the rows of a role, with p-values corrected over all of them."""
    frames = [pd.DataFrame({"layer": attended.layer, "head": attended.head, **table}) for table in tables]
    if not frames:
        return pd.DataFrame(columns=list(ROLES.columns))
    frame = pd.concat(frames, ignore_index=True).reindex(columns=list(ROLES.columns))
    p = holm(frame["p_value"])
    return frame.assign(role=role, p_value=p, claimed=p < ALPHA)


def one_role(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one role of each head from `roles`: positional, else syntactic, else rare word, else none.

    A head with several claimed relations gets the one that exceeds the baseline most. Columns are
    layer, head, role, relation, direction, offset, rate and baseline.
    """
    columns = ["layer", "head", "role", "relation", "direction", "offset", "rate", "baseline"]
    claimed = frame[frame["claimed"]]
    rank = claimed["role"].map({POSITIONAL: 0, SYNTACTIC: 1, RARE: 2})
    ordered = claimed.assign(rank=rank, excess=claimed["baseline"].fillna(0) - claimed["rate"])
    first = ordered.sort_values(["rank", "excess"], kind="stable").drop_duplicates(["layer", "head"])
    every = frame[["layer", "head"]].drop_duplicates().sort_values(["layer", "head"])
    joined = every.merge(first[columns], how="left", on=["layer", "head"])
    return joined.assign(role=joined["role"].fillna(NONE)).reset_index(drop=True)


def majority_roles(roles: pd.DataFrame) -> pd.DataFrame:
    """Return the role of each head in more than half of the seeds, else none, and its usual relation.

    `roles` are rows of 'head_roles' of one model, mixture and method; the index is (layer, head).
    """
    heads = ["layer", "head"]
    counts = roles.groupby([*heads, "role"]).size().rename("n").reset_index("role")
    shown = counts.loc[2 * counts["n"] > roles.groupby(heads).size().loc[counts.index], "role"]
    shown = shown.reindex(roles.groupby(heads).size().index, fill_value="none")
    related = roles.dropna(subset="relation").join(shown.rename("shown"), on=heads)
    related = related[related["role"] == related["shown"]]
    rates = related.groupby([*heads, "relation"])["rate"].agg(["size", "mean"])
    best = rates.sort_values(["size", "mean"]).reset_index("relation").groupby(heads)["relation"].last()
    return pd.DataFrame({"role": shown, "relation": best.reindex(shown.index)})
