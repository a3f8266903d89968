"""Answers of several tokens and pairs of continuations, compared with loops over plain models."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from headspec.atlas.ablation import ABLATION, MEAN_ABLATION, ablate
from headspec.atlas.attention import attention_measures
from headspec.atlas.relevance import loss_gradients, relevances
from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.language import head as language_head
from headspec.models.language.head import language_model
from headspec.models.multitask import MultiTask
from headspec.models.tokens import continuations
from headspec.models.tokens.tokenization import tokenizer
from headspec.prompts.head import calibrate, prompted
from headspec.tasks.answer_pairs.prompts import AnswerPairs
from headspec.tasks.continuations.data import CLASSES as PAIR
from headspec.tasks.minimal_pairs.prompts import Pairs
from headspec.tasks.texts.prompts import Prompts
from headspec.tasks.texts.wording import CONTENT_FREE, Wording
from support import language
from support.language import CLASSES, PROMPT
from support.tiny import CPU, HEADS, LAYERS

#: types whose code takes a mask of which tokens attend to which
KINDS = [name for name in language.CAUSAL if name != "openai-gpt"]
TASKS = {"whole": "classification", "texts": "minimal_pairs", "answers": "answer_pairs"}
#: of both classes; they begin with the same token, and do not have the same number of tokens
WHOLE = {"bad": " really awful house", "good": " really lovely"}


class Made:
    """A model with a task of each kind, and what the loops compute from the same folder."""

    def __init__(self, kind: str, folder, most: int = 64, calibrated: bool = False) -> None:
        self.path = language.make(kind, folder / kind)
        settings = Model(source=str(self.path), max_length=most)
        split = tokenizer(settings, "models.m")
        table = language.table()
        self.shown = table.iloc[[4, 1]]
        table = table.drop(index=self.shown.index).reset_index(drop=True)
        texts = table["text_a"].tolist()
        swapped = [" ".join([*text.split()[:3], *text.split()[:2:-1]]) for text in texts]
        own = [[f" {text.split()[-1]}", f" {text.split()[0]} the"] for text in texts]
        whole = Wording(PROMPT, tuple(WHOLE[name] for name in CLASSES)).showing(self.shown, CLASSES)
        self.prompts = {
            "whole": Prompts(split, whole, most, "tasks.whole"),
            "texts": Pairs(split, Wording("", ()), most, "tasks.texts"),
            "answers": AnswerPairs(split, Wording(PROMPT, ()), most, "tasks.answers"),
        }
        self.tables = {
            "whole": table,
            "texts": table.assign(text_b=swapped, label=""),
            "answers": table.assign(label=[json.dumps(each) for each in own]),
        }
        frames = {
            task: self.prompts[task].encode(self.tables[task], CLASSES if task == "whole" else [])[0]
            for task in TASKS
        }
        classes = {task: {"type": type_, "labels": CLASSES if task == "whole" else PAIR}
                   for task, type_ in TASKS.items()}  # fmt: skip
        self.examples = {task: Examples.for_task(frame, classes[task]) for task, frame in frames.items()}
        joint = prompted(language_model(self.path, "m"), dict.fromkeys(TASKS, []), classes)
        if calibrated:
            calibrate(joint, "whole", self.prompts["whole"].content_free(), CPU)
        joint.save(folder / "saved", encoders.reference(settings, "models.m"))
        self.joint = MultiTask.load(folder / "saved")
        self.plain = AutoModelForCausalLM.from_pretrained(self.path, attn_implementation="eager").eval()
        self.split = AutoTokenizer.from_pretrained(self.path)

    def likelihood(self, before: str, text: str) -> torch.Tensor:
        """The log-likelihood of a text after another, by transformers alone."""
        first, both = (self.split(each)["input_ids"] for each in (before, before + text))
        if not before and not first:
            first = [self.split.bos_token_id or self.split.eos_token_id]
            both = first + both
        assert both[: len(first)] == first
        logits = self.plain(input_ids=torch.tensor([both])).logits[0].log_softmax(-1)
        return sum(logits[place - 1, both[place]] for place in range(len(first), len(both)))

    def loop(self, task: str, row: int) -> torch.Tensor:
        """The log-likelihoods of an example's continuations."""
        of = self.tables[task].iloc[row]
        prompt, answers = PROMPT.format(text_a=of["text_a"]), list(WHOLE.values())
        if task == "texts":
            prompt, answers = "", [of["text_a"], of["text_b"]]
        elif task == "answers":
            answers = json.loads(of["label"])
        else:
            shown = zip(self.shown["text_a"], self.shown["label"], strict=True)
            prompt = "".join(PROMPT.format(text_a=a) + WHOLE[name] + "\n\n" for a, name in shown) + prompt
        return torch.stack([self.likelihood(prompt, answer) for answer in answers])

    def loss(self, task: str, row: int) -> torch.Tensor:
        found = self.loop(task, row)
        if task == "texts":
            return found[1] - found[0]
        label = CLASSES.index(self.tables[task]["label"][row]) if task == "whole" else 0
        return F.cross_entropy(found, torch.tensor(label))

    def prediction(self, task: str, row: int) -> float:
        found = self.loop(task, row)
        return float(found.argmax() if task == "whole" else found[0] - found[1])

    def gated(self, gates: torch.Tensor) -> list:
        """Multiply the inputs of the output projections of the plain model by gates, (layers, heads)."""
        names = ("o_proj", "attn.c_proj")
        found = [module for name, module in self.plain.named_modules() if name.endswith(names)]
        return [
            projection.register_forward_pre_hook(
                lambda module, inputs, layer=layer: (
                    (inputs[0].unflatten(-1, (HEADS, -1)) * gates[layer][:, None]).flatten(-2),
                )
            )
            for layer, projection in enumerate(found)
        ]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def made(request, tmp_path_factory) -> Made:
    return Made(request.param, tmp_path_factory.mktemp("made"))


def all_of(made: Made, task: str) -> np.ndarray:
    return np.arange(len(made.examples[task]))


@torch.no_grad()
def losses(made: Made, task: str, device: Device = CPU) -> torch.Tensor:
    batch = made.examples[task].batch(all_of(made, task))
    with device.cast():
        return made.joint.losses(task, made.joint.pool(batch), batch.labels)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_are_those_of_every_continuation_alone(kind, tmp_path):
    made = Made(kind, tmp_path)
    for task, examples in made.examples.items():
        batch = examples.batch(np.arange(len(examples)))
        with torch.no_grad():
            found = made.joint.logits(task, made.joint.pool(batch), batch.labels)
            expected = torch.stack([made.loop(task, row) for row in range(len(examples))])
        if task == "texts":  # what both begin with is left out
            found, expected = found[:, 0] - found[:, 1], expected[:, 0] - expected[:, 1]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert found.std(0).min() > 1e-2
        tokens = [len(tokens) for each in examples.gold.columns["continuations"] for tokens in each]
        assert min(tokens) < max(tokens)


@pytest.mark.parametrize("task", TASKS)
def test_losses_and_importance_are_those_of_a_loop(made, task):
    gates = torch.ones(LAYERS, HEADS, requires_grad=True)
    hooks, alone, expected = made.gated(gates), [], []
    for row in all_of(made, task):
        loss = made.loss(task, row)
        alone.append(torch.autograd.grad(loss, gates)[0].numpy())
        expected.append(loss.item())
    for hook in hooks:
        hook.remove()
    np.testing.assert_allclose(losses(made, task), expected, rtol=1e-4, atol=1e-4)
    found = gate_gradients(made.joint, task, made.examples[task], all_of(made, task), CPU)
    assert np.abs(alone).mean(0).min() > 0
    np.testing.assert_allclose(found, alone, rtol=2e-3, atol=2e-3 * np.abs(alone).max())


@pytest.mark.parametrize("task", TASKS)
def test_predictions_under_masks_are_those_of_the_language_model(made, task):
    closed = np.random.default_rng(1).random((LAYERS, HEADS)) < 0.5
    masks = [Mask("t", "top", 0.5, None, closed), Mask("none", None, 0.0, None, closed & False)]
    found = predictions(made.joint, {task: made.examples[task]}, masks, CPU)[task]
    with torch.no_grad():
        for mask, under_mask in zip(masks, found, strict=True):
            hooks = made.gated(torch.from_numpy(~mask.closed).float())
            expected = [made.prediction(task, row) for row in all_of(made, task)]
            for hook in hooks:
                hook.remove()
            np.testing.assert_allclose(under_mask, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_heads_are_ablated_and_attributed_as_those_of_single_texts(made, task):
    rows, examples = all_of(made, task), made.examples[task]
    ablated = ablate(made.joint, task, examples, rows, CPU, (ABLATION, MEAN_ABLATION))
    assert np.abs(ablated.increase[MEAN_ABLATION]).max() > 1e-4
    gates = torch.ones(LAYERS, HEADS)
    gates[1, 2] = 0
    hooks = made.gated(gates)
    with torch.no_grad():
        expected = [made.loss(task, row).item() for row in rows]
    for hook in hooks:
        hook.remove()
    increase = np.array(expected) - losses(made, task).numpy()
    np.testing.assert_allclose(ablated.increase[ABLATION][:, 1, 2], increase, rtol=2e-3, atol=2e-5)
    by_gate = gate_gradients(made.joint, task, examples, rows, CPU)
    signed, absolute = np.moveaxis(loss_gradients(made.joint, task, examples, rows, CPU), 1, 0)
    np.testing.assert_allclose(signed, by_gate, rtol=2e-3, atol=2e-3 * np.abs(by_gate).max())
    assert (absolute >= np.abs(signed) - 1e-5).all()
    assert np.abs(relevances(made.joint, task, examples, rows, CPU)).max() > 1e-4


def test_attention_of_continuations_does_not_fall_on_each_other(made):
    measures = attention_measures(made.joint, made.examples, 5, [], CPU)
    assert set(measures["task"]) == set(TASKS) and np.isfinite(measures["value"]).all()
    branches = torch.tensor([[0, 0, 1, 1, 2, -1]])
    of = continuations.attention(branches, torch.float32)
    assert of["position_ids"][0, :5].tolist() == [0, 1, 2, 3, 2]
    attended = of["attention_mask"][0, 0] == 0
    assert attended[4].tolist() == [True, True, False, False, True, False]
    assert attended[3].tolist() == [True, True, True, True, False, False]


@pytest.mark.parametrize("task", TASKS)
def test_vocabularies_in_parts_and_bf16_give_the_same(made, task, monkeypatch):
    whole, rows = losses(made, task), all_of(made, task)
    gradients = gate_gradients(made.joint, task, made.examples[task], rows, CPU)
    cast = losses(made, task, Device("cpu", "bfloat16"))
    assert torch.corrcoef(torch.stack([whole, cast]))[0, 1] > 0.98
    monkeypatch.setattr(language_head, "LOGITS", 3 * made.plain.config.vocab_size)
    torch.testing.assert_close(losses(made, task), whole)
    in_parts = gate_gradients(made.joint, task, made.examples[task], rows, CPU)
    np.testing.assert_allclose(in_parts, gradients, rtol=1e-3, atol=1e-5)


def test_calibrated_answers_of_several_tokens_prefer_no_class(tmp_path):
    made = Made("llama", tmp_path, calibrated=True)
    made.tables["whole"] = pd.DataFrame({"text_a": [*CONTENT_FREE]})
    with torch.no_grad():
        mean = torch.stack([made.loop("whole", row).softmax(0) for row in range(3)]).mean(0)
        made.tables["whole"] = language.table().drop(index=made.shown.index)
        plain = torch.stack([made.loop("whole", row).softmax(0) for row in all_of(made, "whole")])
        batch = made.examples["whole"].batch(all_of(made, "whole"))
        found = made.joint.logits("whole", made.joint.pool(batch), batch.labels).softmax(1)
    expected = plain / mean / (plain / mean).sum(1, keepdim=True)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_long_prompts_leave_room_for_answers_and_long_texts_end(made):
    for task, prompts in made.prompts.items():
        classes, longest, before = CLASSES if task == "whole" else [], [], prompts.most
        for cut in (0, 2):
            prompts.most = longest[0] - cut if cut else before
            frame, truncated = prompts.encode(made.tables[task], classes)
            pairs = zip(frame["input_ids"], frame["continuations"], strict=True)
            longest.append(max(len(ids) + max(map(len, each)) - 1 for ids, each in pairs))
        assert 0 < truncated < len(frame) and longest[1] <= prompts.most, task
        prompts.most = before


def test_the_language_model_is_found_at_its_origin(made):
    folder = made.path.parent / "saved"
    assert (folder / "model.safetensors").stat().st_size < 1000
    assert made.joint.head.tokens.out_features == made.plain.config.vocab_size


def test_models_that_do_not_read_continuations_beside_each_other_are_refused(tmp_path):
    whole = language_model(language.make("openai-gpt", tmp_path / "m"), "models.m")
    with pytest.raises(EncoderError, match="models.m cannot have whole answers or texts scored.*one token"):
        prompted(whole, {"t": []}, {"t": {"type": "classification", "labels": CLASSES}}, "models.m")


def test_one_text_may_begin_another(made):
    pairs = made.prompts["texts"]
    found = pairs.prompt("the house was", "the house was really lovely")
    assert all(len(each) > 0 for each in found.continuations) and len(found.input_ids) > 0
    whole = [found.input_ids + each for each in found.continuations]
    assert whole[1][: len(whole[0])] == whole[0]
