"""Language modelling: which tokens are predicted, their bytes, and the constant prediction."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer

from headspec.errors import ModelError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models.architectures import CONTINUES, READS, WRITES
from headspec.models.batching import Examples
from headspec.models.language import LanguageHead, load_language_model
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import special_tokens
from headspec.tasks.kinds.language_modelling import encoding, head
from headspec.tasks.metrics import chance, score
from support import language, models
from support.tiny import CPU

TEXTS = [*models.TEXTS[:20], "Müßig – the house", "the"]
NAMES = ("gpt2", "llama", "bert", "roberta")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """The tokenizer of each model, in the model's folder."""
    folder = tmp_path_factory.mktemp("models")
    return {name: AutoTokenizer.from_pretrained(language.make(name, folder / name)) for name in NAMES}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_causal_model_predicts_every_token_after_the_first(tokenizers, name):
    tokenizer = tokenizers[name]
    found, cut = encoding.predicted_tokens(tokenizer, TEXTS, range(len(TEXTS)), 12, causal=True)
    assert cut == sum(len(ids) > 12 for ids in tokenizer(TEXTS)["input_ids"]) > 0
    for text, encoded in zip(TEXTS, found, strict=True):
        assert encoded.ids == tokenizer(text, truncation=True, max_length=12)["input_ids"]
        assert encoded.targets == [*encoded.ids[1:], encoding.NONE]
    whole, _ = encoding.predicted_tokens(tokenizer, TEXTS, range(len(TEXTS)), 10**4, causal=True)
    for text, encoded in zip(TEXTS, whole, strict=True):
        first = "" if tokenizer.bos_token_id == encoded.ids[0] else tokenizer.decode(encoded.ids[:1])
        assert encoded.size == len(text.encode()) - len(first.encode())


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_that_texts_have_already_are_not_predicted(tokenizers, name):
    tokenizer, causal = tokenizers[name], name in ("gpt2", "llama")
    start, end = ("".join(tokenizer.convert_ids_to_tokens(ids)) for ids in special_tokens(tokenizer))
    marked = [start + text + end for text in TEXTS]
    expected, found = (
        encoding.predicted_tokens(tokenizer, texts, range(len(texts)), 12, causal)
        for texts in (TEXTS, marked)
    )
    assert found == expected


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_masked_model_predicts_a_share_that_it_does_not_see(tokenizers, name):
    tokenizer = tokenizers[name]
    found, _ = encoding.predicted_tokens(tokenizer, TEXTS, range(len(TEXTS)), 64, causal=False)
    for text, (ids, targets, size) in zip(TEXTS, found, strict=True):
        whole = tokenizer(text)["input_ids"]
        places = [i for i, token in enumerate(targets) if token != encoding.NONE]
        assert len(places) == max(1, round(encoding.MASKED * (len(whole) - 2)))
        assert not {whole[i] for i in places} & {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
        assert [ids[i] for i in places] == [tokenizer.mask_token_id] * len(places)
        assert [targets[i] if i in places else ids[i] for i in range(len(ids))] == whole
        assert 0 < size <= len(text.encode())
    again, _ = encoding.predicted_tokens(tokenizer, TEXTS[::-1], range(len(TEXTS))[::-1], 64, causal=False)
    assert again[::-1] == found
    others, _ = encoding.predicted_tokens(tokenizer, TEXTS[:1] * 9, range(9), 64, causal=False)
    assert len({tuple(encoded.targets) for encoded in others}) > 1  # other examples have others masked


def test_chance_is_the_most_frequent_token_and_the_entropy_of_tokens():
    targets = [[5, encoding.NONE, 5, 7], [7, 5], [encoding.NONE], [9]]
    found = encoding.counts(targets, [10, 4, 0, 3])
    share = {5: 3 / 6, 7: 2 / 6, 9: 1 / 6}
    bits = [2 * -np.log2(share[5]) - np.log2(share[7]), -np.log2(share[7] * share[5]), 0, -np.log2(share[9])]
    assert found == pytest.approx(np.array([[3, 2, 0, 1], [10, 4, 0, 3], [2, 1, 0, 0], bits]).T)
    entropy = -sum(p * np.log2(p) for p in share.values())
    assert chance("token_accuracy", found) == 3 / 6
    assert chance("bits_per_token", found) == pytest.approx(entropy)
    assert chance("bits_per_byte", found) == pytest.approx(entropy * 6 / 17)


# --- the model


def read(name: str, tokenizer, own: bool = True):
    """A language model, one with it as encoder, and examples."""
    causal = name in language.CAUSAL
    whole, classes = (
        load_language_model(Path(tokenizer.name_or_path), "here", causal),
        {"type": "text", "causal": causal},
    )
    table = pd.DataFrame({"example": range(len(TEXTS)), "text_a": TEXTS, "text_b": None, "label": ""})
    frame, _ = encoding.ENCODING.encode(tokenizer, table, 24, classes)
    joint = MultiTask(whole.base_model, "last", {"t": classes}, LanguageHead(whole) if own else None)
    return whole, joint.eval(), Examples.for_task(frame, classes)


def own_losses(whole, examples: Examples, causal: bool) -> np.ndarray:
    """The loss that transformers' model gives of each text, in nats, and how many tokens are likeliest."""
    found = []
    for ids, targets in zip(examples.ids, examples.gold.columns["rows"], strict=True):
        ids, labels = torch.tensor([ids]), torch.tensor([targets])
        labels = labels.roll(1, 1) if causal else labels  # transformers moves them back
        labels = labels.masked_fill(labels == encoding.NONE, -100)
        with torch.no_grad():
            output = whole(input_ids=ids, labels=labels)
        best, real = output.logits.argmax(-1), torch.tensor([targets]) != encoding.NONE
        right = int((best == torch.tensor([targets]))[real].sum())
        found.append((float(output.loss) if real.any() else 0.0, right))
    return np.array(found)


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_bits_are_those_of_the_model_itself(tokenizers, name, monkeypatch):
    whole, model, examples = read(name, tokenizers[name])
    nats, right = own_losses(whole, examples, name in language.CAUSAL).T
    rows = np.arange(len(examples))
    batch = examples.batch(rows)
    with torch.no_grad():
        assert model.losses("t", model.pool(batch), batch.labels).numpy() == pytest.approx(nats, rel=1e-4)
    none = Mask("none", None, 0.0, None, np.zeros(model.gates.exists.shape, dtype=bool))
    values = under_masks(model, "t", examples, rows, [none], CPU).values[0]
    counted, size = examples.label[:, 0], examples.label[:, 1]
    assert values[:, 0].tolist() == right.tolist()
    assert values[:, 1] == pytest.approx(nats * counted / np.log(2), rel=1e-4)
    bits = (nats * counted).sum() / np.log(2)
    assert score("bits_per_token", examples.label, values) == pytest.approx(bits / counted.sum(), rel=1e-4)
    assert score("bits_per_byte", examples.label, values) == pytest.approx(bits / size.sum(), rel=1e-4)
    assert score("token_accuracy", examples.label, values) == right.sum() / counted.sum()
    gradients = gate_gradients(model, "t", examples, rows, CPU)
    monkeypatch.setattr(head, "LOGITS", 7 * whole.get_input_embeddings().num_embeddings)
    assert gate_gradients(model, "t", examples, rows, CPU) == pytest.approx(gradients, abs=1e-5)
    assert np.abs(gradients).max() > 0


def test_a_trained_head_begins_as_the_pretrained_one_of_tied_models(tokenizers):
    losses = []
    for own, kind in ((True, head.Own), (False, head.Tied)):
        _, model, examples = read("gpt2", tokenizers["gpt2"], own)
        assert isinstance(model.classifier("t"), kind)
        batch = examples.batch(np.arange(len(examples)))
        losses.append(model.losses("t", model.pool(batch), batch.labels))
    assert torch.allclose(*losses, rtol=1e-4)


def test_the_family_of_a_model_says_which_tokens_it_predicts(tokenizers):
    """A decoder predicts the next token even if its tokenizer has a mask."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizers["bert"].name_or_path)

    def completed(family):
        return encoding.ENCODING.completed(tokenizer, {"type": "text"}, 16, "tasks.t", family)

    assert [completed(family)["causal"] for family in (CONTINUES, READS)] == [True, False]
    with pytest.raises(ModelError, match="tasks.t.type: got 'text', .* encoder-decoder"):
        completed(WRITES)
    tokenizer.mask_token = None
    with pytest.raises(ModelError, match="tasks.t.type: got 'text', .* has no mask"):
        completed(READS)
