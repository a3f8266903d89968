"""A command that runs Python as `python` does, but in a fork of a process that has imported what is slow.

Jobs of a tiny study take milliseconds, and their imports seconds. Every run is still a process of its
own, with its arguments, folder, environment, output and exit status, and imports headspec anew. Not
passed on are hash seeds and what packages read from the environment as they are imported.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

SLOW = [
    "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "matplotlib.pyplot", "pandas",
    "pyarrow.parquet", "scipy.stats", "snakemake.cli", "snakemake.script", "snakemake.workflow",
    "torch._dynamo", "transformers.models.auto.modeling_auto", "transformers.tokenization_utils_tokenizers",
]  # fmt: skip


@functools.cache
def python() -> str:
    """The path of the command. The process that is forked ends with the caller's."""
    folder = tempfile.mkdtemp(prefix="warm-")
    atexit.register(shutil.rmtree, folder)
    address, path = f"{folder}/socket", f"{folder}/python"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", __file__, "ask", address])} "$@"\n')
    os.chmod(path, 0o755)
    subprocess.Popen(
        [sys.executable, __file__, "serve", str(listener.fileno()), path],
        stdin=subprocess.PIPE,  # closed when this process ends
        pass_fds=[listener.fileno()],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"},
    )
    return path


def ask(address: str, arguments: list[str]) -> None:
    """Have a fork run `arguments`, and end as it ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode())
        connection.shutdown(socket.SHUT_WR)
        status = int(connection.recv(8))
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(listener: socket.socket) -> list[str]:
    """Fork at every request; returns, in the fork, the arguments to run."""
    asking: dict[int, socket.socket] = {}

    def ended(*_: object) -> None:
        while asking:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with asking.pop(pid) as connection, contextlib.suppress(OSError):  # who asked may be gone
                connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())

    signal.signal(signal.SIGCHLD, ended)
    while listener in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        arguments, folder, environment = json.loads(connection.makefile().read())
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            os.setsid()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            for inherited in (listener, connection, *asking.values()):
                inherited.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return arguments
        asking[pid] = connection
        for file in files:
            os.close(file)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os._exit(0)


def run(arguments: list[str]) -> None:
    """Run `-m module ...` or `script ...`."""
    module = arguments[0] == "-m"
    sys.argv = arguments[1:] if module else arguments
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(arguments[0]))
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3:])
    for name in SLOW:
        importlib.import_module(name)
    gc.freeze()  # forks neither search nor copy what was imported
    sys.executable = sys.argv[3]  # Snakemake starts jobs with it
    run(serve(socket.socket(fileno=int(sys.argv[2]))))
