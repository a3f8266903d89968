"""Tasks as prompts, compared with loops over plain models of transformers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.atlas.ablation import ABLATION, MEAN_ABLATION, ablate
from headspec.atlas.attention import attention_measures
from headspec.atlas.relevance import loss_gradients, relevances
from headspec.errors import ModelError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import batching
from headspec.models import language as language_head
from headspec.models.devices import Device
from headspec.models.language import load_language_model
from headspec.prompts.head import prompted
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import CONTENT_FREE, demonstrations
from support import language
from support.language import CLASSES
from support.reference.prompted import TASKS, WITHOUT, Made
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS

SCORED = [task for task in TASKS if task != "one"]


@pytest.fixture(scope="module", params=["llama", "gpt2", "bert"])
def made(request, tmp_path_factory) -> Made:
    return Made(request.param, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Made:
    return Made("llama", tmp_path_factory.mktemp("llama"))


@torch.no_grad()
def losses(made: Made, task: str, device: Device = CPU) -> torch.Tensor:
    batch = made.examples[task].batch(made.rows(task))
    with device.cast():
        return made.joint.losses(task, made.joint.pool(batch), batch.labels)


#: one of every way to read prompts: causal, masked, without tokens of two texts
QUICK = {"llama", "gpt2", "qwen3", "bert", "roberta", "albert"}


@torch.no_grad()
@pytest.mark.parametrize("kind", cases([*language.CAUSAL, *language.MASKED], QUICK.__contains__))
def test_log_likelihoods_are_those_of_every_answer_alone(kind, tmp_path):
    """Up to a constant: what all begin with is left out, and logits of single tokens are no probabilities."""
    made = Made(kind, tmp_path)
    for task, examples in made.examples.items():
        found, expected = made.logits(task), torch.stack([made.loop(task, row) for row in made.rows(task)])
        differences = [each[:, 1] - each[:, 0] for each in (found, expected)]
        torch.testing.assert_close(*differences, rtol=1e-4, atol=1e-4)
        if task in ("whole", "answers"):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert differences[0].std() > 2e-3
        if task in SCORED:
            tokens = [len(each) for texts in examples.gold.columns["continuations"] for each in texts]
            assert min(tokens) < max(tokens)


def test_losses_and_importance_are_those_of_a_loop(made):
    for task in made.tasks:
        gates, alone, expected = torch.ones(LAYERS, HEADS, requires_grad=True), [], []
        with made.gated(gates):
            for row in made.rows(task):
                loss = made.loss(task, row)
                alone.append(torch.autograd.grad(loss, gates)[0].numpy())
                expected.append(loss.item())
        np.testing.assert_allclose(losses(made, task), expected, rtol=1e-4, atol=1e-4)
        found = gate_gradients(made.joint, task, made.examples[task], made.rows(task), CPU)
        assert np.abs(alone).mean(0).min() > 0
        np.testing.assert_allclose(found, alone, rtol=2e-3, atol=2e-3 * np.abs(alone).max())


@torch.no_grad()
def test_predictions_under_masks_are_those_of_the_language_model(made):
    closed = np.random.default_rng(1).random((LAYERS, HEADS)) < 0.5
    masks = [Mask("t", "top", 0.5, None, closed), Mask("none", None, 0.0, None, closed & False)]
    for task, values in predictions(made.joint, made.examples, masks, CPU).items():
        for mask, under_mask in zip(masks, values, strict=True):
            with made.gated(torch.from_numpy(~mask.closed).float()):
                expected = [made.prediction(task, row) for row in made.rows(task)]
            np.testing.assert_allclose(under_mask, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", SCORED)
def test_heads_are_ablated_and_attributed_as_those_of_single_texts(llama, task):
    rows, examples, joint = llama.rows(task), llama.examples[task], llama.joint
    ablated = ablate(joint, task, examples, rows, CPU, (ABLATION, MEAN_ABLATION))
    assert np.abs(ablated.increase[MEAN_ABLATION]).max() > 1e-4
    gates = torch.ones(LAYERS, HEADS)
    gates[1, 2] = 0
    with llama.gated(gates), torch.no_grad():
        expected = [llama.loss(task, row).item() for row in rows]
    increase = np.array(expected) - losses(llama, task).numpy()
    np.testing.assert_allclose(ablated.increase[ABLATION][:, 1, 2], increase, rtol=2e-3, atol=2e-5)
    by_gate = gate_gradients(joint, task, examples, rows, CPU)
    signed, absolute = np.moveaxis(loss_gradients(joint, task, examples, rows, CPU), 1, 0)
    np.testing.assert_allclose(signed, by_gate, rtol=2e-3, atol=2e-3 * np.abs(by_gate).max())
    assert (absolute >= np.abs(signed) - 1e-5).all()
    assert np.abs(relevances(joint, task, examples, rows, CPU)).max() > 1e-4


def test_attention_of_continuations_does_not_fall_on_each_other(llama):
    measures = attention_measures(llama.joint, llama.examples, 5, [], CPU)
    assert set(measures["task"]) == set(TASKS) and np.isfinite(measures["value"]).all()
    branches = torch.tensor([[0, 0, 1, 1, 2, -1]])
    of = batching.continuations_attention(branches, torch.float32)
    assert of["position_ids"][0, :5].tolist() == [0, 1, 2, 3, 2]
    attended = of["attention_mask"][0, 0] == 0
    assert attended[4].tolist() == [True, True, False, False, True, False]
    assert attended[3].tolist() == [True, True, True, True, False, False]


@pytest.mark.parametrize("task", SCORED)
def test_vocabularies_in_parts_and_bf16_give_the_same(llama, task, monkeypatch):
    whole, rows = losses(llama, task), llama.rows(task)
    gradients = gate_gradients(llama.joint, task, llama.examples[task], rows, CPU)
    cast = losses(llama, task, Device("cpu", "bfloat16"))
    assert torch.corrcoef(torch.stack([whole, cast]))[0, 1] > 0.98
    monkeypatch.setattr(language_head, "LOGITS", 3 * llama.plain.config.vocab_size)
    torch.testing.assert_close(losses(llama, task), whole)
    in_parts = gate_gradients(llama.joint, task, llama.examples[task], rows, CPU)
    np.testing.assert_allclose(in_parts, gradients, rtol=1e-3, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "roberta"])
def test_calibrated_prompts_without_content_prefer_no_class(kind, tmp_path):
    made = Made(kind, tmp_path, calibrated=True)
    for task in made.answers.keys() & {*made.tasks}:
        table = made.tables[task]
        plain = torch.stack([made.loop(task, row).softmax(0) for row in made.rows(task)])
        made.tables[task] = pd.DataFrame({"text_a": [*CONTENT_FREE]})
        mean = torch.stack([made.loop(task, row).softmax(0) for row in range(3)]).mean(0)
        made.tables[task] = table
        found = made.logits(task).softmax(1)
        expected = plain / mean / (plain / mean).sum(1, keepdim=True)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
        assert (found - plain).abs().max() > 1e-3


def test_long_texts_are_cut_and_the_rest_of_the_prompt_is_kept(llama):
    prompts, before = llama.prompts["one"], llama.prompts["one"].most
    frame = llama.encoded("one")[0]
    prompts.most = most = int(frame["input_ids"].str.len().max()) - 3
    alone = llama.tables["one"].assign(text_b=np.nan)  # as tables of single texts are read
    cut, truncated = llama.encoded("one", alone)
    prompts.most = before
    lengths = frame["input_ids"].str.len()
    assert truncated == (lengths > most).sum() > 0 and cut["input_ids"].str.len().max() <= most
    end = prompts.ids(" the house:")[-3:]
    assert all(ids[-3:] == end for ids in cut["input_ids"])
    assert (cut["input_ids"] == frame["input_ids"]).sum() == (lengths <= most).sum()


def test_long_prompts_leave_room_for_answers_and_long_texts_end(llama):
    for task in SCORED:
        prompts, longest = llama.prompts[task], []
        before = prompts.most
        for cut in (0, 2):
            prompts.most = longest[0] - cut if cut else before
            frame, truncated = llama.encoded(task)
            pairs = zip(frame["input_ids"], frame["continuations"], strict=True)
            longest.append(max(len(ids) + max(map(len, each)) - 1 for ids, each in pairs))
        assert 0 < truncated < len(frame) and longest[1] <= prompts.most, task
        prompts.most = before


def test_masks_in_texts_are_not_taken_for_the_answer(tmp_path):
    made = Made("bert", tmp_path)
    frame = made.encoded("one", made.tables["one"].assign(text_a="a [MASK] bright [MASK] one"))[0]
    for ids, words in zip(frame["input_ids"], frame["words"], strict=True):
        places = np.flatnonzero(np.array(ids) == made.split.mask_token_id)
        assert len(places) == 3 and np.flatnonzero(np.array(words) == 0).tolist() == [places[-1]]


def test_special_tokens_that_prompts_begin_with_are_there_once(llama, tmp_path):
    for made, start, end in ((llama, "<s>", ""), (Made("bert", tmp_path), "[CLS]", "[SEP]")):
        expected, prompts = made.encoded("one")[0], made.prompts["one"]
        usual = prompts.wording
        wording = replace(usual, before=start + usual.before, prompt=usual.prompt + end)
        frame, _ = Prompts(made.split, wording, prompts.most, "tasks.one").encode(made.tables["one"], CLASSES)
        pd.testing.assert_frame_equal(frame, expected)
    pairs = llama.prompts["texts"]
    assert pairs.prompt("<s>the house", "<s>the old house") == pairs.prompt("the house", "the old house")


def test_demonstrations_are_of_all_classes_and_change_with_the_seed():
    table = language.table(40)
    drawn = [demonstrations(table, 4, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert all(part["label"].value_counts().tolist() == [2, 2] for part in drawn)
    assert drawn[0].equals(drawn[1]) and set(drawn[0]["example"]) != set(drawn[2]["example"])


def test_the_language_model_is_found_at_its_origin(llama):
    folder = llama.path.parent / "saved"
    assert (folder / "model.safetensors").stat().st_size < 1000
    assert llama.joint.head.tokens.out_features == llama.plain.config.vocab_size


def test_models_that_do_not_read_continuations_beside_each_other_are_refused(tmp_path):
    whole = load_language_model(language.make(WITHOUT, tmp_path / "m"), "models.m")
    with pytest.raises(ModelError, match="models.m cannot have whole answers or texts scored.*one token"):
        prompted(whole, {"t": []}, {"t": {"type": "classification", "labels": CLASSES}}, "models.m")


def test_one_text_may_begin_another(llama):
    pairs = llama.prompts["texts"]
    found = pairs.prompt("the house was", "the house was really lovely")
    assert all(len(each) > 0 for each in found.continuations) and len(found.input_ids) > 0
    whole = [found.input_ids + each for each in found.continuations]
    assert whole[1][: len(whole[0])] == whole[0]
