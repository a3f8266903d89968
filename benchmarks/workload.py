"""Texts and model of the benchmark, from the study `workflow/studies/three-tasks.yaml`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headspec.config import loading
from headspec.config.sections.training import Training
from headspec.data import prepare
from headspec.models import tokenization
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask

CONFIG = Path(__file__).parents[1] / "workflow" / "studies" / "three-tasks.yaml"
MODEL, MAX_LENGTH = "minilm", 128

#: device: numbers of sentences, and of news pairs, for training, for padded training, and for the rest
SIZES = {
    "cpu": ((320, 32, 96), (96, 32, 32)),
    "cuda": ((3200, 320, 960), (960, 320, 320)),
}


@dataclass(frozen=True)
class Workload:
    """A model, and examples of one task; `name` describes them in the table."""

    name: str
    task: str
    train: Examples
    padded: Examples  # for padded training, whose time does not depend on the texts
    score: Examples  # for importance, and for evaluation under every mask
    check: Examples  # for comparing losses
    build: Callable[[], MultiTask]
    settings: Training  # of one epoch
    device: Device
    rounds: int = 5
    width: int = 256  # tokens to which the baseline of training pads every example


def workloads(device: Device) -> list[Workload]:
    """Return sentences, and pairs of long texts."""
    study = loading.load(loading.strict_yaml(CONFIG))
    model = study.models[MODEL].model_copy(update={"max_length": MAX_LENGTH})
    tasks = {name: task.model_copy(update={"train_examples": None}) for name, task in study.tasks.items()}
    topic = prepare.prepare("topic", tasks["topic"], study.data_seed)
    prepared = {
        "sentiment": prepare.prepare("sentiment", tasks["sentiment"], study.data_seed),
        "topic-pair": prepare.prepare("topic-pair", tasks["topic-pair"], study.data_seed, topic),
    }
    tokenizer = tokenization.tokenizer(model, f"models.{MODEL}")
    classes = {task: texts.classes for task, texts in prepared.items()}
    settings = study.training.model_copy(update={"epochs": 1})

    def build() -> MultiTask:
        return MultiTask.pretrained(model, f"models.{MODEL}", classes)

    works = []
    names = "sentences", "news pairs"
    for (task, texts), name, sizes in zip(prepared.items(), names, SIZES[device.name], strict=True):
        frame, _ = tokenization.encode(tokenizer, texts.train.head(max(sizes)), MAX_LENGTH, texts.classes)
        train, padded, score, check = (Examples(frame.head(n)) for n in (*sizes, 8))
        works.append(Workload(name, task, train, padded, score, check, build, settings, device))
    return works
