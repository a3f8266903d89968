"""The inputs, device and provenance of a stage that runs a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec import tables
from headspec.config.sections.model import Model
from headspec.errors import DataError
from headspec.models import devices, encoders, tokenization
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import folders
from headspec.progress import log
from headspec.tasks.parts import Classes
from headspec.tasks.tokens import encoding, signatures

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: where causal language models are loaded: in about equal shares on the job's GPUs, and what these cannot
#: hold in the machine's memory, then on disk
PLACED = {"device_map": "auto"}


class ModelStage:
    """A job that runs a model: its leased `device`, number of `gpus` and inputs, from its `snakemake`."""

    def __init__(self, snakemake: Any) -> None:
        self.snakemake, self.microbatches = snakemake, snakemake.resources.microbatches
        wanted = snakemake.params.precision, snakemake.threads
        self.device = devices.prepare(*wanted, self.microbatches, snakemake.resources.gpu)
        self.gpus = devices.gpu_count()
        self.signatures: dict[str, str] = {}  # of the metrics of the tasks read so far
        self._warn_of_other_precision()

    def _warn_of_other_precision(self) -> None:
        """Warn if `precision: auto` differs from the precision of an earlier run of the study."""
        here = f"{self.device.precision} on {self.device.name}"
        for path in Path(self.snakemake.log[0].partition("/logs/")[0], "runs").rglob("training.parquet"):
            try:
                footer = tables.footer(path)
            except DataError:  # an old table, or one being remade
                continue
            there = f"{footer['precision']} on {footer['device']}"
            if self.snakemake.params.precision == "auto" and there != here:
                log.warning(
                    "precision: auto is %s here, but %s was made in %s. The two round differently; set "
                    "`precision` to %s in the config to make all runs the same",
                    *(here, path, there, footer["precision"]),
                )
            return

    @property
    def key(self) -> str:
        """Return the config key of the job's model."""
        return f"models.{self.snakemake.wildcards.model}"

    @property
    def record(self) -> str:
        """Return the record of the job, for files that are not tables."""
        return tables.record_text(tables.job_record(self.snakemake))

    @property
    def seed(self) -> int:
        """Return the seed of the run."""
        return int(self.snakemake.wildcards.seed)

    def examples(self, tasks: Iterable[str], paths: Sequence[str]) -> dict[str, Examples]:
        """Return the examples of each task, read from the tables of tokens at `paths`."""
        classes = self.classes(tasks, paths)
        return {
            task: Examples.for_task(tables.read(path), classes[task])
            for task, path in zip(tasks, paths, strict=True)
        }

    def classes(self, tasks: Iterable[str], paths: Sequence[str]) -> dict[str, Classes]:
        """Return the `Classes` of each task, from the footers of the tables at `paths`."""
        by_task = {task: tables.footer(path)["classes"] for task, path in zip(tasks, paths, strict=True)}
        self.signatures |= signatures(by_task.values())
        return by_task

    def encoder(self) -> PreTrainedModel:
        """Return the pretrained encoder; random weights are drawn with the job's seed, or 0."""
        with self._source() as (model, key, seed):
            return encoders.load(model, key, seed)

    def pretrained(self, classes: Mapping[str, Classes]) -> MultiTask:
        """Return the pretrained model with untrained task heads; see `encoder`."""
        with self._source() as (model, key, seed):
            return MultiTask.pretrained(model, key, classes, seed, self.tokenizer(classes))

    @contextmanager
    def _source(self) -> Iterator[tuple[Model, str, int]]:
        """Yield the job's model, its config key and a seed; ChangedError if the model is not as planned."""
        model = Model.from_params(self.snakemake.params.model)
        with folders.as_planned(self.snakemake.params.version, model, self.key, "weights"):
            yield model, self.key, int(self.snakemake.wildcards.get("seed") or 0)

    def tokenizer(self, classes: Mapping[str, Classes]) -> PreTrainedTokenizerBase | None:
        """Return the tokenizer of the job's model, if it writes texts for one of the tasks, else None.

        ChangedError if it is not the one that made the job's tokens.
        """
        if not any(encoding(task).writes for task in classes.values()):
            return None
        model = Model.from_params(self.snakemake.params.model)
        made = tables.footer(self.snakemake.input.tokens[0])["job"]["params"]
        if repr(folders.version(model, self.key, "tokenizer")) not in made:
            raise folders.replaced_error(model, self.key)
        return tokenization.tokenizer(model, self.key, *self.snakemake.input.get("vocabulary", ()))

    def reference(self) -> dict[str, str] | None:
        """Return `encoders.reference` of the pretrained encoder; None for random weights."""
        if self.snakemake.params.model.get("weights") == encoders.RANDOM:
            return None
        return encoders.reference(Model.from_params(self.snakemake.params.model), self.key)

    @property
    def beams(self) -> dict[str, int]:
        """Return the number of beams of each task that is not decoded greedily."""
        return dict(self.snakemake.params.get("beams", {}))

    def trained(self) -> MultiTask:
        """Return the trained model from the job's inputs, with the job's numbers of beams."""
        model = MultiTask.load(Path(self.snakemake.input.model).parent, **PLACED)
        model.set_beams(self.beams)
        return model

    def footer(self, **more: Any) -> dict[str, Any]:
        """Return the footer of a table (`tables.provenance`), with device, precision, seed and signatures."""
        seed = {"seed": self.seed} if self.snakemake.wildcards.get("seed") else {}
        device = {"device": self.device.name, "precision": self.device.precision}
        texts = {"metrics": self.signatures} if self.signatures else {}
        return tables.provenance(self.snakemake, **device, **seed, **texts, **more)
