"""The end of a test that hangs: one whose processes do nothing for long, however fast the machine is."""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

SAMPLES = 20  # in a row without work, after which a test hangs
SHARE = 0.05  # of a core, between two samples; processes that only wait and look take less


def started(*variables: str) -> list[psutil.Process]:
    """The processes that have these variables as this one has them, wherever they are by now."""
    same = {name: os.environ.get(name) for name in variables}.items()
    processes = psutil.process_iter(["environ"])
    return [process for process in processes if same <= (process.info["environ"] or {}).items()]


class Watch:
    """A thread that samples what this process, and those that it has started, have computed.

    A sample counts as work if CPU time has passed, or a process waits for a core or a disk. Samples are
    counted, not seconds, so that neither a busy nor a suspended machine ends a test.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.looks = False  # this process only looks at what others do
        self.waits = False  # for another process of the tests, which has a watch of its own

    def run(self, seconds: float) -> None:
        idle, before = 0, -math.inf  # most tests end before the first sample, which takes milliseconds
        while not self.over.wait(seconds / SAMPLES):
            now, ready = self.computed()
            works = ready or abs(now - before) > SHARE * seconds / SAMPLES
            idle, before = 0 if works or self.waits else idle + 1, now
            if idle == SAMPLES:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                idle = 0

    def computed(self) -> tuple[float, bool]:
        """CPU seconds of all processes, and whether one of them waits for a core or a disk."""
        own = psutil.Process()
        processes = {*own.children(recursive=True), *started("PYTEST_PROCESS")}
        seconds, ready = 0.0, False
        if not self.looks:
            seconds += time.process_time() - time.thread_time() + sum(own.cpu_times()[2:4])
            ready = own.status() == psutil.STATUS_RUNNING
        for process in processes - {own}:
            with contextlib.suppress(psutil.Error):  # it ended meanwhile
                seconds += sum(process.cpu_times()[:4])
                ready |= process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
        return seconds, ready


watch = Watch()


@contextlib.contextmanager
def ended(seconds: float) -> Iterator[None]:
    """Fail the test if its processes do nothing for `seconds`; 0 is never."""
    global watch

    def fail(*_: object) -> None:
        pytest.fail(f"it hangs: its processes have done nothing for {seconds:g} s")

    if not seconds:
        yield
        return
    watch, before = Watch(), signal.signal(signal.SIGALRM, fail)
    thread = threading.Thread(target=watch.run, args=[seconds], daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.over.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """Only what other processes do counts, since this one looks again and again at what they have done."""
    watch.looks = True
    try:
        yield
    finally:
        watch.looks = False


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Nothing hangs, since this process waits for another one of the tests."""
    watch.waits = True
    try:
        yield
    finally:
        watch.waits = False
