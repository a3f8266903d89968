"""Probes without parameters, against loops over units."""

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.models.devices import Device, prepare
from headspec.models.multitask import MultiTask
from headspec.probes import attention, outputs
from headspec.probes.cases import LABELLINGS, Cases, cases, label_chances
from headspec.tasks.words.base import written
from headspec.tasks.words.tokens import ENCODING
from support.data import treebanks
from support.running.studies import HEADS, LAYERS, bert, sentence, tokenizer

LABELS = ["ADJ", "ADP", "DET", "NOUN", "VERB", "X"]


@pytest.fixture(scope="module")
def device() -> Device:
    return prepare("fp32", 1, 1, 0)


@pytest.fixture(scope="module")
def model() -> MultiTask:
    return MultiTask(bert(), "first", {}).eval()


def tables(n: int, seed: int, units) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of tokens and of texts of `n` sentences."""
    rng = np.random.default_rng(seed)
    texts = [sentence(rng, "boat", rng.choice(["lovely", "awful"])) for _ in range(n)]
    data = pd.DataFrame({"example": range(n), "text_a": texts, "text_b": None})
    data["label"] = [written(tags(text.split())) for text in texts]
    tokens, _ = ENCODING.encode(tokenizer(), data, 16, {"type": "tags", "labels": LABELS})
    of_texts = [units(text.split()) for text in texts]
    tokens["units"] = [[[*unit[:-1], LABELS.index(unit[-1])] for unit in of_text] for of_text in of_texts]
    return tokens, data


def tags(words: list[str]) -> list[tuple]:
    return [(i, treebanks.TAGS[word]) for i, word in enumerate(words)]


def spans(words: list[str]) -> list[tuple]:
    return [(i, min(i + 1, len(words) - 1), treebanks.TAGS[word]) for i, word in enumerate(words)]


def links(words: list[str]) -> list[tuple]:
    heads = treebanks.tree(words)[0]
    partners = [(head or i + 1) - 1 for i, head in enumerate(heads)]
    return [(i, partner, tag) for (i, tag), partner in zip(tags(words), partners, strict=True)]


def made(units, attends: bool) -> tuple[Cases, Cases]:
    frames = [tables(n, seed, units) for seed, n in enumerate((50, 45))]
    chances = label_chances(frames[0][0], len(LABELS))
    assert chances.sum() == pytest.approx(1)
    train, test = (cases("pos", tokens, data, 1000, chances, attends) for tokens, data in frames)
    return train, test


def context(model: MultiTask, of: Cases, row: int) -> np.ndarray:
    """Inputs of W_O for one sentence alone, (layers, words, heads, size)."""
    batch = of.examples.batch(np.array([row]))
    with model.gates.recorded() as found, torch.no_grad():
        model.pool(batch)
    words = np.stack([batch.words[0].numpy() @ found[row][0].flatten(-2).numpy() for row in sorted(found)])
    return words.reshape(*words.shape[:2], HEADS, -1)


@pytest.mark.parametrize("units", [tags, spans])
def test_a_unit_has_the_label_of_the_nearest_centroid(model, device, units):
    train, test = made(units, False)
    found = outputs.probe(model, train, test, LABELS, device)
    vectors = {}
    for name, of in {"train": train, "test": test}.items():
        by_row = {row: context(model, of, row) for row in set(of.row.tolist())}
        places = zip(of.row, of.first, of.last, strict=True)
        means = [by_row[row][:, first : last + 1].mean(axis=1) for row, first, last in places]
        vectors[name] = np.stack(means)
    columns = [(found["right"], found["n"], train.label, test.label)]
    for i, of in enumerate(zip(train.control, test.control, strict=True)):
        columns.append((found["control"].str[i], found["n_control"].str[i], *of))
    assert len(columns) == 1 + LABELLINGS
    for right, n, of_train, of_test in columns:
        centroids = [
            vectors["train"][of_train == k].mean(axis=0) if (of_train == k).any() else None
            for k in range(len(LABELS))
        ]
        for layer in range(LAYERS):
            for head in range(HEADS):
                v = vectors["test"][:, layer, head]
                known = [k for k, centroid in enumerate(centroids) if centroid is not None]
                c = np.stack([centroids[k][layer, head] for k in known])
                cosine = (v @ c.T) / np.linalg.norm(v, axis=1)[:, None] / np.linalg.norm(c, axis=1)
                hits = np.array(known)[cosine.argmax(axis=1)] == of_test
                of_head = (found["layer"] == layer) & (found["head"] == head)
                assert right[of_head].sum() == hits.sum()
                for k, label in enumerate(LABELS):
                    of_label = of_head & (found["label"] == label)
                    assert right[of_label].sum() == hits[of_test == k].sum()
                    assert n[of_label].sum() == (of_test == k).sum()


def test_a_link_is_found_where_the_largest_weight_falls(model, device):
    _, test = made(links, True)
    found = attention.probe(model, test, LABELS, device)
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
    assert not (test.other == test.first).any()  # roots are no links


def test_the_control_of_a_link_is_the_best_fixed_offset_of_the_other_half(model, device):
    _, test = made(links, True)
    found = attention.probe(model, test, LABELS, device).query(
        "layer == 0 and head == 0 and direction == 'to'"
    )
    offsets = test.first - test.other
    assert (found["n_control"].str[0] == found["n"]).all()
    chosen = set()
    for k, label in enumerate(LABELS):
        for side in (0, 1):
            here, there = (offsets[(test.label == k) & ((test.fold % 2 == side) == same)] for same in (1, 0))
            reach = np.arange(-attention.REACH, attention.REACH + 1)
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
