"""Tasks as prompts, compared with loops over plain models of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from headspec.config.sections.model import Model
from headspec.heads.importance import importance
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.heads.ranking import importance_map
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.language.head import language_model
from headspec.models.multitask import MultiTask
from headspec.models.tokens.tokenization import tokenizer
from headspec.prompts.head import calibrate, prompted
from headspec.tasks.texts.prompts import Prompts
from headspec.tasks.texts.wording import CONTENT_FREE, Wording, demonstrations
from support import language
from support.language import CLASSES, FILLED, PROMPT
from support.tiny import CPU, HEADS, LAYERS


class Made:
    """A model, its prompts after two demonstrations, and what the loops compute from the same folder."""

    def __init__(self, kind: str, folder, most: int = 64) -> None:
        self.path, self.masked = language.make(kind, folder / kind), kind in language.MASKED
        self.settings = Model(source=str(self.path), max_length=most)
        self.answers = language.answers(self.path)
        table = language.table()
        shown = table.iloc[[4, 1]]
        self.table = table.drop(index=shown.index)
        self.before = "".join(
            self.text(text, self.answers[label]) + "\n\n"
            for text, label in zip(shown["text_a"], shown["label"], strict=True)
        )
        prompt = FILLED if self.masked else PROMPT
        wording = Wording(prompt, tuple(self.answers[name] for name in CLASSES)).showing(shown, CLASSES)
        self.prompts = Prompts(tokenizer(self.settings, "models.m"), wording, most, "tasks.t")
        self.examples = Examples(self.prompts.encode(self.table, CLASSES)[0])
        answered = self.prompts.answers(CLASSES)
        joint = prompted(language_model(self.path, "m", not self.masked), {"t": answered}, {"t": CLASSES})
        joint.save(folder / "saved", encoders.reference(self.settings, "models.m"))
        self.joint = MultiTask.load(folder / "saved")

        auto = AutoModelForMaskedLM if self.masked else AutoModelForCausalLM
        self.plain = auto.from_pretrained(self.path, attn_implementation="eager").eval()
        self.split = AutoTokenizer.from_pretrained(self.path)

    def text(self, text: str, answer: str) -> str:
        return FILLED.format(text_a=text, mask=answer) if self.masked else PROMPT.format(text_a=text) + answer

    def loop(self, text: str) -> torch.Tensor:
        """Logits of the answers to one prompt, by transformers alone."""
        beside = "the" if self.masked else ":"
        rows = [self.split(f"{beside} {word.strip()}", add_special_tokens=False)["input_ids"][-1]
                for word in self.answers.values()]  # fmt: skip
        prompt = self.before + self.text(text, self.answers[CLASSES[0]] if self.masked else "")
        ids, place = self.split(prompt, return_tensors="pt")["input_ids"], -1
        if self.masked:  # the mask takes the place of a word, as in pretraining
            place = (ids[0] == rows[0]).nonzero()[-1, 0]
            ids[0, place] = self.split.mask_token_id
        return self.plain(input_ids=ids).logits[0, place, rows]

    def projections(self) -> list[torch.nn.Module]:
        """The attention output projections, in order."""
        names = ("o_proj", "attn.c_proj", "attention.output.dense")
        return [module for name, module in self.plain.named_modules() if name.endswith(names)]


@pytest.fixture(params=["llama", "gpt2", "bert"])
def made(request, tmp_path) -> Made:
    return Made(request.param, tmp_path)


@pytest.mark.parametrize("kind", [*language.CAUSAL, *language.MASKED])
def test_logits_are_those_of_the_answers(kind, tmp_path):
    made = Made(kind, tmp_path)
    batch = made.examples.batch(np.arange(len(made.examples)))
    with torch.no_grad():
        found = made.joint.logits("t", made.joint.pool(batch))
        expected = torch.stack([made.loop(text) for text in made.table["text_a"]])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.std(0).min() > 2e-3


def test_importance_is_that_of_a_loop_over_examples(made):
    """Gates on the inputs of the output projections, one example at a time."""
    gates = torch.ones(LAYERS, HEADS, requires_grad=True)

    def hook(layer):
        def gated(module, inputs):
            heads = inputs[0].unflatten(-1, (HEADS, -1)) * gates[layer][:, None]
            return (heads.flatten(-2),)

        return gated

    for layer, projection in enumerate(made.projections()):
        projection.register_forward_pre_hook(hook(layer))
    alone = []
    for text, label in zip(made.table["text_a"], made.table["label"], strict=True):
        loss = F.cross_entropy(made.loop(text), torch.tensor(CLASSES.index(label)))
        alone.append(torch.autograd.grad(loss, gates)[0].abs().numpy())
    frame = importance(made.joint, {"t": made.examples}, 100, np.random.default_rng(0), CPU)
    expected = np.mean(alone, axis=0)
    assert expected.shape == (LAYERS, HEADS) and expected.min() > 0
    np.testing.assert_allclose(importance_map(frame, "t"), expected, rtol=2e-3, atol=1e-5)


def test_pruned_heads_are_closed_in_the_language_model(made):
    closed = np.random.default_rng(1).random((LAYERS, HEADS)) < 0.5
    for layer, projection in enumerate(made.projections()):
        projection.register_forward_pre_hook(
            lambda module, inputs, layer=layer: (
                (inputs[0].unflatten(-1, (HEADS, -1)) * torch.tensor(~closed[layer])[:, None]).flatten(-2),
            )
        )
    found = predictions(made.joint, {"t": made.examples}, [Mask("t", "top", 0.5, None, closed)], CPU)["t"][0]
    with torch.no_grad():
        assert found.tolist() == [int(made.loop(text).argmax()) for text in made.table["text_a"]]


@pytest.mark.parametrize("kind", ["llama", "roberta"])
def test_calibrated_prompts_without_content_prefer_no_class(kind, tmp_path):
    made = Made(kind, tmp_path)
    calibrate(made.joint, "t", made.prompts.content_free(), CPU)
    with torch.no_grad():
        mean = torch.stack([made.loop(text).softmax(0) for text in CONTENT_FREE]).mean(0)
        batch = made.examples.batch(np.arange(len(made.examples)))
        found = made.joint.logits("t", made.joint.pool(batch)).softmax(1)
        plain = torch.stack([made.loop(text).softmax(0) for text in made.table["text_a"]])
    expected = plain / mean / (plain / mean).sum(1, keepdim=True)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    assert (found - plain).abs().max() > 1e-3


def test_long_texts_are_cut_and_the_rest_of_the_prompt_is_kept(tmp_path):
    made = Made("llama", tmp_path)
    frame = made.prompts.encode(made.table, CLASSES)[0]
    made.prompts.most = most = int(frame["input_ids"].str.len().max()) - 3
    alone = made.table.assign(text_b=np.nan)  # as tables of single texts are read
    cut, truncated = made.prompts.encode(alone, CLASSES)
    lengths = frame["input_ids"].str.len()
    assert truncated == (lengths > most).sum() > 0 and cut["input_ids"].str.len().max() <= most
    end = made.prompts.ids(" the house:")[-3:]
    assert all(ids[-3:] == end for ids in cut["input_ids"])
    assert (cut["input_ids"] == frame["input_ids"]).sum() == (lengths <= most).sum()


def test_masks_in_texts_are_not_taken_for_the_answer(tmp_path):
    made = Made("bert", tmp_path)
    masks = made.table.assign(text_a="a [MASK] bright [MASK] one")
    frame = made.prompts.encode(masks, CLASSES)[0]
    for ids, words in zip(frame["input_ids"], frame["words"], strict=True):
        places = np.flatnonzero(np.array(ids) == made.split.mask_token_id)
        assert len(places) == 3 and np.flatnonzero(np.array(words) == 0).tolist() == [places[-1]]


def test_demonstrations_are_of_all_classes_and_change_with_the_seed():
    table = language.table(40)
    drawn = [demonstrations(table, 4, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert all(part["label"].value_counts().tolist() == [2, 2] for part in drawn)
    assert drawn[0].equals(drawn[1]) and set(drawn[0]["example"]) != set(drawn[2]["example"])
