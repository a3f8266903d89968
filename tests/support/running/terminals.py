"""Commands on a terminal."""

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable

from support.running import warm
from support.running.studies import Folder


def on_terminal(
    folder: Folder, *arguments: str, at: str = "", do: Callable[[int, int], None] | None = None,
    module: str = "snakemake", **more: str,
) -> tuple[int, str]:  # fmt: skip
    """The exit status of a command, by default `snakemake --cores 2`, on a terminal, and what it writes.

    Parameters
    ----------
    at, do : words at which `do` is called, with the process and the terminal. What it sends to the process
        group has to reach Snakemake itself, so that it is no fork then
    more : variables
    """
    terminal, child = pty.openpty()
    termios.tcsetwinsize(child, (24, 100))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CI", "NO_COLOR")}
    cores = ["--cores", "2"] if module == "snakemake" and "--cores" not in arguments else []
    process = subprocess.Popen(
        [sys.executable if do else warm.python(), "-m", module, *cores, *arguments],
        cwd=folder.path, env=environment | {"TERM": "xterm", "CUDA_VISIBLE_DEVICES": ""} | more,
        stdin=child, stdout=child, stderr=child, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell ignores it
    )  # fmt: skip
    os.close(child)
    written = ""
    while True:
        try:
            written += os.read(terminal, 1 << 16).decode(errors="replace")
        except OSError:  # the last process has closed it
            break
        if do and at in written:
            do(process.pid, terminal)
            do = None
    os.close(terminal)
    assert do is None, written
    return process.wait(), written.replace("\r\n", "\n")
