"""Probes without parameters, against loops over units."""

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import probes
from headspec.models.multitask import MultiTask
from headspec.probes import LABELLINGS, Cases, cases, label_chances
from headspec.tasks.kinds.words.encoding import ENCODING
from headspec.tasks.kinds.words.units import written
from support.data import treebanks
from support.running.studies import HEADS, LAYERS, bert, sentence, tokenizer
from support.tiny import CPU

LABELS = ["ADJ", "ADP", "DET", "NOUN", "VERB", "X"]


@pytest.fixture(scope="module")
def model() -> MultiTask:
    return MultiTask(bert(), "first", {}).eval()


def tags(words: list[str]) -> list[tuple]:
    return [(i, treebanks.TAGS[word]) for i, word in enumerate(words)]


def spans(words: list[str]) -> list[tuple]:
    return [(i, min(i + 1, len(words) - 1), treebanks.TAGS[word]) for i, word in enumerate(words)]


def links(words: list[str]) -> list[tuple]:
    heads = treebanks.tree(words)[0]
    partners = [(head or i + 1) - 1 for i, head in enumerate(heads)]
    return [(i, partner, tag) for (i, tag), partner in zip(tags(words), partners, strict=True)]


def made(units, attends: bool) -> tuple[Cases, Cases]:
    """Units of 50 sentences to train on, and of 45 others."""
    parts = []
    for seed, n in enumerate((50, 45)):
        rng = np.random.default_rng(seed)
        texts = [sentence(rng, "boat", rng.choice(["lovely", "awful"])) for _ in range(n)]
        data = pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None})
        data["label"] = [written(tags(text.split())) for text in texts]
        tokens, _ = ENCODING.encode(tokenizer(), data, 16, {"type": "tags", "labels": LABELS})
        tokens["units"] = [
            [[*places, LABELS.index(label)] for *places, label in units(text.split())] for text in texts
        ]
        parts.append((tokens, data))
    chances = label_chances(parts[0][0], len(LABELS))
    assert chances.sum() == pytest.approx(1)
    train, test = (cases("pos", *part, 1000, chances, attends) for part in parts)
    return train, test


def vectors(model: MultiTask, of: Cases) -> np.ndarray:
    """Means over words of the inputs of W_O, each sentence alone, (units, layers, heads, size)."""
    found = []
    for row, first, last in zip(of.row, of.first, of.last, strict=True):
        batch = of.examples.batch(np.array([row]))
        with model.gates.recorded() as contexts, torch.no_grad():
            model.pool(batch)
        words = torch.stack([batch.words[0] @ contexts[layer][0].flatten(-2) for layer in sorted(contexts)])
        found.append(words[:, first : last + 1].mean(1).unflatten(-1, (HEADS, -1)).numpy())
    return np.stack(found)


@pytest.mark.parametrize("units", [tags, spans])
def test_a_unit_has_the_label_of_the_nearest_centroid(model, units):
    train, test = made(units, False)
    found = probes.probe_outputs(model, train, test, LABELS, CPU)
    given, judged = vectors(model, train), vectors(model, test)
    columns = [(found["right"], found["n"], train.label, test.label)]
    for i, labels in enumerate(zip(train.control, test.control, strict=True)):
        columns.append((found["control"].str[i], found["n_control"].str[i], *labels))
    assert len(columns) == 1 + LABELLINGS
    for right, n, of_train, of_test in columns:
        known = [k for k in range(len(LABELS)) if (of_train == k).any()]
        centroids = np.stack([given[of_train == k].mean(axis=0) for k in known])
        cosines = np.einsum("ulhs,klhs->uklh", judged, centroids) / np.linalg.norm(centroids, axis=-1)
        cosines /= np.linalg.norm(judged, axis=-1)[:, None]
        second, first = np.sort(cosines, axis=1)[:, -2:].swapaxes(0, 1)
        tied = first - second < 1e-6  # which rounding decides
        hits = np.array(known)[cosines.argmax(axis=1)] == of_test[:, None, None]  # (units, layers, heads)
        sums = found.assign(right=right, n=n).groupby(["layer", "head", "label"])[["right", "n"]].sum()
        for layer, head in np.ndindex(LAYERS, HEADS):
            of_head = sums.loc[layer, head].reindex(LABELS, fill_value=0).to_numpy()
            for k, (n_right, n_units) in enumerate(of_head):
                units_of_label = of_test == k
                assert n_units == units_of_label.sum()
                difference = n_right - hits[units_of_label, layer, head].sum()
                assert abs(difference) <= tied[units_of_label, layer, head].sum()


def test_a_link_is_found_where_the_largest_weight_falls(model):
    _, test = made(links, True)
    found = probes.probe_attention(model, test, LABELS, CPU)
    right = dict.fromkeys(("to", "from"), 0)
    for row in set(test.row.tolist()):
        batch = test.examples.batch(np.array([row]))
        model.encoder.set_attn_implementation("eager")
        with torch.no_grad():
            output = model.encoder(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask,
                token_type_ids=batch.token_type_ids, output_attentions=True,
            )  # fmt: skip
        weights = output.attentions[0][0, 1, 1:-1, 1:-1].numpy()  # one token for a word
        for unit in np.flatnonzero(test.row == row):
            right["to"] += weights[test.other[unit]].argmax() == test.first[unit]
            right["from"] += weights[test.first[unit]].argmax() == test.other[unit]
    rows = found[(found["layer"] == 0) & (found["head"] == 1)]
    assert rows.groupby("direction")["right"].sum().to_dict() == right
    assert not (test.other == test.first).any()  # roots are not links


def test_the_control_of_a_link_is_the_best_fixed_offset_of_the_other_half(model):
    _, test = made(links, True)
    found = probes.probe_attention(model, test, LABELS, CPU).query(
        "layer == 0 and head == 0 and direction == 'to'"
    )
    offsets = test.first - test.other
    assert (found["n_control"].str[0] == found["n"]).all()
    chosen = set()
    for k, label in enumerate(LABELS):
        for side in (0, 1):
            here, there = (offsets[(test.label == k) & ((test.fold % 2 == side) == same)] for same in (1, 0))
            reach = np.arange(-probes.REACH, probes.REACH + 1)
            best = reach[(there == reach[:, None]).sum(axis=1).argmax()]
            rows = found[(found["label"] == label) & (found["fold"] % 2 == side)]
            assert rows["control"].str[0].sum() == (here == best).sum()
            chosen.add((side, best))
    assert len(chosen) > 2


def test_the_random_label_of_a_word_is_always_the_same():
    train, test = made(tags, False)
    labels: dict[int, set[tuple[int, ...]]] = {}
    for of in (train, test):
        for row, first, control in zip(of.row, of.first, of.control.T.tolist(), strict=True):
            token = of.examples.ids[row][1 + first]
            labels.setdefault(token, set()).add(tuple(control))
    assert all(len(found) == 1 for found in labels.values())
    assert len(set.union(*labels.values())) > 2
    assert len(set(zip(*set.union(*labels.values()), strict=True))) == LABELLINGS  # each is another one
