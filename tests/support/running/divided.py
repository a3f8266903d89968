"""What two processes compute that each have a part of a model's layers (tensor parallelism)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import transformers
from transformers import PreTrainedModel

import headspec
from headspec.errors import ModelError
from support.model_types import any_model, every_type

#: name: what small models of this type need
DIVIDED: dict[str, dict[str, Any]] = {
    "llama": {}, "gpt_neox": {}, "qwen3": {"num_key_value_heads": 4},
    # attention that each process computes, with W_O divided and whole
    "olmo2": {}, "deepseek_v3": {"n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
}  # fmt: skip
#: that no process computes
UNEVEN = {"num_attention_heads": 3, "num_key_value_heads": 3, "hidden_size": 24, "head_dim": 8}
SCORES = "gradient", "tokens", "ablation", "mean_ablation", "resample_ablation"
Results = dict[str, np.ndarray]


def small(model_type: str, **settings: Any) -> PreTrainedModel:
    """A random decoder, with larger weights than usual, so that heads matter."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(every_type.config(model_type, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    return model


def results(model: PreTrainedModel) -> Results:
    """Scores, curves, behaviours, attention maps, gated passes and texts, and derivatives by gates."""
    batches = any_model.batches("pythia")
    ids = np.arange(30).reshape(5, 6) + 5
    given = [{"input_ids": ids, "labels": ids}]
    found = {score: headspec.head_importance(model, batches, score=score) for score in SCORES}
    found["corrupted"] = headspec.head_importance(
        model, given, score="attribution", corrupted=[given[0] | {"input_ids": ids[::-1].copy()}]
    )
    for ablation in ("zero", "mean"):
        curve = headspec.head_curve(model, given, fractions=[0.3], draws=5, ablation=ablation)
        found[f"curve, {ablation}"] = curve["value"].to_numpy()
    table = headspec.head_behaviours(model, start=1, sequences=2, tokens=8)
    found["behaviours"] = table[["score", "control", "se"]].to_numpy()
    maps = headspec.attention_maps(model, batches[0], {0: [0, 3], 1: [2]})
    found["maps"] = np.stack([*maps.values()])
    gating = headspec.causal_head_gating(model, batches, steps=3)
    found["gating"] = gating[["facilitating", "interfering"]].to_numpy()
    gates = headspec.HeadGates(model)
    prompts = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(ids.shape, dtype=torch.long)}
    with gates.closed({0: [1], 1: [0, 3]}), torch.no_grad():
        found["logits"] = model(**batches[0]).logits.numpy()
        found["texts"] = model.generate(**prompts, max_new_tokens=4, do_sample=False).numpy()
    values = torch.full((len(ids), *gates.exists.shape), 0.7, requires_grad=True)
    with gates.at(values):
        model(**prompts, labels=prompts["input_ids"]).loss.backward()
    assert values.grad is not None
    return found | {"derivatives": values.grad.numpy()}


def refusals(model: PreTrainedModel, uneven: PreTrainedModel, folder: Path) -> Iterator[str]:
    """What divided models are refused for, as messages."""
    functions: list[Callable[[], object]] = [
        lambda: headspec.remove_heads(model, {0: [1]}),
        lambda: headspec.save(model, folder / "saved"),
        lambda: headspec.head_importance(model, score="magnitude"),
        lambda: headspec.HeadGates(uneven),
    ]
    for function in functions:
        try:
            function()
        except ModelError as error:
            yield str(error)


def load(folder: Path, name: str) -> PreTrainedModel:
    """A model of which this process has a part."""
    settings = {"distributed_config": {"tp_size": 2}, "dtype": torch.float32}
    return transformers.AutoModelForCausalLM.from_pretrained(folder / name, **settings).eval()


def process(rank: int, folder: Path, name: str) -> None:
    """Write the results of a model in `folder`, and refusals if there is an `uneven` one."""
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    torch.save(results(load(folder, name)), folder / f"results-{rank}.pt")
    if (folder / "uneven").exists():
        told = [*refusals(load(folder, name), load(folder, "uneven"), folder)]
        torch.save(told, folder / f"refusals-{rank}.pt")
    dist.destroy_process_group()
