"""Translators that the config describes: sizes, fresh weights, and a vocabulary of their own."""

import io

import numpy as np
import pandas as pd
import pytest
import sentencepiece
import torch

from headspec.config.loading import load
from headspec.config.sections.model import Model
from headspec.errors import DataError, HeadspecError, ModelError
from headspec.heads import head_settings
from headspec.models import encoders, tokenization, vocabulary
from headspec.models.gates import HeadGates
from headspec.models.pretrained import study_checks
from headspec.tasks.kinds.translation import head as decoding
from headspec.tasks.kinds.translation.encoding import ENCODING
from support.data.labelled_texts import table
from support.running.studies import CONFIG, changed
from support.translators import SENTENCES as TEXTS
from support.translators import classes

SIZES = {"layers": 2, "heads": 4, "hidden": 32, "vocabulary": 48}
MODEL = Model(transformer=SIZES, max_length=16)
TASK = {"source": "x", "text_a": "en", "label": "de", "type": "translation", "target_language": "de"}
STUDY = CONFIG | {
    "models": {"m": {"transformer": SIZES}},
    "tasks": {"de": TASK, "fr": TASK | {"label": "fr", "target_language": "fr"}},
    "mixtures": {"pairs": ["de", "fr"]},
    "methods": ["tuned"],
}


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    return vocabulary.pieces(TEXTS, 48, ["de", "fr"], "k")


# --- vocabulary


def test_texts_are_split_as_sentencepiece_splits_them(made):
    """Into the likeliest pieces; also texts that it was not made of, with other spaces and letters."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=written, model_type="unigram", vocab_size=48,
        normalization_rule_name="nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>",
        control_symbols=[">>de<<", ">>fr<<"], minloglevel=2,
    )  # fmt: skip
    reference = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    assert made["piece"].tolist() == [reference.id_to_piece(i) for i in range(48)]
    assert made["score"].tolist() == [reference.get_score(i) for i in range(48)]
    tokenizer = vocabulary.tokenizer(made)
    for text in [*TEXTS, "  the   old house ", "the ﬁrst X", ""]:
        assert tokenizer(text)["input_ids"] == [*reference.encode(text), 1]
    for text in TEXTS:
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@pytest.mark.parametrize(("size", "bound"), [(10, "least"), (5000, "most")])
def test_a_size_that_does_not_fit_the_texts(size, bound):
    """The number in the error is one that fits."""
    with pytest.raises(
        DataError, match=f"k: got {size} for the training texts, expected at {bound}"
    ) as caught:
        vocabulary.pieces(TEXTS, size, ["de"], "k")
    named = int(str(caught.value).split()[-1])
    assert len(vocabulary.pieces(TEXTS, named, ["de"], "k")) == named


def test_the_language_is_told_before_the_source(made):
    tokenizer = vocabulary.tokenizer(made)
    assert vocabulary.language_tokens(tokenizer) == {"de": ">>de<<", "fr": ">>fr<<"}
    settings = classes("") | {"target_language": "fr", "prefix": "our "}
    task = ENCODING.completed(tokenizer, settings, 16, "tasks.a")
    assert task["prefix"] == ">>fr<< our " and task["before"] == [] and task["after"] == [1]
    frame, _ = tokenization.encode(tokenizer, table(("day", None, "boat")), 16, task)
    assert frame["input_ids"][0] == [4, *tokenizer("our day")["input_ids"]]
    assert frame["target_ids"][0] == tokenizer("boat")["input_ids"]
    for language, problem in {
        "frr": "the tokenizer has no 'frr'; expected one of de, fr, ... Did you mean 'fr'?",
        None: "missing",
    }.items():
        with pytest.raises(ModelError) as caught:
            ENCODING.completed(tokenizer, classes("") | {"target_language": language}, 16, "tasks.a")
        assert str(caught.value).startswith(f"tasks.a.target_language: {problem}")


# --- model


def test_its_sizes_are_those_described():
    encoder = encoders.load(MODEL, "models.m")
    gates, config = HeadGates(encoder), encoder.config
    assert (config.encoder_layers, config.decoder_layers, config.d_model, config.vocab_size) == (2, 2, 32, 48)
    assert config.encoder_ffn_dim == config.decoder_ffn_dim == 128 and config.dropout == 0.1
    assert gates.exists.shape == (6, 4) and gates.exists.all()
    assert np.array_equal(head_settings.exists(MODEL, "m"), gates.exists)
    assert tokenization.kinds_of_attention(MODEL, "m") == {"encoder": 2, "decoder": 2, "cross": 2}
    weights = encoder.model.encoder.layers[0].fc1.weight
    assert weights.std().item() == pytest.approx(32**-0.5, rel=0.05)


@pytest.mark.slow
def test_deep_ones_learn():
    """To copy tokens; where sublayers are normalised after themselves, the loss is still above 2.5."""
    sizes = {"layers": 6, "heads": 4, "hidden": 64, "inner": 128, "dropout": 0.0, "vocabulary": 60}
    encoder = encoders.load(Model(transformer=sizes), "models.m")
    optimizer = torch.optim.AdamW(encoder.train().parameters(), lr=2e-3)
    rng = torch.Generator().manual_seed(0)
    for _ in range(150):
        ids = torch.randint(3, 60, (32, 6), generator=rng)
        targets = decoding.Targets(torch.ones_like(ids), ids, [""] * 32)
        states = encoder.get_encoder()(input_ids=ids, attention_mask=targets.source).last_hidden_state
        loss = decoding.losses(encoder, states, targets).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() < 1.5


def test_every_seed_draws_its_own_weights():
    first, again, other = (
        torch.cat([p.flatten() for p in encoders.load(MODEL, "models.m", seed).parameters()])
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)


# --- config


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("models.m", {}, "models.m: got neither, expected one of source and transformer."),
        ("models.m.source", "x", "models.m: got both, expected one of source and transformer."),
        ("models.m.transformer.hidden", 30, "transformer.hidden: got 30, expected a multiple of heads, 4."),
        ("models.m.weights", "random", "models.m.weights: has no effect with transformer; remove it."),
        ("models.m.heads", {"a": "b.csv"}, "models.m.heads: has no effect with transformer"),
        ("tasks.fr.target_language", None, "tasks.fr.target_language: missing, expected the language that"),
        ("tasks.fr.target_language", "fr FR", "tasks.fr.target_language: got 'fr FR', expected the language"),
        ("models.m.max_length", 2000, "models.m.max_length: got 2000, but a transformer has positions"),
        ("tasks.fr", {"source": "x"}, "models.m.transformer: it is of type m2m_100, an encoder-decoder, but "
         "tasks.fr is a classification task"),
        ("pruning", {"fraction": 0.3, "heads": [25]}, "more than the 24 heads of models.m"),
    ],
)  # fmt: skip
def test_wrong_descriptions_and_what_they_cannot_be_used_for(key, value, expected):
    with pytest.raises(HeadspecError) as caught:
        loaded = load(changed(STUDY, {key: value}))
        study_checks.check_models(loaded)
        head_settings.check_head_counts(loaded)
    assert expected in str(caught.value)
