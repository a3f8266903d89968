"""Fast job start-up: jobs are forks of a server that has imported torch, transformers and pandas.

These imports dominate short jobs. A job still has its own process, arguments, folder, environment, output and
exit status, and imports headspec itself. Jobs on a cluster start as usual. `start` replaces `sys.executable`,
by which Snakemake starts jobs, with a command that asks the server, or else runs Python.

This file is run by path, before headspec can be imported, so it imports only the standard library.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import glob
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
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

NAME = "headspec-python"  # of the command
SOCKET, LOCK = "socket", "lock"  # beside it
LONGEST = 107 - len(f"12345678/{SOCKET}")  # maximum bytes of a folder's name without its random suffix
PR_SET_PDEATHSIG = 1  # of prctl(2)
STALLED = 60  # seconds after which a silent request is dropped, since it blocks others
#: variables of GNU's OpenMP and oneDNN: value, and another variable by which users may set the same
VARIABLES = {
    # iterations for which a waiting thread spins. With GNU's default, two jobs of two threads on two cores
    # take 30 times as long as one alone; with this, 2.5 times.
    "GOMP_SPINCOUNT": ("10000", "OMP_WAIT_POLICY"),
    # number of cached compiled products, each a megabyte for one batch shape. oneDNN caches 1024, most of
    # which are never reused, so that training a translator takes 6 GB; with this, half, at the same speed.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": ("64", "DNNL_PRIMITIVE_CACHE_CAPACITY"),
}
#: packages that jobs import, in the order that a study needs them; a function after a colon is called with a
#: model type, to fill a cache
TABLES = "pandas", "pyarrow.parquet", "pydantic.main", "yaml"
MODELS = (
    "torch", "torch._dynamo", "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert", "transformers.tokenization_utils_tokenizers",
    "transformers.conversion_mapping:get_checkpoint_conversion_mapping",  # compiles a thousand patterns
)  # fmt: skip
ANALYSIS = (
    "scipy.stats", "matplotlib.pyplot", "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
)  # fmt: skip
#: of all rules
PACKAGES = TABLES + MODELS + ANALYSIS
_servers: list[subprocess.Popen[bytes]] = []  # kept, so that their pipes stay open


def start(packages: Sequence[str], nested: bool = False) -> str:
    """Start the server, which ends with this process; return the path that replaces `sys.executable`.

    Without a server, this is `sys.executable`. Early jobs find only some `packages` imported. If `nested`,
    forks lead sessions and start processes through the server, as Snakemake must.
    """
    if Path(sys.executable).name == NAME or sys.platform != "linux":  # forking torch is not safe elsewhere
        return sys.executable
    if (folder := _folder()) is None:
        return sys.executable
    command = f"{folder}/{NAME}"
    with socket.socket(socket.AF_UNIX) as listener, _locked(folder) as lock:
        listener.bind(f"{folder}/{SOCKET}")
        listener.listen(64)
        serve = [__file__, "serve", str(listener.fileno()), folder, command if nested else "", *packages]
        server = subprocess.Popen(
            [sys.executable, *serve],
            stdin=subprocess.PIPE,  # closed when this process ends
            pass_fds=[listener.fileno(), lock.fileno()],
            env=_environment(),
        )
    _servers.append(server)
    return command


def _folder() -> str | None:
    """Make a private folder with the command, and remove those of dead servers; None if no place is suitable.

    Snakemake does not quote its path in shell commands, addresses of sockets are short, and some places do
    not allow programs.
    """
    prefix = f"headspec-{os.uname().nodename}-"  # machines can share a folder, but not processes
    for parent in (tempfile.gettempdir(), "/tmp", "/dev/shm"):
        _remove_abandoned(f"{glob.escape(parent)}/{prefix}*")
        if shlex.quote(parent + prefix) != parent + prefix or len(parent + prefix) > LONGEST:
            continue
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
            command = Path(folder, NAME)
            ask = [sys.executable, "-IS", __file__, "ask", f"{folder}/{SOCKET}", sys.executable]
            command.write_text(f'#!/bin/sh\nexec {shlex.join(ask)} "$@"\n')
            command.chmod(0o700)
            if os.access(command, os.X_OK):
                return folder
            shutil.rmtree(folder)
    return None


def _locked(folder: str) -> IO[str]:
    """Return a file in `folder`, locked before others see it and while a process uses the folder."""
    file = open(f"{folder}/.{LOCK}", "w")  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(file.name, f"{folder}/{LOCK}")
    return file


def _remove_abandoned(folders: str) -> None:
    """Remove folders, given by a pattern, that no process has locked, since their servers were killed."""
    for path in glob.glob(f"{folders}/{LOCK}"):
        with contextlib.suppress(OSError), open(path, "r+") as file:  # it is in use, or another user's
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(os.path.dirname(path))


def tuned(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables `given`, plus those of `VARIABLES` that the user has not set."""
    return {name: value for name, (value, other) in VARIABLES.items() if other not in given} | dict(given)


def _environment() -> dict[str, str]:
    """Return the environment of the server, which its libraries read for all forks."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return tuned(given) | {"OMP_NUM_THREADS": "1"}


def ask(address: str, python: str, arguments: list[str]) -> None:
    """Let a fork run `arguments`, and exit like it."""
    if arguments[:1] != ["-m"] and (not arguments or arguments[0].startswith("-")):
        os.execv(python, [python, *arguments])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends the fork, in the same terminal
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            socket.send_fds(connection, [b"\n"], [0, 1, 2])
            connection.sendall(json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode() + b"\n")
            status = int(connection.recv(8) or -signal.SIGKILL)
    except (FileNotFoundError, ConnectionError):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(python, [python, *arguments])
    if status < 0:
        with contextlib.suppress(OSError):  # nothing handles SIGKILL
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(listener: socket.socket, packages: list[str]) -> list[str]:
    """Import `packages`, and fork at every request; return, in the fork, the arguments to run.

    A job is killed if its command is gone or the server ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands: dict[int, socket.socket] = {}  # by a file descriptor of the job
    pids: dict[int, int] = {}
    while True:
        listening = [listener] if listener.fileno() >= 0 else []
        waiting: list[Any] = [*listening, 0, *commands, *commands.values()]
        ready = select.select(waiting, [], [], 0 if packages else None)[0]
        if 0 in ready:
            sys.exit()
        for job, connection in list(commands.items()):
            if connection in ready:
                os.kill(pids[job], signal.SIGKILL)
            if job in ready or connection in ready:
                _, status = os.waitpid(pids.pop(job), 0)
                with commands.pop(job), contextlib.suppress(OSError):  # the command may be gone
                    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
                os.close(job)
        if listener in ready:
            connection, _ = listener.accept()
            if (request := received(connection)) is None:
                continue
            pid = os.fork()
            if not pid:
                for inherited in (listener, connection, *commands.values()):
                    inherited.close()
                return prepared(*request)
            for file in request[0]:
                os.close(file)
            job = os.pidfd_open(pid)
            commands[job], pids[job] = connection, pid
        elif packages and not ready:
            module, _, function = packages.pop(0).partition(":")
            with contextlib.suppress(ImportError, AttributeError):  # a job that needs it will say so
                package = importlib.import_module(module)
                if function:
                    getattr(package, function)("bert")
            # those of torch's libraries take 30 ms in every fork; there is no public list of them
            for finalizer in [*weakref.finalize._registry]:  # type: ignore[attr-defined]
                finalizer.atexit = False
            gc.freeze()  # forks neither search nor copy what was imported
            if gpu_open():
                listener.close()  # commands run Python themselves


def gpu_open() -> bool:
    """Return whether this process has opened a GPU, which its forks could not use."""
    files = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return any(file.startswith("/dev/nvidia") for file in files)


def received(connection: socket.socket) -> tuple[list[int], list[str], str, dict[str, str]] | None:
    """Return the files, arguments, folder and environment of a request; None if the command is gone."""
    connection.settimeout(STALLED)
    try:
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        arguments, folder, environment = json.loads(connection.makefile().readline())
    except (OSError, ValueError):
        connection.close()
        return None
    return files, arguments, folder, environment


def prepared(files: list[int], arguments: list[str], folder: str, environment: dict[str, str]) -> list[str]:
    """Turn this fork into the process that the command represents; return its arguments."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # when the server ends
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def run(arguments: list[str]) -> None:
    """Run `-m module ...` or `script ...` as Python would."""
    module = arguments[0] == "-m"
    sys.argv = arguments[1:] if module else arguments
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(arguments[0]))
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


def end(arguments: list[str], ended: list[int]) -> None:
    """Run `arguments` and exit like Python, putting the exit status into `ended` for `leave`."""
    status: object = None
    try:
        run(arguments)
    except SystemExit as leaving:
        status = leaving.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    ended.append(status if isinstance(status, int) else 0)
    sys.exit()


def leave(ended: list[int]) -> None:
    """Exit after a job's threads end, without tearing down imported modules, which takes half a second."""
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed
                stream.flush()
        os._exit(ended[0])


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3], sys.argv[4:])
    ended: list[int] = []
    atexit.register(leave, ended)  # the first registered function is called last
    number, folder, nested, *packages = sys.argv[2:]
    server = os.getpid()
    try:
        request = serve(socket.socket(fileno=int(number)), packages)
    finally:
        if os.getpid() == server:
            shutil.rmtree(folder, ignore_errors=True)
    if nested:
        os.setsid()
        sys.executable = nested
    end(request, ended)
