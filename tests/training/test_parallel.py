"""Training by two processes: the weights of one, dropout included, and what ends both."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from headspec.errors import NumericalError
from headspec.models.saved import adapters
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import train
from headspec.training.parallel import on_gpus
from headspec.training.trainable import adapt
from support.paths import ROOT
from support.running import ranks
from support.running.faults import until
from support.running.training_methods import SETUP, every_method
from support.tiny import CPU
from support.two_tasks import model, never

SHARED = ["step", "epoch", "task", "learning_rate"]


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> dict[int, dict]:
    """Number of processes: what `every_method` of training gives."""
    folders = {n: tmp_path_factory.mktemp(f"by-{n}") for n in (1, 2)}
    return {n: on_gpus(n, folder, every_method)(model(), folder) for n, folder in folders.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["tuned", "resumed", "microbatches", "single", "frozen", "iat", "lora"])
def test_two_processes_train_as_one(done, method):
    """With dropout: each process has the rows of its share in the masks of the whole batch."""
    (alone, weights), (shared, same) = done[1][method], done[2][method]
    pd.testing.assert_frame_equal(alone[SHARED], shared[SHARED])
    assert shared["loss"].to_numpy() == pytest.approx(alone["loss"].to_numpy(), rel=1e-4)
    before = model().state_dict()
    moved = [name for name, value in weights.items() if not torch.equal(value, before[name])]
    assert len(moved) > (3 if method == "frozen" else 30)
    for name, value in weights.items():
        torch.testing.assert_close(same[name], value, rtol=2e-3, atol=1e-4, msg=name)


@pytest.mark.thorough
def test_adapters_train_by_two_processes_as_by_one(tmp_path):
    """The processes take the model with its adapters, and give it back."""
    nets = {1: model(), 2: model()}
    for n, net in nets.items():
        adapt(net, 4, "all", 7, CPU)
        on_gpus(n, tmp_path, train)(net, SETUP, never(tmp_path))
    alone, shared = (net.state_dict() for net in nets.values())
    assert all(weight.any() for weight in adapters(nets[2].encoder).values())
    for name, value in alone.items():
        torch.testing.assert_close(shared[name], value, rtol=2e-3, atol=1e-4, msg=name)


def test_the_first_process_alone_writes_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    for rank in (1, 0):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        Checkpoint(tmp_path / f"{rank}.pt", "f", 0).save({})
    assert [path.name for path in tmp_path.iterdir()] == ["0.pt"]


@pytest.mark.parametrize("size", range(1, 9))
def test_shares_cover_a_batch_once(monkeypatch, size):
    """By three processes, or by each of them if there are fewer than two examples for each."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 3)
    shares = []
    for rank in range(3):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        shares.append(list(range(size))[parallel.share(size)])
    assert sum(shares, []) == list(range(size)) * (3 if size < 6 else 1)
    assert min(map(len, shares)) >= min(size, 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (NumericalError("step 3 of 9: the loss is nan"), NumericalError, "^step 3 of 9: the loss is nan$"),
        (None, mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
    ],
    ids=["raised", "killed"],
)
def test_the_error_of_a_process_ends_the_training(tmp_path, error, raised, message):
    """It is that of the process that failed first, not of those that lose it."""
    with pytest.raises(raised, match=message):
        on_gpus(2, tmp_path, ranks.second_fails)(torch.nn.Linear(1, 1), error)
    assert list(tmp_path.iterdir()) == []


#: does its work when it is imported, as the scripts of rules do
SCRIPT = """
import sys; from pathlib import Path
from headspec.training.parallel import on_gpus; from support.running import ranks
from support.running.faults import until
on_gpus(2, Path(sys.argv[1]), ranks.never_end)(None, Path(sys.argv[2]))
"""


@pytest.mark.thorough
def test_a_killed_job_leaves_no_process(tmp_path):
    for name in ("run", "processes"):
        (tmp_path / name).mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = {"PYTHONPATH": f"{ROOT / 'workflow'}:{ROOT / 'tests'}"}
    command = [sys.executable, tmp_path / "script.py", tmp_path / "run", tmp_path / "processes"]
    job = subprocess.Popen(command, env=os.environ | paths)
    until(lambda: len([*(tmp_path / "processes").iterdir()]) == 2, job)
    job.kill()
    job.wait()
    processes = [Path("/proc", process.name, "exe") for process in (tmp_path / "processes").iterdir()]
    until(lambda: not any(process.exists() for process in processes))
