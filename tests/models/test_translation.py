"""Encoder-decoders of every type learn to write texts, and write them."""

import numpy as np
import pytest
import torch

from headspec.config.loading import load as study
from headspec.config.sections.model import Model
from headspec.errors import EncoderError, HeadspecError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import study_checks
from headspec.models.tokens import tokenization
from headspec.models.tokens.tokenization import encode, kinds_of_attention
from headspec.tasks import kinds
from headspec.tasks.translation import decoding
from headspec.tasks.translation.tokens import ENCODING
from support.contexts import zeroed
from support.data.labelled_texts import table
from support.models import LANGUAGES, TRANSLATORS
from support.running.studies import CONFIG
from support.tiers import cases
from support.tiny import CPU, ENCODER_DECODERS, HEADS, KINDS, by_family
from support.translators import DESCRIBED, classes, translator


@pytest.fixture(
    scope="module", params=cases([*TRANSLATORS, DESCRIBED], [*by_family(TRANSLATORS), DESCRIBED].__contains__)
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


def losses(model: MultiTask, examples: Examples, rows: np.ndarray) -> torch.Tensor:
    batch = examples.batch(rows)
    with torch.no_grad():
        return model.losses("a", model.pool(batch), batch.labels)


def test_losses_are_those_of_the_model_itself(made):
    """Which shifts the targets by its own rules, for one text at a time without padding."""
    model, examples = made
    together = losses(model, examples, np.arange(8))
    for row, target in enumerate(examples.gold.columns["ids"]):
        ids, labels = torch.tensor([examples.ids[row]]), torch.tensor([list(target)])
        with torch.no_grad():
            alone = model.encoder(input_ids=ids, labels=labels).loss
        torch.testing.assert_close(together[row], alone, rtol=1e-4, atol=1e-4)


def ids_written(model: MultiTask, examples: Examples, row: int) -> list[int]:
    """The likeliest token after all before, without a cache."""
    task = model.classes["a"]
    assert isinstance(task, dict)
    around = torch.tensor([task["before"] + task["after"]])
    ids = decoding.begun(model.encoder, around)[:, :1]
    for place in range(task["longest"]):
        with torch.no_grad():
            source = torch.tensor([examples.ids[row]])
            logits = model.encoder(input_ids=source, decoder_input_ids=ids).logits[0, -1]
        if suppressed := model.encoder.generation_config.bad_words_ids:
            logits[suppressed[0]] = -np.inf
        forced = task["before"][0] if place == 0 and task["before"] else None
        ids = torch.cat([ids, torch.tensor([[logits.argmax() if forced is None else forced]])], 1)
        if ids[0, -1] == model.encoder.config.eos_token_id and forced is None:
            break
    return ids[0].tolist()


def test_texts_are_the_likeliest_tokens_one_after_the_other(made):
    """In a padded batch with a cache as alone without one."""
    model, examples = made
    batch = examples.batch(np.arange(8))
    task = model.classes["a"]
    assert isinstance(task, dict) and model.tokenizer is not None
    with torch.no_grad():
        states = model.pool(batch)
    written = decoding.written(model.encoder, states, batch.labels, task, model.tokenizer)
    alone = [ids_written(model, examples, row) for row in range(8)]
    assert written == [decoding.without_marks(model.tokenizer, ids, task) for ids in alone]
    assert len(set(written)) > 1


def test_beams_are_those_of_transformers(made):
    """In a padded batch as for one text at a time; the likeliest text differs from the greedy one."""
    model, examples = made
    batch, task = examples.batch(np.arange(8)), model.classes["a"]
    assert isinstance(task, dict) and model.tokenizer is not None
    with torch.no_grad():
        states = model.pool(batch)
    rest = states, batch.labels, task, model.tokenizer
    written = decoding.written(model.encoder, *rest, beams=4)
    first = int(decoding.begun(model.encoder, torch.tensor([task["before"] + task["after"]]))[0, 0])
    for row, text in enumerate(written):
        ids = model.encoder.generate(
            input_ids=torch.tensor([examples.ids[row]]), num_beams=4, max_new_tokens=task["longest"],
            decoder_start_token_id=first, forced_bos_token_id=(task["before"] or [None])[0],
        )  # fmt: skip
        assert text == decoding.without_marks(model.tokenizer, ids[0].tolist(), task)
    assert written != decoding.written(model.encoder, *rest)


def test_predictions_follow_the_beams_of_their_task(made):
    model, examples = made
    batch = examples.batch(np.arange(8))
    mask = Mask("none", None, 0.0, None, np.zeros((model.gates.layers, HEADS), dtype=bool))
    greedy = predictions(model, {"a": examples}, [mask], CPU)["a"][0]
    model.classifier("a").beams = 4
    followed = predictions(model, {"a": examples}, [mask], CPU)["a"][0]
    with torch.no_grad():
        at_once = model.predictions("a", model.pool(batch), batch.labels)
    model.classifier("a").beams = 1
    assert (followed == at_once.numpy()).all() and (followed != greedy).any()


def test_label_smoothing_mixes_targets_with_all_tokens(made):
    model, examples = made
    batch, head = examples.batch(np.arange(3)), model.classifier("a")
    head.smoothing = 0.3
    with torch.no_grad():
        plain = model.losses("a", model.pool(batch), batch.labels)
        head.train()  # the rest is without dropout
        smoothed = model.losses("a", model.pool(batch), batch.labels)
    head.eval()
    head.smoothing = 0.0
    for row in range(3):
        target = torch.tensor([list(examples.gold.columns["ids"][row])])
        with torch.no_grad():
            output = model.encoder(input_ids=torch.tensor([examples.ids[row]]), labels=target)
        all_tokens = -output.logits.log_softmax(-1).mean()
        torch.testing.assert_close(plain[row], output.loss, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(smoothed[row], 0.7 * output.loss + 0.3 * all_tokens, rtol=1e-4, atol=1e-4)


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
        ends = []
        for sign in (1, -1):
            gates = torch.ones(model.gates.layers, HEADS, dtype=torch.float64)
            gates[layer, head] += sign * step
            model.gates.values = gates
            ends.append(losses(model, examples, np.arange(8)))
        model.gates.values = None
        difference = ((ends[0] - ends[1]) / (2 * step)).numpy()
        scale = np.abs(batched).max()
        np.testing.assert_allclose(batched[:, layer, head], difference, rtol=0.02, atol=1e-2 * scale)
    model.float()


def test_closed_heads_change_texts_as_zeroed_weights_do(made):
    model, examples = made
    closed = np.zeros((model.gates.layers, HEADS), dtype=bool)
    closed[::2] = True  # of every kind of attention
    masks = [Mask("none", None, 0.0, None, closed & False), Mask("a", "top", 0.1, None, closed)]
    plain, pruned = predictions(model, {"a": examples}, masks, CPU)["a"]
    with zeroed(model.gates, closed):
        without = predictions(model, {"a": examples}, masks[:1], CPU)["a"][0]
    assert (pruned == without).all() and (plain != pruned).any()


def test_a_saved_model_is_the_same(made, tmp_path):
    model, examples = made
    model.save(tmp_path)
    loaded = MultiTask.load(tmp_path)
    rows = np.arange(8)
    weights = loaded.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    torch.testing.assert_close(  # the kernels of a product may differ with its place in memory
        losses(model, examples, rows), losses(loaded, examples, rows), rtol=1e-5, atol=0
    )
    batch = examples.batch(rows)
    with torch.no_grad():
        found = [one.predictions("a", one.pool(batch), batch.labels) for one in (model, loaded)]
    assert torch.equal(*found) and len(found[0].unique()) > 1


def test_every_type_has_its_layers_by_kind_in_the_config(model_folder):
    assert {kind for kind, _, _ in TRANSLATORS.values()} == set(ENCODER_DECODERS)
    for name in TRANSLATORS:
        assert kinds_of_attention(Model(source=str(model_folder(name))), "m") == KINDS


# --- tokens


def test_targets_have_their_language_and_their_end(model_folder):
    for name in TRANSLATORS:
        tokenizer = tokenization.tokenizer(Model(source=str(model_folder(name))), "m")
        task = ENCODING.completed(tokenizer, classes(name), 16, "tasks.a")
        frame, truncated = encode(tokenizer, table(("the old house", None, "our boat")), 16, task)
        target = list(frame["target_ids"][0])
        before, after = task["before"], task["after"]
        assert target[: len(before)] == before and target[len(target) - len(after) :] == after
        assert decoding.without_marks(tokenizer, target, task).strip() == "our boat"
        assert tokenizer.eos_token_id in after and not truncated
        if name in LANGUAGES:
            assert tokenizer.lang_code_to_id[LANGUAGES[name][1]] in before + after
            assert tokenizer.lang_code_to_id[LANGUAGES[name][0]] in list(frame["input_ids"][0])


def test_a_prefix_stands_before_every_source(model_folder):
    tokenizer = tokenization.tokenizer(Model(source=str(model_folder("t5"))), "m")
    task = ENCODING.completed(tokenizer, classes("t5") | {"prefix": "our day: "}, 16, "tasks.a")
    frame, _ = encode(tokenizer, table(("the old house", None, "our boat")), 16, task)
    assert list(frame["input_ids"][0]) == tokenizer("our day: the old house")["input_ids"]


def test_long_texts_are_cut_and_counted(model_folder):
    tokenizer = tokenization.tokenizer(Model(source=str(model_folder("marian"))), "m")
    task = ENCODING.completed(tokenizer, classes("marian"), 8, "tasks.a")
    rows = table(("the " * 20, None, "boat"), ("boat", None, "the " * 20), ("boat", None, "the"))
    frame, truncated = encode(tokenizer, rows, 8, task)
    assert truncated == 2 and [len(ids) for ids in frame["input_ids"]] == [8, 2, 2]
    assert [list(ids)[-1] for ids in frame["target_ids"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        ("mbart", "de", "tasks.a.target_language: the tokenizer has no 'de'; expected one of ar_AR"),
        ("m2m100", None, "tasks.a.target_language: missing, expected one of the tokenizer's languages: af"),
        ("t5", "de", "tasks.a.target_language: the tokenizer has no 'de'; expected none"),
    ],
)
def test_languages_that_a_tokenizer_lacks_are_refused(model_folder, name, language, message):
    tokenizer = tokenization.tokenizer(Model(source=str(model_folder(name))), "m")
    with pytest.raises(EncoderError) as caught:
        ENCODING.completed(tokenizer, classes(name) | {"target_language": language}, 16, "tasks.a")
    assert str(caught.value).startswith(message)


# --- refusals before any job


def planned(model_folder, source: str, **task) -> str:
    """What planning says of a study with a model and two tasks, one with these settings."""
    one = {"source": "x", "label": "de", "type": "translation"}
    config = CONFIG | {
        "models": {"m": {"source": str(model_folder(source)), "max_length": 16}},
        "tasks": {"a": one | task, "b": one | {"label": "fr"}},
        "mixtures": {"pairs": ["a", "b"]},
        "methods": ["tuned"],
    }
    with pytest.raises(HeadspecError) as caught:
        loaded = study(config)
        study_checks.check_models(loaded)
        kinds.KINDS["translation"].check(loaded.models, loaded.learnt)
    return str(caught.value)


def test_models_and_tasks_that_do_not_belong_together(model_folder):
    message = planned(model_folder, "t5", type="classification")
    assert "is of type t5, an encoder-decoder, but tasks.a is a classification task" in message
    message = planned(model_folder, "gpt2")
    assert "gpt2, which has no cross-attention and writes no texts for tasks.a; expected" in message


def test_languages_are_checked_before_any_job(model_folder):
    message = planned(model_folder, "m2m100", target_language="dee", source_language="en")
    assert message.startswith("tasks.a.target_language: the tokenizer has no 'dee'; expected one of af")
    assert "tasks.b.source_language: missing" in message


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"text_b": "cs"}, "tasks.a.text_b: got a value for a task of translation, expected none"),
        ({"labels": {"x": "y"}}, "tasks.a.labels: got a value for a task of translation"),
        ({"metrics": ["accuracy"]}, "tasks.a.metrics.0: got 'accuracy' for type translation"),
        ({"type": "regression", "prefix": "x"}, "tasks.a.prefix: has no effect for a regression task"),
    ],
)
def test_keys_that_a_translation_has_not_or_has_alone(model_folder, settings, expected):
    assert expected in planned(model_folder, "t5", **settings)


def test_a_model_of_one_kind_of_attention_has_no_other_that_closes(model_folder):
    models = {"m": {"source": str(model_folder("bert")), "max_length": 16}}
    config = CONFIG | {"models": models, "gates": {"attention": ["encoder"]}}
    with pytest.raises(EncoderError) as caught:
        study_checks.check_models(study(config))
    assert str(caught.value).startswith(
        "gates.attention: got encoder, expected none, because models.m.source"
    )
