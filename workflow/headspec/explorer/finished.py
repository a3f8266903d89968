"""The explorer for finished results."""

from pathlib import Path

from headspec.errors import MissingError, UnfinishedError
from headspec.explorer.page import build_page
from headspec.explorer.views import find_tables
from headspec.pipeline import state
from headspec.provenance.files import atomic


def write_explorer(results: Path, output: Path | None = None, trust: bool = False) -> Path:
    """Write the explorer of a study's results, by default into their folder, and return its path.

    Results that are outdated or of another config are left out. Raises MissingError if there are none;
    UnfinishedError, after writing a page that says so, if the study is not finished. With `trust`, results
    that were made elsewhere are also compared with their study, which runs its code.
    """
    config, output = results / "config.yaml", output or results / "explorer.html"
    text = config.read_text("utf-8", errors="replace") if config.exists() else ""
    own = state.select(results, find_tables(results), trust)
    said = "\n".join(filter(None, own[1:]))
    if not own.finished:
        raise MissingError(f"{results}: no table is finished\n{said}")
    html = build_page(own.finished, text, said)
    with atomic(output) as temporary:
        temporary.write_text(html, encoding="utf-8")
    if own.unfinished:
        raise UnfinishedError(f"{output} covers only the results available so far\n{said}")
    return output
