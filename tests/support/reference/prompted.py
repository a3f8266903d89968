"""A prompted model with a task of each kind, and loops over its texts by plain models of transformers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from headspec.config.sections.model import Model
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.language import load_language_model
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import tokenizer
from headspec.prompts.head import calibrate, prompted
from headspec.tasks.kinds.continuations.data import CLASSES as PAIR
from headspec.tasks.kinds.continuations.prompts import AnswerPairs, Pairs
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.language import CLASSES, FILLED, PROMPT
from support.tiny import CPU, HEADS

#: answers of one token, answers of several, texts, and answers of their own
TASKS = {"one": "classification", "whole": "classification", "texts": "minimal_pairs",
         "answers": "answer_pairs"}  # fmt: skip
#: of both classes; they begin with the same token, and do not have the same number of tokens
WHOLE = {"bad": " really awful house", "good": " really lovely"}
#: types whose code takes no mask of which tokens attend to which: they answer with one token
WITHOUT = "openai-gpt"


class Made:
    """A model, its prompts after two demonstrations, and loops over its texts by transformers alone."""

    def __init__(self, kind: str, folder: Path, most: int = 64, calibrated: bool = False) -> None:
        self.path, self.masked = language.make(kind, folder / kind), kind in language.MASKED
        settings = Model(source=str(self.path), max_length=most)
        split, table = tokenizer(settings, "models.m"), language.table()
        self.answers = {"one": language.answers(self.path), "whole": WHOLE}
        self.shown = table.iloc[[4, 1]]
        table = table.drop(index=self.shown.index).reset_index(drop=True)
        texts = table["text_a"].tolist()
        swapped = [" ".join([*text.split()[:3], *text.split()[:2:-1]]) for text in texts]
        own = [[f" {text.split()[-1]}", f" {text.split()[0]} the"] for text in texts]
        prompt = FILLED if self.masked else PROMPT
        wordings = {
            task: Prompts.showing(
                Wording(prompt, tuple(answers[name] for name in CLASSES)), self.shown, CLASSES
            )
            for task, answers in self.answers.items()
        }
        self.prompts = {
            "one": Prompts(split, wordings["one"], most, "tasks.one"),
            "whole": Prompts(split, wordings["whole"], most, "tasks.whole"),
            "texts": Pairs(split, Wording("", ()), most, "tasks.texts"),
            "answers": AnswerPairs(split, Wording(PROMPT, ()), most, "tasks.answers"),
        }
        self.tables = {
            "one": table,
            "whole": table,
            "texts": table.assign(text_b=swapped, label=""),
            "answers": table.assign(label=[json.dumps(each) for each in own]),
        }
        self.tasks = ["one"] if self.masked or kind == WITHOUT else [*TASKS]
        classes = {
            task: {"type": TASKS[task], "labels": CLASSES if task in self.answers else PAIR}
            for task in self.tasks
        } | {"one": CLASSES}
        self.examples = {task: Examples.for_task(self.encoded(task)[0], classes[task]) for task in self.tasks}
        tokens = {task: self.prompts[task].answers(CLASSES) if task == "one" else [] for task in self.tasks}
        joint = prompted(load_language_model(self.path, "m", not self.masked), tokens, classes)
        for task in self.answers if calibrated else ():
            if task in self.tasks:
                calibrate(joint, task, self.prompts[task].content_free(), CPU)
        joint.save(folder / "saved", encoders.reference(settings, "models.m"))
        self.joint = MultiTask.load(folder / "saved")
        auto = AutoModelForMaskedLM if self.masked else AutoModelForCausalLM
        self.plain = auto.from_pretrained(self.path, attn_implementation="eager").eval()
        self.split = AutoTokenizer.from_pretrained(self.path)

    def encoded(self, task: str, table=None) -> tuple:
        """The table `tokens` of a task, and the number of truncated prompts."""
        rows = self.tables[task] if table is None else table
        return self.prompts[task].encode(rows, CLASSES if task in self.answers else [])

    def rows(self, task: str) -> np.ndarray:
        return np.arange(len(self.examples[task]))

    def logits(self, task: str) -> torch.Tensor:
        batch = self.examples[task].batch(self.rows(task))
        return self.joint.logits(task, self.joint.pool(batch), batch.labels)

    def likelihood(self, before: str, text: str) -> torch.Tensor:
        """The log-likelihood of a text after another."""
        first, both = (self.split(each)["input_ids"] for each in (before, before + text))
        if not before and not first:
            first = [self.split.bos_token_id or self.split.eos_token_id]
            both = first + both
        assert both[: len(first)] == first
        logits = self.plain(input_ids=torch.tensor([both])).logits[0].log_softmax(-1)
        return sum(logits[place - 1, both[place]] for place in range(len(first), len(both)))

    def filled(self, before: str, text: str) -> torch.Tensor:
        """The logits of the answers at the mask, which takes the place of a word, as in pretraining."""
        tokens = [self.split(f"the {word}", add_special_tokens=False)["input_ids"][-1]
                  for word in self.answers["one"].values()]  # fmt: skip
        prompt = before + FILLED.format(text_a=text, mask=self.answers["one"][CLASSES[0]])
        ids = self.split(prompt, return_tensors="pt")["input_ids"]
        place = (ids[0] == tokens[0]).nonzero()[-1, 0]
        ids[0, place] = self.split.mask_token_id
        return self.plain(input_ids=ids).logits[0, place, tokens]

    def loop(self, task: str, row: int) -> torch.Tensor:
        """The log-likelihoods of an example's answers, up to a constant."""
        example = self.tables[task].iloc[row]
        if task == "texts":
            return torch.stack([self.likelihood("", example[text]) for text in ("text_a", "text_b")])
        prompt = PROMPT.format(text_a=example["text_a"])
        if task == "answers":
            return torch.stack([self.likelihood(prompt, answer) for answer in json.loads(example["label"])])
        answers, form = self.answers[task], FILLED if self.masked else PROMPT + "{mask}"
        shown = zip(self.shown["text_a"], self.shown["label"], strict=True)
        before = "".join(form.format(text_a=text, mask=answers[name]) + "\n\n" for text, name in shown)
        if self.masked:
            return self.filled(before, example["text_a"])
        return torch.stack([self.likelihood(before + prompt, answers[name]) for name in CLASSES])

    def loss(self, task: str, row: int) -> torch.Tensor:
        found = self.loop(task, row)
        if task == "texts":
            return found[1] - found[0]
        label = CLASSES.index(self.tables[task]["label"][row]) if task in self.answers else 0
        return F.cross_entropy(found, torch.tensor(label))

    def prediction(self, task: str, row: int) -> float:
        found = self.loop(task, row)
        return float(found.argmax() if task in self.answers else found[0] - found[1])

    @contextmanager
    def gated(self, gates: torch.Tensor) -> Iterator[None]:
        """Multiply the inputs of the output projections of the plain model by gates, (layers, heads)."""
        names = ("o_proj", "attn.c_proj", "attention.output.dense")
        projections = [module for name, module in self.plain.named_modules() if name.endswith(names)]
        with ExitStack() as stack:
            for gate, projection in zip(gates, projections, strict=True):
                hook = projection.register_forward_pre_hook(
                    lambda _, args, gate=gate: (
                        (args[0].unflatten(-1, (HEADS, -1)) * gate[:, None]).flatten(-2),
                    )
                )
                stack.callback(hook.remove)
            yield
