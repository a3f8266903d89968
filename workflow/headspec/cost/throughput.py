"""The operations of a model, and the operations per second of jobs on this machine.

``python -m headspec.cost.throughput <tokens> <batch size> <precision> <threads> <folder of a config> ...``
measures and prints JSON; `find_speed` starts as many of these as jobs will run at once, the way jobs are
started (`headspec.pipeline.warm`).

Measured speeds are stored in `.snakemake/headspec` for later plans: measuring a large model takes minutes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from headspec import tables
from headspec.config.sections.training import Training
from headspec.config.study import Study
from headspec.cost import translated
from headspec.cost.passes import PASSES, WRITE
from headspec.errors import DataError, HeadspecError, StorageError
from headspec.head_arrays import SELF
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.models import devices
from headspec.models.architectures import caches
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.language import cache_name
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import heads_by_layer
from headspec.pipeline import warm
from headspec.provenance import code_hash, files, hashes
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train

LAYERS, VOCABULARY, STEPS = 2, 1000, 4  # of the reduced model that is measured
WRITTEN = 16  # tokens that a decoder writes in the measurement
SECONDS = 1.0  # minimum time to measure a model
#: code that checks whether packages for jobs are imported
READY = f"import sys; sys.exit(not { {p.partition(':')[0] for p in warm.PACKAGES} } <= set(sys.modules))"

#: code that imports what jobs of figures do, and saves one figure
FIGURE = """
import tempfile
from matplotlib.figure import Figure
from headspec.plots import curves
from headspec.plots.drawing.style import save
save(Figure(), [tempfile.mkdtemp() + "/figure.png"], 100)
"""


@dataclass(frozen=True)
class Speed:
    """Speed of jobs."""

    rates: dict[str, dict[str, float]]  #: FLOP/s of each model for each of `PURPOSES`
    model_start: float  #: seconds to start a job that runs a model
    light_start: float  #: seconds to start any other job


def empty(config: PretrainedConfig) -> PreTrainedModel:
    """Return the model of a `config`, without allocating its weights."""
    if config.is_encoder_decoder:
        return translated.empty(config)
    with torch.device("meta"):
        # "batched_mm" counts only as many experts of a mixture as a token uses
        model = AutoModel.from_config(config, dtype=torch.float32, experts_implementation="batched_mm")
    return model.eval().requires_grad_(False)


def parameters(config: PretrainedConfig) -> int:
    """Return the number of parameters of the architecture."""
    return sum(parameter.numel() for parameter in empty(config).parameters())


def forward(config: PretrainedConfig, tokens: int, batch: int) -> float:
    """Return operations per example of a forward pass of `batch` examples of `tokens` tokens.

    They are estimated from parameters if the computation depends on values.
    """
    encoder = empty(config)
    width = encoder.get_input_embeddings().embedding_dim
    with FlopCounterMode(display=False) as counter:
        try:
            encoder(inputs_embeds=torch.empty(batch, tokens, width, device="meta"))
        except NotImplementedError:  # its computation depends on values, which are missing here
            return 2.0 * tokens * parameters(config)
    return float(counter.get_total_flops() / batch)


def reduced(config: PretrainedConfig) -> PretrainedConfig:
    """Return a config with the same architecture and widths, but few layers and words, to measure quickly."""
    if config.is_encoder_decoder:
        return translated.reduced(config, LAYERS, VOCABULARY)
    content, layers = config.to_dict(), config.num_hidden_layers
    n = min(LAYERS, layers)
    # at least up to the first layer with attention, which comes late in hybrid models
    heads = (heads_by_layer(content) or {}).get(SELF, [])
    end = max(n, 1 + next((layer for layer, number in enumerate(heads) if number), 0))
    each = {name: v[end - n : end] for name, v in content.items() if isinstance(v, list) and len(v) == layers}
    named = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    small = type(config).from_dict(content | each | {named: n})
    small.vocab_size, small.pad_token_id = VOCABULARY, 0
    return small


def random_examples(n: int, tokens: int, writes: bool = False) -> Examples:
    """Return `n` examples of `tokens` random tokens, also in a second text if a model `writes` it."""
    ids = np.random.default_rng(0).integers(8, VOCABULARY, (n, tokens))
    columns = {"example": np.arange(n), "label": np.arange(n) % 2.0, "input_ids": ids.tolist()}
    frame = pd.DataFrame(columns | {"token_type_ids": None})
    return translated.examples(frame) if writes else Examples(frame)


def seconds_per_call(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return mean seconds per call of each of `runs`, called in turn for `seconds` after a warm-up."""
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


def no_checkpoint() -> Checkpoint:
    """Return a checkpoint that is never written."""
    return Checkpoint(Path(tempfile.gettempdir()) / "headspec-no-checkpoint", "", float("inf"))


def measure(
    config: PretrainedConfig, tokens: int, size: int, device: Device, seconds: float
) -> dict[str, float]:
    """Return FLOP/s by purpose, for examples of `tokens` tokens and training batches of `size`.

    The reduced model is measured for `seconds` or longer.
    """
    small, writes = reduced(config), config.is_encoder_decoder

    def build() -> MultiTask:
        if writes:
            return translated.model(small, tokens)
        encoder = AutoModel.from_config(small, dtype=torch.float32)
        return MultiTask(encoder, "mean", {"task": ["a", "b"]})

    pruned, trained = build(), build()  # two, because gradients change how a CPU computes attention
    training = random_examples(STEPS * size, tokens, writes)
    scored = random_examples(min(256, max(1, device.tokens // tokens)), tokens, writes)
    planned = masks({"task": np.where(pruned.gates.exists, 0.0, np.nan)}, 0.3, [0.3], 2, 0)
    settings, rows = Training(batch_size=size, epochs=1), np.arange(len(scored))
    examples = {"train": len(training), "importance": len(scored), "prune": len(planned) * len(scored)}
    runs: dict[str, Callable[[], object]] = {
        "train": lambda: train(trained, Setup({"task": training}, settings, 0, device), no_checkpoint()),
        "importance": lambda: gate_gradients(trained, "task", scored, rows, device),
        "prune": lambda: predictions(pruned, {"task": scored}, planned, device),
    }
    once = translated.teacher_forced(small, tokens, tokens, size) if writes else forward(small, tokens, size)
    operations = dict.fromkeys(PASSES, once)
    if writes:
        operations["prune"] = translated.written(small, tokens, tokens, size)
    if caches(small.to_dict()):
        runs[WRITE] = functools.partial(write, pruned, len(scored), device)
        operations[WRITE], examples[WRITE] = forward(small, WRITTEN, size), len(scored)
    taken = seconds_per_call(runs, seconds)
    rates = {name: PASSES.get(name, 1) * operations[name] * examples[name] / taken[name] for name in runs}
    return {WRITE: rates["prune"]} | rates


@torch.no_grad()
def write(model: MultiTask, rows: int, device: Device) -> None:
    """Pass `WRITTEN` tokens of each of `rows` texts through a decoder, one after another, under a mask."""
    encoder, cache = model.encoder, None
    name, ids = cache_name(encoder), torch.ones(rows, 1, dtype=torch.long, device=device.name)
    with device.cast(), model.gates.closed(model.gates.exists & False):
        for _ in range(WRITTEN):
            cache = encoder(input_ids=ids, use_cache=True, **{name: cache})[name]


def find_speed(
    configs: dict[str, PretrainedConfig], tokens: int, study: Study, python: str, at_once: int, gpu: bool
) -> Speed:
    """Return the mean speed of jobs, `at_once` at a time, on examples of `tokens` tokens.

    `python` is the command that starts them; it may still be importing packages. Raises HeadspecError if a
    model or a figure fails.
    """
    settings = {devices.JOBS_PER_GPU: str(study.jobs_per_gpu)} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    environment = os.environ | settings
    texts = {name: config.to_json_string() for name, config in configs.items()}
    distinct = {text: configs[name] for name, text in texts.items()}
    with tempfile.TemporaryDirectory() as folder:
        while python != sys.executable and _run(python, folder, READY, environment):
            time.sleep(0.1)
        folders = [f"{folder}/{i}" for i in range(len(distinct))]
        for config, path in zip(distinct.values(), folders, strict=True):
            config.save_pretrained(path)
        numbers = [str(tokens), str(study.training.batch_size), study.precision, "2" if gpu else "1"]
        command = [python, "-m", "headspec.cost.throughput", *numbers, *folders]
        begun = time.time()
        pipe = subprocess.PIPE
        children = [
            subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe)
            for _ in range(at_once)
        ]
        outputs = [child.communicate() for child in children]
        begun_light = time.time()
        failed = _run(python, folder, FIGURE, environment)
        light_start = time.time() - begun_light
    if failed:
        raise HeadspecError("a figure cannot be drawn on this machine; give --rate")
    for child, (_, error) in zip(children, outputs, strict=True):
        if child.returncode:
            raise HeadspecError(f"cannot measure the speed ({error.strip().splitlines()[-1]}); give --rate")
    answers = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    measured: dict[str, Any] = {
        text: pd.DataFrame([answer["rates"][i] for answer in answers]).mean().to_dict()
        for i, text in enumerate(distinct)
    }
    model_start = float(np.mean([answer["ready"] for answer in answers])) - begun
    return Speed({name: measured[text] for name, text in texts.items()}, model_start, light_start)


def _run(python: str, folder: str, code: str, environment: dict[str, str]) -> int:
    """Return the exit status of `code`, run like a job's script."""
    script = Path(folder, "script.py")
    script.write_text(code)
    return subprocess.run([python, str(script)], env=environment, capture_output=True).returncode


#: a speed is ignored if it was measured under a load that is higher than now by more than this
BUSIER = 0.5


def speed_key(*settings: Any) -> str:
    """Return the key of a speed, from machine, packages, the measured code, and `settings`."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = platform.node(), torch.cpu.get_capabilities(), sorted(os.sched_getaffinity(0)), gpu
    code = code_hash.by_root([code_hash.LIBRARY / "cost" / "throughput.py"])
    about = json.dumps([machine, tables.versions(), code, settings], sort_keys=True, default=str)
    return hashlib.sha256(about.encode()).hexdigest()


def read_speed(name: str, load: float) -> tuple[Speed, float] | None:
    """Return a stored speed and the machine's load before it was measured.

    None if there is no valid one, or if that load exceeded `load` by more than `BUSIER`.
    """
    path = hashes.FOLDER / f"speed-{name}"
    try:
        files.verify(path)
        stored = json.loads(path.read_text())
        speed, before = Speed(**stored["speed"]), float(stored["load"])
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return None
    return (speed, before) if before <= load + BUSIER else None


def write_speed(name: str, speed: Speed, load: float) -> None:
    """Store a speed; if that fails, the next plan measures again."""
    content = {"speed": asdict(speed), "load": load, "file_sha256": files.PLACEHOLDER}
    path = hashes.FOLDER / f"speed-{name}"
    with contextlib.suppress(OSError, StorageError), files.atomic(path) as temporary:
        temporary.write_text(json.dumps(content))
        files.embed_sha256(temporary)


def main(tokens: str, size: str, precision: str, threads: str, *folders: str) -> None:
    """Print, as JSON, when packages were loaded, and the measured rates of the models in these folders."""
    device = devices.prepare(precision, int(threads))
    ready = time.time()
    configs = map(AutoConfig.from_pretrained, folders)
    measured = [measure(config, int(tokens), int(size), device, SECONDS) for config in configs]
    print(json.dumps({"ready": ready, "rates": measured}))


if __name__ == "__main__":
    main(*sys.argv[1:])
