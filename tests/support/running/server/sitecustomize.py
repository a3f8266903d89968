"""For the process of `support.running.warm`: its forks stop or die where their variable FAULT says.

`checkpoint.pt:3:stop` or `:kill`: just before the third file of this name gets it. With a folder CALLED, each
fork writes a file with the functions of headspec and of plugins that it calls, and the roots of the code that
its job was planned with. Calls by imports are left out, since their values count where they are used.
"""

import json
import os
import signal
import sys
import time

seen = 0


def obeying(rename):
    def renamed(source, target, **options):
        global seen
        name, times, what = os.environ.get("FAULT", "-:0:-").rsplit(":", 2)
        if os.fsdecode(target).endswith(name):
            seen += 1
            if seen == int(times):
                os.kill(os.getpid(), signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        return rename(source, target, **options)

    return renamed


os.rename, os.replace = obeying(os.rename), obeying(os.replace)


CALLED = os.environ.get("CALLED")
LIBRARY, SERVER = "/workflow/headspec/", "/pipeline/warm.py"
known, roots = set(), []


def note(*what):
    with open(f"{CALLED}/{os.getpid()}-{started}", "a") as file:
        file.write(json.dumps(what) + "\n")


def imports(frame):
    while frame := frame.f_back:
        path = frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" and is_own(path):
            return True
    return False


def is_own(path):
    """Whether code is of headspec or a plugin; Snakemake copies scripts into its folder."""
    plugin = path.startswith(f"{os.getcwd()}/") and path.endswith(".py") and "/.snakemake/" not in path
    return (LIBRARY in path or (plugin and "/workflow/" not in path)) and not path.endswith(SERVER)


def called(frame, event, argument):
    code = frame.f_code
    if event != "call" or code in known:
        return
    path = code.co_filename
    if code.co_name != "<module>" and is_own(path):
        if imports(frame):  # it may be called again, by others
            return
        planned = getattr(sys.modules.get("headspec.provenance.code_hash"), "planned", {})
        if planned and not roots:
            roots.extend(planned)
            note("roots", *roots)
        note(path, code.co_firstlineno, code.co_name)
    known.add(code)


def trace():
    global started
    started = time.monotonic_ns()  # numbers of processes come again
    sys.settrace(called)  # no calls of C, as a profiler would


if CALLED:
    os.register_at_fork(after_in_child=trace)
