"""The operations of texts that are read and written are those that torch counts in the model itself."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headspec.config.loading import load
from headspec.cost import throughput, translated, workload
from headspec.models.multitask import MultiTask
from headspec.tasks.translation import decoding
from support.models import TEXTS, make
from support.running.studies import CONFIG
from support.tiny import CPU, ENCODER_DECODERS, encoder

SOURCE, TARGET = 9, 5
BATCH = decoding.ROWS  # the head is given no row in vain


def counted(kind: str, beams: int) -> tuple[float, float]:
    """Operations per example of the loss of texts, and of writing them, in a model with weights."""
    model = encoder(kind, eos_token_id=None, forced_eos_token_id=None)
    model.generation_config.eos_token_id = None
    model.set_attn_implementation("eager")  # torch does not count fused attention on a CPU
    ids, targets = torch.full((BATCH, SOURCE), 7), torch.full((BATCH, TARGET), 8)
    mask = torch.ones_like(ids)
    labels = decoding.Targets(mask, targets, [""] * BATCH)
    classes = {"before": [], "after": [8], "longest": TARGET}
    tokenizer = translated.model(translated.reduced(model.config, 1, 97), TARGET).tokenizer
    with torch.no_grad(), FlopCounterMode(display=False) as loss:
        states = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        decoding.losses(model, states, labels)
    with torch.no_grad(), FlopCounterMode(display=False) as text:
        states = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        decoding.written(model, states, labels, classes, tokenizer, beams)
    return loss.get_total_flops() / BATCH, text.get_total_flops() / BATCH


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
@pytest.mark.parametrize("beams", [1, 3])
def test_operations_are_those_of_the_model(kind, beams):
    config = encoder(kind).config
    known = translated.known(config, SOURCE, TARGET, BATCH)
    written = translated.written(config, SOURCE, TARGET, BATCH, beams)
    assert (known, written) == pytest.approx(counted(kind, beams), rel=1e-9)


def test_operations_of_marian_by_hand():
    """A multiplication and an addition count as two."""
    config = encoder("marian").config
    width, inner, words = config.d_model, config.encoder_ffn_dim, config.vocab_size
    matrices = 4 * width**2 + 2 * width * inner
    read = config.encoder_layers * (2 * matrices * SOURCE + 4 * width * SOURCE**2)
    cross = 4 * width**2 * SOURCE + 4 * width**2 * TARGET + 4 * width * SOURCE * TARGET
    alone = 2 * matrices * TARGET + 4 * width * TARGET**2
    output = 2 * width * words * TARGET
    by_hand = read + config.decoder_layers * (cross + alone) + output
    assert translated.known(config, SOURCE, TARGET, 1) == by_hand
    saved = config.decoder_layers * 4 * width * (TARGET**2 - TARGET * (TARGET + 1) / 2)
    assert translated.written(config, SOURCE, TARGET, 1) == pytest.approx(
        translated.known(config, SOURCE, TARGET, 1) - saved
    )


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_the_speed_of_a_smaller_model_is_measured(kind):
    full = encoder(kind).config
    small = throughput.reduced(full)
    assert throughput.parameters(small) < throughput.parameters(full) or small.vocab_size > full.vocab_size
    texts = throughput.random_examples(3, TARGET, writes=True)
    model: MultiTask = translated.model(small, TARGET).eval()
    batch = texts.batch(np.arange(3))
    with torch.no_grad():
        states = model.pool(batch)
        ids = model.encoder.generate(
            encoder_outputs=decoding._output(states), max_new_tokens=TARGET, num_beams=1
        )
    assert ids.shape == (3, TARGET + 1)  # nothing ends early
    assert all(rate > 0 for rate in throughput.measure(full, TARGET, 2, CPU, 0.0).values())


# --- the size of a study


def config(model: dict, **settings) -> dict:
    task = {"source": "pairs.tsv", "text_a": "en", "label": "de", "type": "translation", **settings}
    return CONFIG | {
        "models": {"m": model | {"max_length": 16}},
        "tasks": {"de": task},
        "mixtures": {"single": ["de"]},
        "methods": ["tuned"],
    }


@pytest.fixture
def here(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = list(dict.fromkeys(TEXTS))
    longer = [f"{text} , and {text}" for text in texts]
    pd.DataFrame({"en": texts, "de": longer}).to_csv("pairs.tsv", sep="\t", index=False)


def test_tokens_of_both_sides_are_counted(here):
    make("t5", Path("t5"))
    extent = workload.study_extent(load(config({"source": "t5"})))
    assert not extent.problems and extent.lengths["m", "de"].counted
    assert extent.lengths["m", "de"].example < extent.lengths["m", "de"].target == 16  # cut


def test_words_stand_for_the_pieces_of_a_vocabulary_that_is_still_to_be_made(here):
    sizes = {"layers": 1, "heads": 4, "hidden": 32, "vocabulary": 45}
    extent = workload.study_extent(load(config({"transformer": sizes}, target_language="de", beams=3)))
    words = np.array([len(text.split()) for text in dict.fromkeys(TEXTS)])
    assert extent.lengths["m", "de"].example == pytest.approx(words.mean() + 2, abs=0.6)
    longer = (2 * words + 2).clip(max=15)  # cut
    assert extent.lengths["m", "de"].target == pytest.approx(longer.mean() + 1, abs=0.6)
    lengths = extent.lengths["m", "de"].example, extent.lengths["m", "de"].target
    model = extent.configs["m"]
    assert extent.forward("m", "de", False) == translated.known(model, *lengths, 16)
    assert extent.forward("m", "de", False, True) == translated.written(model, *lengths, 16, 3)
