"""Every way of training a tiny model, in a module that processes which train together can import."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist

from headspec.config.sections.training import Training
from headspec.models.internals.activations import representations
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.iat import branch, retrain
from headspec.training.loop import Setup, train, trainer
from headspec.training.variants.lora import LoRA
from headspec.training.variants.own import Own
from support.tiny import CPU, encoder, examples

#: the last batch of task a has three examples, too few to share; that of b has five, in unequal shares
DATA = {"a": examples(19, 2, 1), "b": examples(13, 3, 2)}
SETTINGS = Training(batch_size=8, epochs=1, learning_rate=1e-3)
SETUP = Setup(DATA, SETTINGS, 7, CPU)
HEADS = {"a": np.eye(3, 4, dtype=bool), "b": np.eye(3, 4, k=1, dtype=bool)}
FIXED = {
    task: examples.vectors(representations([(task, MultiTask(encoder("bert"), "mean", {}))], examples, CPU))
    for task, examples in DATA.items()
}


def every_method(net: MultiTask, folder: Path) -> dict[str, tuple[pd.DataFrame, dict[str, torch.Tensor]]]:
    """Method: history and weights of training from the weights of `net`; IAT and LoRA from one branch."""
    start = deepcopy(net.state_dict())
    done: dict[str, tuple[pd.DataFrame, dict[str, torch.Tensor]]] = {}

    def keep(method: str, history: pd.DataFrame) -> None:
        done[method] = history, deepcopy(net.state_dict())
        net.load_state_dict(start)

    never, kept, third = (Checkpoint(folder / f"{name}.pt", "f", 1e9) for name in ("never", "kept", "third"))
    with trainer(net, SETUP) as run:
        run.run(3, never)
        third.save(run.state())
    net.load_state_dict(start)
    keep("tuned", train(net, SETUP, never, kept, 0.5))
    keep("microbatches", train(net, Setup(DATA, SETTINGS, 7, CPU, 2), never))
    keep("single", train(net, Setup({"a": DATA["a"]}, SETTINGS, 7, CPU), never))
    keep("frozen", train(net, Setup(DATA, SETTINGS, 7, CPU, features=FIXED), never))
    if dist.is_initialized():
        dist.barrier()  # the first process has written
    keep("resumed", train(net, SETUP, third))
    state = branch(net, SETUP, 0.4, kept.load(), never)
    for method, restriction in {"iat": Own(HEADS, "qkv"), "lora": LoRA(HEADS, "qkv", 7)}.items():
        keep(method, retrain(net, SETUP, restriction, deepcopy(state), never))
    return done
