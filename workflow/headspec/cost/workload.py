"""The size of a study before anything runs: examples of tasks, configs of models, tokens.

Files are read as the jobs will read them, if they are available here; what is missing is named and left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, PretrainedConfig

from headspec.config.runs import Run
from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.data import prepare
from headspec.data.prepare import Prepared
from headspec.errors import DataError, EncoderError, HeadspecError, listing
from headspec.models import tokenization
from headspec.models.architectures import ARCHITECTURES
from headspec.models.pretrained.folders import folder, hub_name
from headspec.models.pretrained.from_pretrained import silence

TOKENS = {"single": 25, "pair": 50}  # in a single text and in a pair, if they cannot be counted
SAMPLE = 300  # texts per task in which tokens are counted


@dataclass(frozen=True)
class Size:
    """Examples of a task in each split; `prepared` if they were read, `note` names the source."""

    train: int
    validation: int
    prepared: Prepared | None
    note: str


@dataclass
class Extent:
    """What is known of a study, filled in step by step; `problems` lists what is missing."""

    study: Study
    sizes: dict[str, Size] = field(default_factory=dict)
    configs: dict[str, PretrainedConfig] = field(default_factory=dict)
    #: (model, task): tokens per example
    tokens: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: dict[tuple[str, str], bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """The runs whose model and tasks are known."""
        return [r for r in self.study.runs if r.model in self.configs and {*r.tasks} <= {*self.sizes}]


def read(study: Study) -> Extent:
    """Read the sizes of tasks, the configs of models and the tokens, as far as they are available here."""
    silence()
    extent = Extent(study)
    for name in sorted(study.tasks, key=lambda name: study.tasks[name].pairs_of is not None):
        try:
            extent.sizes[name] = size(study, name, extent.sizes)
        except DataError as error:
            extent.problems.append(str(error))
    for name, model in study.models.items():
        try:
            path, extent.configs[name] = config(model, f"models.{name}")
        except HeadspecError as error:
            extent.problems.append(str(error))
            continue
        for task, task_size in extent.sizes.items():
            length = tokens(model, path, extent.configs[name], task_size)
            extent.counted[name, task] = length is not None
            extent.tokens[name, task] = length or min(TOKENS[study.tasks[task].paradigm], model.max_length)
    return extent


def size(study: Study, name: str, known: dict[str, Size]) -> Size:
    """Examples of a task: read and split as its job will do it, or else the numbers in the config."""
    task = study.tasks[name]
    parent = known.get(task.pairs_of or "")
    try:
        if task.pairs_of and (parent is None or parent.prepared is None):
            raise DataError(f"tasks.{task.pairs_of} cannot be read here")
        prepared = prepare.prepare(name, task, study.data_seed, parent.prepared if parent else None)
        return Size(len(prepared.train), len(prepared.validation), prepared, "as read here")
    except DataError as error:
        limits = {"train_examples": task.train_examples, "validation_examples": task.validation_examples}
        for split in ("train", "validation") if parent else ():
            limits[f"{split}_examples"] = limits[f"{split}_examples"] or getattr(parent, split)
        lacking = [f"tasks.{name}.{key}" for key, value in limits.items() if value is None]
        if lacking:
            raise DataError(
                f"{error}\n{listing(lacking)}: missing, expected a number to plan without the texts"
            ) from None
        train, validation = (int(value) for value in limits.values() if value)
        return Size(train, validation, None, "from the config: the texts cannot be read here")


def config(model: Model, key: str) -> tuple[Path, PretrainedConfig]:
    """The folder of a model, which need not hold weights, and its config."""
    try:
        path = _hub_folder(model) if model.source.startswith("hub:") else folder(model, key)
        if path.suffix == ".gguf":
            loaded = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        else:
            loaded = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(
            f"{key}.source: the config.json of '{model.source}' cannot be loaded ({type(error).__name__})"
        ) from None
    if loaded.model_type not in ARCHITECTURES:
        raise EncoderError(
            f"{key}.source: the heads of '{model.source}' cannot be gated: its model type is "
            f"{loaded.model_type!r}; expected one of {listing(ARCHITECTURES)}"
        )
    return path, loaded


def _hub_folder(model: Model) -> Path:
    """The cache folder of a hub model; only config.json is downloaded to it."""
    from huggingface_hub import errors, hf_hub_download

    name, revision = hub_name(model)
    try:
        return Path(hf_hub_download(name, "config.json", revision=revision)).parent
    except errors.HfHubHTTPError as error:
        raise OSError(str(error)) from None


def tokens(model: Model, path: Path, config: PretrainedConfig, size: Size) -> int | None:
    """Mean tokens in a sample of a task's training texts; None if texts or tokenizer are missing here."""
    if size.prepared is None or path.suffix == ".gguf":
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception:  # the library's errors have no common base
        return None
    if len(tokenizer) < config.vocab_size / 2:  # a stub, which transformers makes without tokenizer files
        return None
    sample = size.prepared.train.head(SAMPLE)
    frame, _ = tokenization.encode(tokenizer, sample, model.max_length, size.prepared.classes)
    return round(frame["input_ids"].str.len().mean())
