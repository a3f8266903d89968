"""Encoder-decoders of every type learn to write texts, and write them."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from snakemake.iocontainers import Namedlist
from transformers import PreTrainedTokenizerBase

from headspec import tables
from headspec.config.loading import load as study
from headspec.config.sections.model import Model
from headspec.errors import ChangedError, HeadspecError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import tokenization
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import folders, study_checks
from headspec.models.stage import ModelStage
from headspec.models.tokenization import encode, kinds_of_attention
from headspec.tables import INT, Schema
from headspec.tasks.kinds.translation import head as decoding
from headspec.tasks.kinds.translation.encoding import ENCODING
from support.data.labelled_texts import table
from support.models import LANGUAGES, TRANSLATORS
from support.reference.contexts import zeroed
from support.running.studies import CONFIG, changed, local_model
from support.tiers import cases
from support.tiny import CPU, ENCODER_DECODERS, HEADS, KINDS, families
from support.translators import DESCRIBED, classes, translator


@pytest.fixture(
    scope="module", params=cases([*TRANSLATORS, DESCRIBED], [*families(TRANSLATORS), DESCRIBED].__contains__)
)
def made(request, model_folder) -> tuple[MultiTask, Examples]:
    """A model that has learnt a little, so that what it writes depends on what it reads."""
    name = request.param
    model, examples = translator(None if name == DESCRIBED else model_folder(name), name)
    batch, course = examples.batch(np.arange(8)), []
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    while len(course) < 60 and (not course or course[-1] > course[0] / 2):
        loss = model.losses("a", model.pool(batch), batch.labels).mean()
        course.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert course[-1] < 0.7 * course[0], "it learns"
    return model, examples


@torch.no_grad()
def losses(model: MultiTask, examples: Examples) -> torch.Tensor:
    batch = examples.batch(np.arange(8))
    return model.losses("a", model.pool(batch), batch.labels)


def test_losses_are_those_of_the_model_itself_and_smoothing_mixes_in_all_tokens(made):
    """The model shifts the targets by its own rules, for one text at a time without padding."""
    model, examples = made
    together, head = losses(model, examples), model.classifier("a")
    head.smoothing = 0.3
    head.train()  # the rest is without dropout
    smoothed = losses(model, examples)
    head.eval()
    head.smoothing = 0.0
    for row, target in enumerate(examples.gold.columns["ids"]):
        ids, labels = torch.tensor([examples.ids[row]]), torch.tensor([list(target)])
        with torch.no_grad():
            alone = model.encoder(input_ids=ids, labels=labels)
        all_tokens = -alone.logits.log_softmax(-1).mean()
        torch.testing.assert_close(together[row], alone.loss, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(smoothed[row], 0.7 * alone.loss + 0.3 * all_tokens, rtol=1e-4, atol=1e-4)


def likeliest(model: MultiTask, source: torch.Tensor, task: dict, ids: torch.Tensor) -> list[int]:
    """The likeliest token after all before, from the first of `ids`, without a cache."""
    for place in range(task["longest"]):
        logits = model.encoder(input_ids=source, decoder_input_ids=ids).logits[0, -1]
        if suppressed := model.encoder.generation_config.bad_words_ids:
            logits[suppressed[0]] = -np.inf
        forced = task["before"][0] if place == 0 and task["before"] else None
        ids = torch.cat([ids, torch.tensor([[logits.argmax() if forced is None else forced]])], 1)
        if ids[0, -1] == model.encoder.config.eos_token_id and forced is None:
            break
    return ids[0].tolist()


@torch.no_grad()
def test_texts_are_the_likeliest_tokens_or_the_beams_of_transformers(made):
    """In a padded batch with a cache as for one text alone."""
    model, examples = made
    batch, task, tokenizer = examples.batch(np.arange(8)), model.classes["a"], model.tokenizer
    assert isinstance(task, dict) and tokenizer is not None
    states, around = model.pool(batch), torch.tensor([task["before"] + task["after"]])
    first = decoding.begun(model.encoder, around)[:, :1]
    greedy, searched = (
        decoding.written(model.encoder, states, batch.labels, task, tokenizer, beams) for beams in (1, 4)
    )
    for row in range(8):
        source = torch.tensor([examples.ids[row]])
        ids = likeliest(model, source, task, first)
        beams = model.encoder.generate(
            input_ids=source, num_beams=4, max_new_tokens=task["longest"],
            decoder_start_token_id=int(first), forced_bos_token_id=(task["before"] or [None])[0],
        )  # fmt: skip
        assert greedy[row] == decoding.without_marks(tokenizer, ids, task)
        assert searched[row] == decoding.without_marks(tokenizer, beams[0].tolist(), task)
    assert len(set(greedy)) > 1 and greedy != searched


def test_predictions_follow_beams_and_closed_heads_as_zeroed_weights(made):
    model, examples = made
    closed = np.zeros((model.gates.layers, HEADS), dtype=bool)
    closed[::2] = True  # of every kind of attention
    masks = [Mask("none", None, 0.0, None, closed & False), Mask("a", "top", 0.1, None, closed)]
    plain, pruned = predictions(model, {"a": examples}, masks, CPU)["a"]
    with zeroed(model.gates, closed):
        without = predictions(model, {"a": examples}, masks[:1], CPU)["a"][0]
    assert (pruned == without).all() and (plain != pruned).any()
    model.set_beams({"a": 4})
    searched = predictions(model, {"a": examples}, masks[:1], CPU)["a"][0]
    model.set_beams({"a": 1})
    assert (searched != plain).any()


def test_gradients_of_gates_are_those_of_each_text_and_finite_differences(made):
    model, examples = made
    batched = gate_gradients(model, "a", examples, np.arange(8), CPU)
    rows = model.gates.layers
    assert batched.shape == (8, rows, HEADS)
    for row in (0, 1, 5):
        alone = gate_gradients(model, "a", examples, np.array([row]), CPU)[0]
        np.testing.assert_allclose(batched[row], alone, rtol=2e-3, atol=5e-5 * np.abs(alone).max())
    step = 1e-4 if "t5" in model.encoder.config.model_type else 1e-3  # whose attention is steep
    model.double()  # the steps are small
    for layer, head in [(0, 0), (rows // 2, 2), (rows - 1, 3)]:  # of every kind of attention
        gates, ends = torch.ones(rows, HEADS, dtype=torch.float64), []
        for sign in (1, -1):
            gates[layer, head] = 1 + sign * step
            with model.gates.at(gates):
                ends.append(losses(model, examples))
        difference = ((ends[0] - ends[1]) / (2 * step)).numpy()
        scale = np.abs(batched).max()
        np.testing.assert_allclose(batched[:, layer, head], difference, rtol=0.02, atol=1e-2 * scale)
    model.float()


def test_a_saved_model_is_the_same(made, tmp_path):
    model, examples = made
    model.save(tmp_path)
    loaded, batch = MultiTask.load(tmp_path), examples.batch(np.arange(8))
    weights = loaded.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    with torch.no_grad():
        found = [one.predictions("a", one.pool(batch), batch.labels) for one in (model, loaded)]
    assert torch.equal(*found) and len(found[0].unique()) > 1


def test_every_type_has_its_layers_by_kind_in_the_config(model_folder):
    assert {kind for kind, _, _ in TRANSLATORS.values()} == set(ENCODER_DECODERS)
    for name in TRANSLATORS:
        assert kinds_of_attention(Model(source=str(model_folder(name))), "m") == KINDS


# --- tokens


def completed(folder: Path, name: str, longest: int = 16, **settings) -> tuple[PreTrainedTokenizerBase, dict]:
    """The tokenizer of a model, and a task with these settings as its jobs take it."""
    tokenizer = tokenization.tokenizer(Model(source=str(folder)), "m")
    return tokenizer, ENCODING.completed(tokenizer, classes(name) | settings, longest, "tasks.a")


@pytest.mark.parametrize("name", TRANSLATORS)
def test_targets_have_their_language_and_their_end(model_folder, name):
    tokenizer, task = completed(model_folder(name), name)
    frame, truncated = encode(tokenizer, table(("the old house", None, "our boat")), 16, task)
    target, before, after = list(frame["target_ids"][0]), task["before"], task["after"]
    assert target[: len(before)] == before and target[len(target) - len(after) :] == after
    assert decoding.without_marks(tokenizer, target, task).strip() == "our boat"
    assert tokenizer.eos_token_id in after and not truncated
    if name in LANGUAGES:
        source, language = (tokenizer.lang_code_to_id[each] for each in LANGUAGES[name])
        assert language in before + after and source in list(frame["input_ids"][0])


def test_a_prefix_stands_before_every_source(model_folder):
    tokenizer, task = completed(model_folder("t5"), "t5", prefix="our day: ")
    frame, _ = encode(tokenizer, table(("the old house", None, "our boat")), 16, task)
    assert list(frame["input_ids"][0]) == tokenizer("our day: the old house")["input_ids"]


def test_long_texts_are_cut_and_counted(model_folder):
    tokenizer, task = completed(model_folder("marian"), "marian", 8)
    rows = table(("the " * 20, None, "boat"), ("boat", None, "the " * 20), ("boat", None, "the"))
    frame, truncated = encode(tokenizer, rows, 8, task)
    assert truncated == 2 and [len(ids) for ids in frame["input_ids"]] == [8, 2, 2]
    assert [list(ids)[-1] for ids in frame["target_ids"]] == [0, 0, 0]


TASK = {"source": "x", "label": "de", "type": "translation"}
STUDY = CONFIG | {
    "models": {"m": {"max_length": 16}},
    "tasks": {"a": TASK, "b": TASK | {"label": "fr"}},
    "mixtures": {"pairs": ["a", "b"]},
    "methods": ["tuned"],
}
TEXTS = {"tasks.a.type": "classification", "tasks.b.type": "classification"}


@pytest.mark.parametrize(
    ("source", "changes", "expected"),
    [
        ("t5", {"tasks.a.type": "classification"}, "is of type t5, an encoder-decoder, but tasks.a is a"),
        ("gpt2", {}, "gpt2, which has no cross-attention and writes no texts for tasks.a; expected"),
        ("m2m100", {"tasks.a.target_language": "dee", "tasks.a.source_language": "en"},
         "tasks.a.target_language: the tokenizer has no 'dee'; expected one of af"),
        ("m2m100", {}, "tasks.b.source_language: missing, expected one of the tokenizer's languages: af"),
        ("mbart", {"tasks.a.source_language": "en_XX", "tasks.a.target_language": "de"},
         "tasks.a.target_language: the tokenizer has no 'de'; expected one of ar_AR"),
        ("t5", {"tasks.a.target_language": "de"},
         "tasks.a.target_language: the tokenizer has no 'de'; expected none"),
        ("t5", {"tasks.a.text_b": "cs"}, "tasks.a.text_b: not used by a task of translation; remove"),
        ("t5", {"tasks.a.labels": {"x": "y"}}, "tasks.a.labels: not used by a task of translation"),
        ("t5", {"tasks.a.metrics": ["accuracy"]}, "tasks.a.metrics.0: got 'accuracy' for type translation"),
        ("t5", {"tasks.a.type": "regression", "tasks.a.prefix": "x"},
         "tasks.a.prefix: has no effect for a regression task"),
        ("bert", TEXTS | {"gates.attention": ["encoder"]},
         "gates.attention: got encoder, but models.m.source"),
    ],
)  # fmt: skip
def test_models_tasks_and_keys_that_do_not_belong_together_are_refused_before_any_job(
    model_folder, source, changes, expected
):
    with pytest.raises(HeadspecError) as caught:
        loaded = study(changed(STUDY, {"models.m.source": str(model_folder(source))} | changes))
        study_checks.check_models(loaded)
        study_checks.check_languages(loaded)
    assert expected in str(caught.value)


def test_a_tokenizer_that_did_not_make_the_tokens_of_a_job_is_refused(tmp_path):
    folder, tokens = local_model(tmp_path / "model"), tmp_path / "tokens.parquet"
    source = Model(source=str(folder))
    made = {
        "params": [repr(folders.version(source, "models.m", "tokenizer"))],
        "output": {str(tokens): None},
    }
    schema = Schema({"id": INT}, keys=1)
    tables.write(tokens, schema, pd.DataFrame({"id": [0]}), {"job": made})
    params = SimpleNamespace(model={"source": source.source})
    job = SimpleNamespace(key="models.m", snakemake=SimpleNamespace(params=params, input=Namedlist()))
    job.snakemake.input.tokens = [str(tokens)]
    assert ModelStage.tokenizer(job, {"a": {"type": "classification"}}) is None
    assert ModelStage.tokenizer(job, {"a": {"type": "translation"}}).get_vocab()
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"tram"', '"trams"'))
    with pytest.raises(ChangedError, match="models.m.source: .* was replaced after this job was planned"):
        ModelStage.tokenizer(job, {"a": {"type": "translation"}})
