"""How much a model computes, and how fast it does so here: operations, and operations a second.

``python -m headspec.speed <tokens> <batch size> <precision> <threads> <folder of a config> ...`` measures
in a process of its own and prints JSON; `rates` starts as many of them as jobs will run at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from headspec import devices
from headspec.architectures import ARCHITECTURES
from headspec.batching import Examples
from headspec.devices import Device
from headspec.errors import HeadspecError
from headspec.importance import gate_gradients
from headspec.masks import masks
from headspec.multitask import MultiTask
from headspec.pruning import predictions
from headspec.sections import Training
from headspec.training import Checkpoint, train

#: what is measured: operations per example of one forward pass
PASSES = {"train": 3, "importance": 2, "prune": 1}
LAYERS, VOCABULARY, STEPS = 2, 1000, 4  # of the copy that is measured
SECONDS = 6.0  # of measuring a model, at least

#: what a job of a figure loads, and one figure
FIGURE = """
import tempfile, matplotlib.pyplot as plt
from headspec.plots import curves, save
save(plt.figure(), [tempfile.mkdtemp() + "/figure.png"], 100)
"""


@dataclass(frozen=True)
class Speed:
    """How fast jobs are: FLOP/s of one in each of `PASSES` for each model, and seconds that all need anyway.

    `model_start` and `light_start` are the start-up of a job that runs a model, and of another.
    """

    rates: list[dict[str, float]]
    model_start: float
    light_start: float


def empty(config: PretrainedConfig) -> PreTrainedModel:
    """The encoder that `config` describes, without memory for its weights."""
    with torch.device("meta"):
        return AutoModel.from_config(config, dtype=torch.float32).eval().requires_grad_(False)


def parameters(config: PretrainedConfig) -> int:
    return sum(parameter.numel() for parameter in empty(config).parameters())


def forward(config: PretrainedConfig, tokens: int, batch: int) -> float:
    """Floating-point operations per example of a forward pass of `batch` examples of `tokens` tokens."""
    encoder = empty(config)
    width = encoder.get_input_embeddings().embedding_dim
    with FlopCounterMode(display=False) as counter:
        encoder(inputs_embeds=torch.empty(batch, tokens, width, device="meta"))
    return counter.get_total_flops() / batch


def reduced(config: PretrainedConfig) -> PretrainedConfig:
    """The same architecture and widths in few layers and words, so that it is soon measured."""
    small = type(config).from_dict(config.to_dict())
    small.num_hidden_layers = min(LAYERS, config.num_hidden_layers)
    small.vocab_size, small.pad_token_id = VOCABULARY, 0
    return small


def made(n: int, tokens: int) -> Examples:
    """`n` examples of `tokens` random tokens."""
    ids = np.random.default_rng(0).integers(8, VOCABULARY, (n, tokens))
    columns = {"example": np.arange(n), "label": np.arange(n) % 2.0, "input_ids": ids.tolist()}
    return Examples(pd.DataFrame(columns | {"token_type_ids": None}))


def seconds_per_call(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Mean seconds of a call of each, taking turns for `seconds` in all, after one each to warm up.

    Turns, so that a slow stretch of the machine hits them all.
    """
    for run in runs.values():
        run()
    spent, turns = dict.fromkeys(runs, 0.0), 0
    while not turns or sum(spent.values()) < seconds:
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            spent[name] += time.perf_counter() - begun
        turns += 1
    return {name: total / turns for name, total in spent.items()}


def measure(
    config: PretrainedConfig, tokens: int, size: int, device: Device, seconds: float
) -> dict[str, float]:
    """FLOP/s of each of `PASSES` on examples of `tokens` tokens, in training batches of `size`."""
    small = reduced(config)
    pooling = ARCHITECTURES[config.model_type].pooling

    def build() -> MultiTask:
        encoder = AutoModel.from_config(small, dtype=torch.float32)
        return MultiTask(encoder, pooling, {"task": ["a", "b"]})

    pruned, learning = build(), build()  # two, because gradients change how a CPU computes attention
    learnt, seen = made(STEPS * size, tokens), made(min(256, max(1, device.tokens // tokens)), tokens)
    planned = masks({"task": np.zeros((pruned.gates.layers, pruned.gates.heads))}, 0.3, [0.3], 2, 0)
    settings, rows = Training(batch_size=size, epochs=1), np.arange(len(seen))
    checkpoint = Checkpoint(Path(tempfile.gettempdir()) / "headspec-no-checkpoint", "", float("inf"))
    examples = {"train": len(learnt), "importance": len(seen), "prune": len(planned) * len(seen)}
    runs: dict[str, Callable[[], object]] = {
        "train": lambda: train(learning, {"task": learnt}, settings, None, 0, device, checkpoint),
        "importance": lambda: gate_gradients(learning, "task", seen, rows, device),
        "prune": lambda: predictions(pruned, {"task": seen}, planned, device),
    }
    operations = forward(small, tokens, size)
    taken = seconds_per_call(runs, seconds)
    return {stage: PASSES[stage] * operations * examples[stage] / taken[stage] for stage in PASSES}


def rates(
    configs: list[PretrainedConfig],
    tokens: int,
    size: int,
    precision: str,
    at_once: int,
    gpu: bool,
    jobs_per_gpu: int = 1,
) -> Speed:
    """The speed of jobs while `at_once` of them run: the mean over as many processes.

    Parameters
    ----------
    tokens, size : tokens per example, examples per step of training
    """
    own = {devices.JOBS_PER_GPU: str(jobs_per_gpu)} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    environment = os.environ | own
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{i}" for i in range(len(configs))]
        for config, name in zip(configs, names, strict=True):
            config.save_pretrained(name)
        numbers = [str(tokens), str(size), precision, "2" if gpu else "1"]
        command = [sys.executable, "-m", "headspec.speed", *numbers, *names]
        begun = time.time()
        children = [
            subprocess.Popen(
                command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(at_once)
        ]
        outputs = [child.communicate() for child in children]
    for child, (_, error) in zip(children, outputs, strict=True):
        if child.returncode:
            raise HeadspecError(
                f"the speed cannot be measured: {error.strip().splitlines()[-1]}; give --rate"
            )
    answers = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    found = [
        {stage: float(np.mean([answer["rates"][i][stage] for answer in answers])) for stage in PASSES}
        for i in range(len(configs))
    ]
    begun_light = time.time()
    light = subprocess.run([sys.executable, "-c", FIGURE], env=environment, capture_output=True)
    light.check_returncode()
    model_start = float(np.mean([answer["ready"] for answer in answers])) - begun
    return Speed(found, model_start, time.time() - begun_light)


def main(tokens: str, size: str, precision: str, threads: str, *folders: str) -> None:
    device = devices.prepare(precision, int(threads))
    ready = time.time()
    found = [
        measure(AutoConfig.from_pretrained(folder), int(tokens), int(size), device, SECONDS)
        for folder in folders
    ]
    print(json.dumps({"ready": ready, "rates": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
