"""The multi-task model: one encoder, and for each task a linear classifier, or a decoder of words.

Of tasks of translation, which only encoder-decoders have, the model's own decoder writes the texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from headspec.attention import CROSS, DECODER
from headspec.models import saved
from headspec.models.architectures import remembers
from headspec.models.batching import Batch, Labels
from headspec.models.devices import Device
from headspec.models.gates import HeadGates
from headspec.models.tokens import text_counting
from headspec.models.tokens.continuations import Continuations, Likelihoods, attention
from headspec.tasks.classes import Classes
from headspec.tasks.continuations import pair_types
from headspec.tasks.heads import decoder
from headspec.tasks.translation import decoding as translation
from headspec.tasks.translation.classes import UNSPACED, is_translation
from headspec.tasks.translation.decoding import Targets
from headspec.tasks.words.base import Units, WordTask
from headspec.tasks.words.head import Annotations, Decoder, named
from headspec.tasks.words.registry import implementation
from headspec.tasks.words.word_types import TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from headspec.models.language.head import LanguageHead

#: names in configs for the dropout before a classifier, the most specific first
DROPOUTS = [
    "classifier_dropout", "classifier_dropout_prob", "cls_dropout", "seq_classif_dropout",
    "hidden_dropout_prob", "resid_pdrop",
]  # fmt: skip


def classifier_dropout(config: PreTrainedConfig) -> float:
    """The architecture's dropout before a classifier; 0 if it has none (Llama)."""
    rates = [getattr(config, name, None) for name in DROPOUTS]
    return next((rate for rate in rates if rate is not None), 0.0)


class Predicted(NamedTuple):
    """What a model predicts for a batch.

    Attributes
    ----------
    values : (batch,), or (batch, values) where the metrics of a task take several; nan where a logit or a
        state is not finite
    probabilities : of the classes, (batch, classes), float32; of no class where a task has none
    texts : that the model writes, of tasks of such
    """

    values: torch.Tensor
    probabilities: torch.Tensor
    texts: list[str] | None = None


class MultiTask(nn.Module):
    """A pretrained encoder shared by tasks, with gates on its attention heads.

    Parameters
    ----------
    encoder : the pretrained encoder
    pooling : {"first", "cls", "mean", "last", "mask"}
        The vector of a text: its first token (through the pretrained pooler, if there is one, or as it is),
        the mean over its tokens, its last token, or that of its mask, which the batch has as its only word.
    classes : dict of task: `Classes`
    head : of the language model that is prompted with tasks; classifiers are restricted to tokens of answers
    tokenizer : of a model that writes texts

    Attributes
    ----------
    remembers : whether tokens see earlier ones alone, and can go on from the keys and values of these
    beams : of tasks whose texts are not decoded greedily
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
        self.remembers = remembers(encoder.config.to_dict())
        self.beams: Mapping[str, int] = {}
        self.dropout = nn.Dropout(classifier_dropout(encoder.config))
        self.new_classifiers(classes)

    def new_classifiers(self, classes: Mapping[str, Classes]) -> None:
        """Replace the classifiers and decoders by untrained ones for these tasks."""
        self.classes, hidden = classes, self.encoder.config.get_text_config().hidden_size
        # a list, because names of tasks can be invalid as names of modules
        self.classifiers = nn.ModuleList()
        for names in classes.values():
            if is_translation(names):
                self.classifiers.append(nn.Identity())
                continue
            if isinstance(names, dict):
                words, labels = names["type"] in TYPES, names["labels"]
                made = decoder(names["type"], hidden, labels) if words else Likelihoods(len(labels))
                self.classifiers.append(made)
                continue
            if self.head is not None:  # of the first tokens, until others are loaded
                self.classifiers.append(self.head.restricted(range(len(names or [None]))))
                continue
            classifier = nn.Linear(hidden, len(names) if names else 1)
            nn.init.normal_(classifier.weight, std=0.02)
            nn.init.zeros_(classifier.bias)
            self.classifiers.append(classifier)

    @cached_property
    def shares_prefix(self) -> bool:
        """Whether what texts begin with can be read once for all of them."""
        if not self.remembers:
            return False
        # loads transformers' models, which few jobs need here
        from headspec.models.language import shared_prefix

        return shared_prefix.possible(self.encoder)

    def attend_for_gradients(self, device: Device) -> None:
        """Use unfused attention on a CPU, where the backward pass of fused attention is slower."""
        if device.name == "cpu" and self.encoder.config._attn_implementation == "sdpa":
            self.encoder.set_attn_implementation("eager")

    def pool(self, batch: Batch) -> torch.Tensor:
        """What classifiers take, of a padded batch: text vectors, or states of words, tokens, continuations.

        Returns
        -------
        (batch, hidden); (batch, words, hidden) of tasks on words; (batch, tokens, hidden) of translation;
        (batch, k, tokens, hidden) of continuations
        """
        if isinstance(batch.labels, Targets):
            return self._output(batch).last_hidden_state
        if isinstance(batch.labels, Continuations):
            return batch.labels.states(self._output(batch).last_hidden_state)
        if batch.words is None or self.pooling == "mask":
            return self.vectors(batch)
        states = self._output(batch).last_hidden_state
        return batch.words.to(states.dtype) @ states

    def read(self, batch: Batch) -> None:
        """Run every layer on a batch; the decoder of an encoder-decoder reads the target texts."""
        states = self.pool(batch)
        if isinstance(batch.labels, Targets):
            translation.logits(self.encoder, states, batch.labels)

    def attending(self, batch: Batch) -> list[torch.Tensor]:
        """For each layer, the mask of the tokens that attend in `read`, (batch, tokens)."""
        masks = {kind: batch.attention_mask.bool() for kind in self.gates.before}
        if isinstance(batch.labels, Targets):
            masks |= dict.fromkeys((DECODER, CROSS), batch.labels.real)
        return [masks[self.gates.kind(layer)] for layer in range(self.gates.layers)]

    def _output(self, batch: Batch) -> Any:
        """The encoder's output; of an encoder-decoder that of its encoder."""
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        if batch.branches is not None:
            inputs |= attention(batch.branches, self.encoder.dtype)
        if batch.prefix:
            from headspec.models.language import shared_prefix

            return shared_prefix.output(self.encoder, batch.prefix, inputs)
        if self.remembers:
            inputs["use_cache"] = False  # it would keep keys and values of all layers, for no one
        writes = self.encoder.config.is_encoder_decoder
        return (self.encoder.get_encoder() if writes else self.encoder)(**inputs)

    def vectors(self, batch: Batch) -> torch.Tensor:
        """Text vectors, (batch, hidden)."""
        output = self._output(batch)
        states = output.last_hidden_state  # (batch, tokens, hidden)
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
        pooled = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled

    def classifier(self, task: str) -> nn.Module:
        """The classifier or decoder of a task."""
        return self.classifiers[list(self.classes).index(task)]

    def evidence(self, task: str, pooled: torch.Tensor, labels: Labels) -> torch.Tensor:
        """The logit of each example's predicted class, its score, or a decoder's for its units, (batch,).

        Of continuations, the log-likelihood of the likeliest; of texts, the mean over their tokens of the
        logit of the likeliest one.
        """
        if isinstance(labels, Targets):
            return translation.evidence(self.encoder, pooled, labels)
        if isinstance(labels, Annotations):
            given = self._given(task, labels)
            return self._decoder(task).evidence(self.dropout(pooled), labels.lengths, given)
        return self.logits(task, pooled, labels).amax(1)

    def logits(self, task: str, pooled: torch.Tensor, labels: Labels | None = None) -> torch.Tensor:
        """Logits of text vectors: (batch, classes), or (batch, 1) for regression.

        Of continuations their log-likelihoods, (batch, k), for which `labels` have their tokens.
        """
        if isinstance(labels, Continuations):
            return self.classifier(task)(pooled, labels.targets, self.head)
        return self.classifier(task)(self.dropout(pooled))

    def losses(self, task: str, pooled: torch.Tensor, labels: Labels, smoothing: float = 0.0) -> torch.Tensor:
        """The loss of each example, (batch,): cross-entropy, squared error for regression, or a decoder's.

        Of continuations, cross-entropy restricted to them; of minimal pairs, wrong less right log-likelihood.

        Parameters
        ----------
        smoothing : of target texts, as in `headspec.tasks.translation.decoding.losses`
        """
        if isinstance(labels, Targets):
            return translation.losses(self.encoder, pooled, labels, smoothing)
        if isinstance(labels, Annotations):
            of_words = self._decoder(task)
            return of_words.losses(self.dropout(pooled), labels.lengths, labels.targets)
        logits = self.logits(task, pooled, labels).float()
        if isinstance(labels, Continuations):
            if self._type(task) == pair_types.TEXTS:
                return logits[:, 1] - logits[:, 0]
            labels = labels.right
        if self.classes[task] is None:
            return F.mse_loss(logits[:, 0], labels.float(), reduction="none")
        return F.cross_entropy(logits, labels.long(), reduction="none")

    def predictions(self, task: str, pooled: torch.Tensor, labels: Labels | None = None) -> torch.Tensor:
        """Class indices or scores for regression, (batch,), or several values for each, (batch, values).

        Of pairs of continuations, the difference of log-likelihoods, right less wrong; of words and of texts,
        what their metrics count.

        Parameters
        ----------
        labels : of words and of texts, the units, continuations or targets that predictions are made of or
            compared with
        """
        return self.answers(task, pooled, labels).values

    def answers(self, task: str, pooled: torch.Tensor, labels: Labels | None = None) -> Predicted:
        """`predictions`, with probabilities of classes, and texts."""
        none = pooled.new_zeros((len(pooled), 0), dtype=torch.float32)
        if isinstance(labels, (Targets, Annotations)):
            texts: list[str] | None = None
            counts: Sequence[tuple[int, ...]]
            if isinstance(labels, Annotations):
                counts = self._counts(task, pooled, labels)
            else:
                classes = self.classes[task]
                assert isinstance(classes, dict) and self.tokenizer is not None
                beams = self.beams.get(task, 1)
                texts = translation.written(self.encoder, pooled, labels, classes, self.tokenizer, beams)
                counts = text_counting.counted(texts, labels.texts, classes.get(UNSPACED))
            broken = ~pooled.isfinite().flatten(1).all(1)
            values = torch.tensor(counts, dtype=torch.float32, device=pooled.device)
            return Predicted(values.masked_fill(broken[:, None], torch.nan), none, texts)
        logits = self.logits(task, pooled, labels).float()
        predicted = logits[:, 0] if self.classes[task] is None else logits.argmax(1).float()
        if self._type(task) in pair_types.TYPES:
            predicted = logits[:, 0] - logits[:, 1]
        likely = logits.softmax(1) if isinstance(self.classes[task], list) else none
        return Predicted(predicted.masked_fill(~logits.isfinite().all(1), torch.nan), likely)

    def _type(self, task: str) -> str | None:
        """The type of a task, where its classes are not all that there is to it."""
        names = self.classes[task]
        return names["type"] if isinstance(names, dict) else None

    def _decoder(self, task: str) -> Decoder:
        found = self.classifier(task)
        assert isinstance(found, Decoder)
        return found

    def _words(self, task: str) -> tuple[WordTask, list[str]]:
        """The type of a task on words, and the names of its labels."""
        classes = self.classes[task]
        assert isinstance(classes, dict)
        return implementation(classes["type"]), classes["labels"]

    def _given(self, task: str, labels: Annotations) -> list[Units]:
        """The units of every sentence that its type gives."""
        return labels.labelled(self._words(task)[0].given)

    def _counts(self, task: str, states: torch.Tensor, labels: Annotations) -> list[tuple[int, int]]:
        """What is counted in the predicted units of every sentence."""
        of_words, names = self._words(task)
        given = self._given(task, labels)
        decoded = self._decoder(task).decode(self.dropout(states), labels.lengths, given)
        pairs = zip(labels.gold, named(decoded, names), strict=True)
        return [of_words.count(gold, units) for gold, units in pairs]

    def save(self, folder: str | Path, origin: dict[str, str] | None = None) -> None:
        """Write the model as `headspec.models.saved.write` does.

        Parameters
        ----------
        origin : of an encoder that is as it was loaded but for adapters (`encoders.origin`)
        """
        described = {
            "pooling": self.pooling, "classes": self.classes, "language_model": self.head is not None,
        }  # fmt: skip
        saved.write(Path(folder), self.encoder, self.classifiers, described, self.tokenizer, origin)

    @classmethod
    def load(cls, folder: str | Path) -> MultiTask:
        """Load a model written by `save`; raises as `headspec.models.saved.read`."""
        parts = saved.read(Path(folder))
        model = cls(parts.encoder, parts.pooling, parts.classes, parts.head, parts.tokenizer)
        model.classifiers.load_state_dict(parts.classifiers)
        return model.eval()
