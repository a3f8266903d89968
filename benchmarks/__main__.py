"""Benchmark: ``python -m benchmarks [PAGE]`` prints its tables, and writes them into a page."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import exported, large_studies, speed, timing
from benchmarks.workload import workloads
from headspec.config.reference import between
from headspec.models import devices
from headspec.models.export.folder import check_onnx_installed

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def lines() -> Iterator[str]:
    """Yield the lines of all tables as they are measured, with all cores."""
    device = devices.prepare("auto", len(os.sched_getaffinity(0)))
    sentences, pairs = workloads(device)
    yield speed.HEADING
    yield from speed.rows(sentences, heads=True)  # slow, and the texts do not matter
    yield from speed.rows(pairs)
    yield from ("", large_studies.HEADING)
    yield from large_studies.rows()
    yield from ("", exported.HEADING)
    yield from exported.rows(sentences)
    yield from ("", timing.machine(device))


def main(page: Path | None = None) -> None:
    """Print the tables line by line, and write them between the markers of `page`."""
    text = page.read_text(encoding="utf-8") if page else BEGIN + END
    between(text, BEGIN, END, "")  # refused now, not at the end
    check_onnx_installed()
    measured = []
    for line in lines():
        print(line, flush=True)
        measured.append(line)
    if page:
        page.write_text(between(text, BEGIN, END, "\n" + "\n".join(measured) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
