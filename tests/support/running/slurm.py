"""A SLURM cluster of one node on this machine, with daemons, ports and files of its own.

Its two GPUs are device files that every machine has. Nothing in /etc is read or written.
"""

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.running.faults import until

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
# the memory of jobs is sampled every second, and more than they requested ends them
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
# a job past its time has two seconds from SIGTERM to SIGKILL
OverTimeLimit=0
KillWait=2
ReturnToService=2
# the tests ask for jobs that have ended long ago
MinJobAge=86400
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
# cores and memory are what this file says, whatever the machine has
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=60000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
#: the profile, and waiting for seconds instead of minutes
OPTIONS = [
    "--profile", "profiles/slurm", "--cores", "4", "--latency-wait", "5",
    "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1",
]  # fmt: skip
GPUS = "AutoDetect=off\nName=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
#: jobs start `srun` with no variable of SLURM but a few, so it would look for the cluster in /etc
SRUN = '#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {srun} "$@"\n'


@dataclass
class Cluster:
    """A running cluster; `environment` is what its commands, and Snakemake, need."""

    folder: Path
    environment: dict[str, str]
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, daemon: str, *arguments: str) -> None:
        with open(self.folder / f"{daemon}.log", "a") as log:
            self.daemons[daemon] = subprocess.Popen(
                [daemon, *arguments], stdout=log, stderr=log, env=os.environ | self.environment
            )

    def stop(self, daemon: str) -> None:
        process = self.daemons.pop(daemon)
        process.terminate()
        process.wait()

    def answers(self) -> bool:
        return "idle" in self.run("sinfo", "--noheader", "--format=%T", check=False)

    def run(self, *command: str, check: bool = True) -> str:
        """The output of a command of SLURM."""
        return subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True, check=check
        ).stdout

    def jobs(self) -> dict[int, dict[str, str]]:
        """Number of each job, from the first: what `scontrol` shows of it."""
        lines = self.run("scontrol", "show", "job", "--details", "--oneliner").splitlines()
        shown = [dict(re.findall(r"(\S+?)=(\S+)", line)) for line in lines if line.startswith("JobId=")]
        return {int(job["JobId"]): job for job in sorted(shown, key=lambda job: int(job["JobId"]))}


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short path: that of a socket has 107 characters
    folder.chmod(0o755)
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    with socket.socket() as one, socket.socket() as other:
        for listener in (one, other):
            listener.bind(("127.0.0.1", 0))
        ports = {"controller": one.getsockname()[1], "node": other.getsockname()[1]}
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(CONFIG.format(host=host, folder=folder, **ports))
    (folder / "gres.conf").write_text(GPUS)
    (folder / "bin" / "srun").write_text(SRUN.format(folder=folder, srun=shutil.which("srun")))
    (folder / "bin" / "srun").chmod(0o755)
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    environment = {
        "SLURM_CONF": f"{folder}/slurm.conf",
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
    }
    private = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    running = Cluster(folder, environment)
    try:
        running.start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *private)
        until((folder / "munge.socket").exists, running.daemons["munged"])
        running.start("slurmctld", "-D")
        running.start("slurmd", "-D")
        until(running.answers, running.daemons["slurmd"])
        yield running
    finally:
        running.run("scancel", "--user=root", check=False)
        for daemon in reversed([*running.daemons]):
            running.stop(daemon)
        shutil.rmtree(folder, ignore_errors=True)  # what its jobs start may still write
