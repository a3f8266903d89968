"""Where heads attend most, against a loop over words, in every architecture; and roles of a model's heads."""

import numpy as np
import pandas as pd
import pytest

from headspec.atlas.attended import ATTENDED, attended, most_attended
from headspec.data.sources.treebank import TREEBANK
from headspec.models.devices import Device
from headspec.models.word_tokens import WordTokens
from headspec.statistics.atlas.roles import POSITIONAL, RARE, ROLES, SYNTACTIC, roles
from headspec.tables import read, write
from headspec.tasks.kinds.translation import head as decoding
from support import tiny
from support.models import TEXTS, TRANSLATORS
from support.reference.single_texts import alone, maps
from support.tiny import CPU, HEADS, KINDS, LAYERS
from support.translators import translator

KEYS = ["sentence", "layer", "head"]
SMALL = Device("cpu", None, tokens=40)  # several batches
#: first row of decoder self-attention, and of cross-attention
DECODER, CROSS = KINDS["encoder"], KINDS["encoder"] + KINDS["decoder"]


def sentences(vocabulary: int, n: int = 9) -> WordTokens:
    """Random tokens in words of one to three, with a special token at the start, at the end, or at both."""
    rng, examples = np.random.default_rng(3), tiny.examples(n, shortest=5)
    examples.ids = [[token % vocabulary for token in ids] for ids in examples.ids]
    words = []
    for i, length in enumerate(examples.lengths):
        words_of = np.repeat(np.arange(length), rng.integers(1, 4, length))[:length]
        if i % 3 != 0:
            words_of = np.r_[-1, words_of[:-1]]
        if i % 3 != 1:
            words_of = np.r_[words_of[:-1], -1]
        words.append(words_of)
    return WordTokens(examples, words)


def test_most_attended_equals_a_loop(made):
    """Of an encoder-decoder, the heads of its encoder."""
    model = made[0]
    given = sentences(model.encoder.config.vocab_size)
    frame = most_attended(model, given, SMALL)
    assert len(frame) == 9 * LAYERS * HEADS
    found = frame.set_index(KEYS)
    for row, words in enumerate(given.words):
        weights = maps(model, alone(given.examples, row))
        real = np.flatnonzero(words >= 0)
        places = [np.flatnonzero(words == word) for word in range(words.max() + 1)]
        for layer, head in np.ndindex(LAYERS, HEADS):
            of_head, mine = weights[layer][head], found.loc[(row, layer, head)]
            assert mine["tokens"].tolist() == [real[np.argmax(of_head[i, real])] - i for i in real]
            between = [[of_head[np.ix_(a, b)].sum(1).mean() for b in places] for a in places]
            assert mine["words"].tolist() == [int(np.argmax(of)) - i for i, of in enumerate(between)]


def bank(n: int = 120) -> pd.DataFrame:
    """Texts in which each word depends on the one before."""
    words = [TEXTS[i % 200].split() for i in range(n)]
    heads = [list(range(len(row))) for row in words]
    relations = [["root"] + ["next"] * (len(row) - 1) for row in words]
    columns = {"words": words, "head": heads, "relation": relations}
    return pd.DataFrame({"sentence": range(n), "name": [str(i) for i in range(n)], **columns})


@pytest.mark.parametrize("made", TRANSLATORS, indirect=True)  # each has special tokens of its own
def test_decoders_attend_to_target_texts(made):
    """After the sentences of a treebank, which the encoder reads, and without the marks of the texts."""
    model, texts = made
    frame, counts = attended(model, model.tokenizer, bank(12), 12, SMALL, {"a": texts})
    assert counts == {"sentences": 12, "too_long": 0, "lost_words": 0}
    found, task = frame.set_index(KEYS), model.classes["a"]
    assert found.index.is_unique
    assert len(frame) == (12 * DECODER + len(texts) * KINDS["decoder"]) * HEADS
    for sentence, row in ((12, 0), (12 + 4, 4)):
        batch = alone(texts, row)
        ids = decoding.begun(model.encoder, batch.labels.ids)[0].tolist()
        places = [i for i, token in enumerate(ids) if i and token not in task["before"] + task["after"]]
        weights = maps(model, batch)[DECODER + 1][2]
        mine = found.loc[(sentence, DECODER + 1, 2)]
        assert mine["tokens"].tolist() == [places[np.argmax(weights[i, places])] - i for i in places]
        assert mine["words"] is None
    assert [len(found.loc[(row, 0, 0), "words"]) for row in range(12)] == [
        len(words) for words in bank(12)["words"]
    ]


def test_a_translator_reads_a_treebank_with_its_prefix(model_folder):
    """Which changes what heads attend to, and leaves the words."""
    model, _ = translator(model_folder("t5"), "t5", 2)
    plain, _ = attended(model, model.tokenizer, bank(20), 12, CPU)
    model.classes["a"]["prefix"] = "translate English: "
    told, counts = attended(model, model.tokenizer, bank(20), 12, CPU)
    assert counts == {"sentences": 12, "too_long": 0, "lost_words": 0}
    assert [*map(len, plain["words"])] == [*map(len, told["words"])]
    assert any(list(a) != list(b) for a, b in zip(plain["words"], told["words"], strict=True))


def test_roles_of_the_two_kinds_of_self_attention(model_folder, tmp_path):
    """Positional ones of both, planted in the maps of a real model; those of words of encoder heads alone."""
    model, examples = translator(model_folder("marian"), "marian", 60)
    write(tmp_path / "treebank.parquet", TREEBANK, bank(60), {})
    sentences = read(tmp_path / "treebank.parquet")
    frame, _ = attended(model, model.tokenizer, sentences, 100, CPU, {"a": examples})
    planted = {1: 1, DECODER + 1: -1}  # row: offset of its head 2
    for index, row in frame[frame["head"] == 2].iterrows():
        if offset := planted.get(row["layer"]):
            places = np.arange(len(row["tokens"]))
            frame.at[index, "tokens"] = np.clip(places + offset, 0, len(places) - 1) - places
    write(tmp_path / "attended.parquet", ATTENDED, frame, {"attention": {"m": KINDS}})
    found = roles(read(tmp_path / "attended.parquet"), sentences)
    write(tmp_path / "roles.parquet", ROLES, found, {})
    assert len(read(tmp_path / "roles.parquet")) == len(found)
    assert found["role"].value_counts().to_dict() == {
        POSITIONAL: CROSS * HEADS, RARE: LAYERS * HEADS, SYNTACTIC: 2 * LAYERS * HEADS,
    }  # fmt: skip
    of_role = {role: rows for role, rows in found.groupby("role")}
    assert of_role[POSITIONAL]["layer"].nunique() == CROSS and not (found["layer"] >= CROSS).any()
    assert of_role[SYNTACTIC]["layer"].max() < DECODER and of_role[RARE]["layer"].max() < DECODER
    assert (of_role[SYNTACTIC]["baseline"] == 1).all()  # a fixed offset is always right
    claimed = found[found["claimed"] & ~found["role"].eq(RARE)]
    assert claimed[["layer", "head", "offset"]].values.tolist() == [[1, 2, 1], [DECODER + 1, 2, -1]]
