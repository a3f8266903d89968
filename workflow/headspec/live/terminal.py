"""A terminal with a picture at its foot; other output scrolls above it."""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from queue import SimpleQueue

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

SECONDS = 0.5  # between two pictures
STREAMS = 1, 2  # standard output and error
ECHO = 3  # columns left free for ^C, which would break the last line
NARROWEST = 20
CHUNK = 1 << 16  # bytes copied at once


def usable() -> bool:
    """Return whether standard error is a terminal for a person that can redraw lines."""
    redraws = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return redraws and not os.environ.get("CI") and os.isatty(2)


class Terminal:
    """Draws `picture`, a function of width and height called in a thread, until it is closed.

    What this process and its jobs write to the terminal goes to a file, which unlike a pipe never makes a job
    wait, and is copied above the picture. Jobs that read keys find none. `broken` takes errors of the view.
    """

    def __init__(
        self, picture: Callable[[int, int], RenderableType], broken: Callable[[Exception], None], color: bool
    ) -> None:
        self.picture, self.broken = picture, broken
        self.terminals = {stream: os.dup(stream) for stream in STREAMS if os.isatty(stream)}
        self.written = tempfile.TemporaryFile()  # noqa: SIM115
        self.keys = os.dup(0)
        self.seen = self.copied = 0  # bytes of it
        self.muted = False
        file = open(os.dup(2), "w", encoding=sys.stderr.encoding, errors="replace")  # noqa: SIM115
        no_color = None if color else True
        self.console = Console(file=file, force_terminal=True, no_color=no_color, highlight=False)
        self.live = Live(
            console=self.console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self.said: SimpleQueue[str] = SimpleQueue()
        self.closed = threading.Event()
        _flush()
        for stream in self.terminals:
            os.dup2(self.written.fileno(), stream)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        self.live.start()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def say(self, text: str) -> None:
        """Write `text`, with its escape sequences for colours, above the picture."""
        self.said.put(text)

    def mute(self) -> None:
        """Discard standard output and error from now on, and from the last half second."""
        self.muted = True

    def close(self) -> None:
        """Remove the picture and give the terminal back, with all output written."""
        if self.closed.is_set():
            return
        self.closed.set()
        if threading.current_thread() is not self.thread:
            self.thread.join()
        with contextlib.suppress(Exception):
            self.live.stop()
        with contextlib.suppress(Exception):
            self._copy(all_of_it=True)
        _flush()
        for stream, terminal in self.terminals.items():
            os.dup2(terminal, stream)
        os.dup2(self.keys, 0)

    def _run(self) -> None:
        try:
            while not self.closed.wait(SECONDS):
                columns, lines = os.get_terminal_size(self.terminals[2])
                width, height = max((columns or 80) - ECHO, NARROWEST), lines or 24
                self.console.size = width, height
                self._copy()
                self.live.update(self.picture(width, height - 1), refresh=True)
        except Exception as error:
            self.broken(error)

    def _copy(self, all_of_it: bool = False) -> None:
        """Copy new output above the picture, except an unfinished line; half a second late, for `mute`."""
        while not self.said.empty():
            self.console.print(Text.from_ansi(self.said.get()), soft_wrap=True)
        if self.muted:
            return
        size = os.fstat(self.written.fileno()).st_size
        end, self.seen = size if all_of_it else self.seen, size
        while new := os.pread(self.written.fileno(), min(CHUNK, end - self.copied), self.copied):
            if not all_of_it:
                new = new[: new.rfind(b"\n") + 1]
            if not new:
                break
            self.copied += len(new)
            for line in new.decode(errors="replace").removesuffix("\n").split("\n"):
                drawn_last = line.rstrip("\r").rpartition("\r")[2]
                self.console.print(Text.from_ansi(drawn_last), soft_wrap=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
