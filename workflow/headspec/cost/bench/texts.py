"""Texts and model of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from headspec.config import loading
from headspec.config.sections.training import Training
from headspec.data import prepare
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.tokens import tokenization

CONFIG = Path(__file__).parents[4] / "workflow" / "studies" / "three-tasks.yaml"
MAX_LENGTH = 128

Build = Callable[[], MultiTask]

#: device: task of the study: number of examples for training, for padded training, and for the rest
SIZES = {
    "cpu": {"sentiment": (320, 32, 96), "topic-pair": (96, 32, 32)},
    "cuda": {"sentiment": (3200, 320, 960), "topic-pair": (960, 320, 320)},
}


@dataclass(frozen=True)
class Workload:
    """Examples of one task; `name` describes them in the table."""

    name: str
    task: str
    train: Examples
    padded: Examples  # for padded training, whose time does not depend on the texts
    score: Examples  # for importance, and for evaluation under every mask
    check: Examples  # for comparing losses


def workloads(device: Device, key: str = "minilm") -> tuple[list[Workload], Build, Training]:
    """Return sentences and pairs of long texts, the model, and one epoch of training, of three-tasks.yaml."""
    study = loading.load(loading.strict_yaml(CONFIG))
    model = study.models[key].model_copy(update={"max_length": MAX_LENGTH})
    tasks = {name: task.model_copy(update={"train_examples": None}) for name, task in study.tasks.items()}
    topic = prepare.prepare("topic", tasks["topic"], study.data_seed)
    prepared = {
        "sentiment": prepare.prepare("sentiment", tasks["sentiment"], study.data_seed),
        "topic-pair": prepare.prepare("topic-pair", tasks["topic-pair"], study.data_seed, topic),
    }
    tokenizer = tokenization.tokenizer(model, f"models.{key}")
    works = []
    for task, name in {"sentiment": "sentences", "topic-pair": "pairs of news"}.items():
        texts = prepared[task]
        sizes = (*SIZES[device.name][task], 8)
        frame, _ = tokenization.encode(tokenizer, texts.train.head(max(sizes)), MAX_LENGTH, texts.classes)
        works.append(Workload(name, task, *(Examples(frame.head(n)) for n in sizes)))
    classes = {task: texts.classes for task, texts in prepared.items()}

    def build() -> MultiTask:
        torch.manual_seed(0)
        return MultiTask(*encoders.load(model, f"models.{key}"), classes)

    return works, build, study.training.model_copy(update={"epochs": 1})
