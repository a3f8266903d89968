"""The multi-task model: one encoder with a head for each task (`headspec.tasks.task_heads`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models import encoders, saved
from headspec.models.architectures import caches
from headspec.models.attention.sites import FOLDED
from headspec.models.batching import Batch, continuations_attention
from headspec.models.devices import Device
from headspec.models.gates import HeadGates
from headspec.models.language import LanguageHead
from headspec.models.pretrained import folders
from headspec.models.pretrained.pooling import chosen_pooling
from headspec.progress import log
from headspec.seeds import derive
from headspec.tasks import task_heads
from headspec.tasks.parts import Classes
from headspec.tasks.task_heads import Predicted, Targets, TaskHead

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from headspec.config.sections.model import Model


class MultiTask(nn.Module):
    """A pretrained encoder shared by tasks, with gates on its attention heads.

    Parameters
    ----------
    pooling : {"first", "cls", "mean", "last", "mask"}
        The vector of a text: its first token, through the pretrained pooler if there is one (`first`) or
        unchanged (`cls`), the mean over its tokens, its last token, or its mask token.
    classes : task: `Classes`
    head : head of a prompted language model; classifiers are restricted to the tokens of answers
    tokenizer : tokenizer of a model that writes texts

    Attributes
    ----------
    hidden : size of the states of tokens
    caches : whether the model is causal and can continue from cached keys and values

    Raises ModelError as `HeadGates` does, or if its gates have `folded` rows.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        pooling: str,
        classes: Mapping[str, Classes],
        head: LanguageHead | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.head, self.tokenizer = encoder, pooling, head, tokenizer
        self.gates = HeadGates(encoder)
        if self.gates.folded:
            model_type = encoder.config.model_type
            raise ModelError(
                f"the heads of this {model_type} cannot be gated by text: it folds {FOLDED} into its batch"
            )
        self.hidden: int = encoder.config.get_text_config().hidden_size
        self.caches = caches(encoder.config.to_dict())
        self.dropout = nn.Dropout(encoders.classifier_dropout(encoder.config))
        self.new_classifiers(classes)

    @classmethod
    def pretrained(
        cls,
        model: Model,
        key: str,
        classes: Mapping[str, Classes],
        seed: int = 0,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> MultiTask:
        """Return the model at `key` of a config, with untrained task heads.

        `seed` draws these, and any random weights of the encoder. Raises the errors of `encoders.load`, and
        ModelError if the pooling is `auto` and the model's files name an invalid one.
        """
        encoder = encoders.load(model, key, seed)
        path = folders.folder(model, key, "weights") if model.source else None
        pooling, reason = chosen_pooling(path, model, key)
        log.info("%s: pooling %s (%s)", key, pooling, reason)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "heads"))  # of tasks
            return cls(encoder, pooling, classes, tokenizer=tokenizer)

    def new_classifiers(self, classes: Mapping[str, Classes]) -> None:
        """Replace the task heads by untrained heads for these tasks."""
        self.classes = classes
        # a list, because names of tasks may be invalid as names of modules
        self.classifiers = nn.ModuleList(
            task_heads.head_class(task).build(self, task) for task in classes.values()
        )

    @property
    def task_heads(self) -> list[TaskHead]:
        """The heads of the tasks, in order."""
        return cast("list[TaskHead]", [*self.classifiers])

    def set_beams(self, beams: Mapping[str, int]) -> None:
        """Set the number of beams used to write the texts of each task."""
        for task, number in beams.items():
            self.classifier(task).beams = number

    def classifier(self, task: str) -> TaskHead:
        """Return the head of a task."""
        return self.task_heads[list(self.classes).index(task)]

    @cached_property
    def shares_prefix(self) -> bool:
        """Return whether a shared prefix of texts can be read once for all."""
        if not self.caches:
            return False
        from headspec.models import shared_prefix  # loads transformers' models, which few jobs need

        return shared_prefix.can_share_prefix(self.encoder)

    def attend_for_gradients(self, device: Device) -> None:
        """Use unfused attention on a CPU, where the backward pass of fused attention is slower."""
        if device.name == "cpu" and self.encoder.config._attn_implementation == "sdpa":
            self.encoder.set_attn_implementation("eager")

    def pool(self, batch: Batch) -> torch.Tensor:
        """Return inputs of task heads, (batch, ..., hidden): `vectors` of texts by default, or `states`."""
        return batch.head.pool(self, batch)

    def read(self, batch: Batch) -> None:
        """Run every layer on a batch; a decoder of an encoder-decoder reads the target texts."""
        batch.head.read(self, batch)

    def attending(self, batch: Batch) -> list[torch.Tensor]:
        """Return the mask of the tokens that attend in `read`, (batch, tokens) for each layer."""
        by_kind = batch.head.attending(self, batch)
        return [by_kind[self.gates.kind(layer)][1] for layer in range(self.gates.layers)]

    def evidence(self, task: str, pooled: torch.Tensor, labels: Targets) -> torch.Tensor:
        """Return the logit of each example's prediction, or the sum or mean of several, (batch,)."""
        return self.classifier(task).evidence(self, pooled, labels)

    def logits(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> torch.Tensor:
        """Return logits of examples, (batch, classes), or log-likelihoods of continuations in `labels`."""
        return self.classifier(task).logits(self, pooled, labels)

    def losses(self, task: str, pooled: torch.Tensor, labels: Targets) -> torch.Tensor:
        """Return the loss of each example, (batch,)."""
        return self.classifier(task).losses(self, pooled, labels)

    def predict(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> Predicted:
        """Return predictions of a task's head from states as in `pool`, and `labels` if it needs them."""
        return self.classifier(task).predict(self, pooled, labels)

    def answer(self, task: str, batch: Batch) -> Predicted:
        """Return the predictions of a batch."""
        return self.classifier(task).answer(self, batch)

    def predictions(self, task: str, pooled: torch.Tensor, labels: Targets | None = None) -> torch.Tensor:
        """Return the values of `predict`, (batch,) or (batch, values)."""
        return self.predict(task, pooled, labels).values

    def output(self, batch: Batch) -> Any:
        """Return the output of the encoder; for an encoder-decoder, of its encoder only."""
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        if batch.branches is not None:
            inputs |= continuations_attention(batch.branches, self.encoder.dtype)
        if batch.prefix:
            from headspec.models import shared_prefix

            return shared_prefix.shared_prefix_output(self.encoder, batch.prefix, inputs)
        if self.caches:
            inputs["use_cache"] = False  # nothing would read the cached keys and values
        encoder = self.encoder.get_encoder() if self.encoder.config.is_encoder_decoder else self.encoder
        return encoder(**inputs)

    def states(self, batch: Batch) -> torch.Tensor:
        """Return the last states of all tokens, (batch, tokens, hidden)."""
        states: torch.Tensor = self.output(batch).last_hidden_state
        return states

    def vectors(self, batch: Batch) -> torch.Tensor:
        """Return text vectors, (batch, hidden), by `pooling`; heads on tokens read `states` instead."""
        output = self.output(batch)
        states: torch.Tensor = output.last_hidden_state  # (batch, tokens, hidden)
        if self.pooling == "mask":
            assert batch.words is not None
            return (batch.words.to(states.dtype) @ states)[:, 0]
        if self.pooling == "mean":
            weight = batch.attention_mask[..., None].to(states.dtype)
            return (states * weight).sum(1) / weight.sum(1)
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            rows = torch.arange(states.shape[0], device=states.device)
            return states[rows, batch.attention_mask.sum(1) - 1]
        by_pooler: torch.Tensor | None = getattr(output, "pooler_output", None)
        return states[:, 0] if by_pooler is None else by_pooler

    def save(
        self, folder: str | Path, pretrained: dict[str, str] | None = None, job: Any | None = None
    ) -> None:
        """Write the model, with the record of `job` if a Snakemake job made it.

        `pretrained`, from `encoders.reference`, identifies an encoder that training left unchanged but for
        adapters; its weights are not stored.
        """
        described = {
            "pooling": self.pooling, "classes": self.classes, "language_model": self.head is not None,
        }  # fmt: skip
        parts = self.encoder, self.classifiers, described, self.tokenizer, pretrained
        saved.write(Path(folder), *parts, job)

    @classmethod
    def load(cls, folder: str | Path, **placed: Any) -> MultiTask:
        """Load a saved model, in evaluation mode, by `headspec.models.saved.read`, whose errors it raises."""
        arguments, classifiers = saved.read(Path(folder), **placed)
        model = cls(**arguments)
        model.classifiers.load_state_dict(classifiers)
        return model.eval()
