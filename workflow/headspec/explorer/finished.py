"""The explorer of finished results, and its glossary.

The stage does not import it: its rule passes the glossary, so that no other text about tables reruns it.
"""

from pathlib import Path

from headspec.errors import MissingError, UnfinishedError
from headspec.explorer.page import build_page
from headspec.explorer.sources import find_tables
from headspec.pipeline import state
from headspec.pipeline.outputs import COLUMNS
from headspec.provenance.files import atomic

#: columns whose meaning the glossary has
TERMS = (
    "dissociation", "at_chance", "unpruned_at_chance", "case", "distinct", "ci_low", "ci_high", "ci_over",
    "fraction", "importance", "mixture", "method", "n_seeds", "base", "ranking", "way",
    "similarity", "difference", "value",
)  # fmt: skip


#: columns that only the page has
OWN = {
    "p": "corrected p that decides: in tables `p_seeds_holm` from three seeds on, else `p_holm`",
    "p_of": "what p is about: other seeds and examples, or with one or two seeds these runs alone",
}


def glossary() -> dict[str, str]:
    """Return the meaning of columns, in the words of the reference of tables."""
    return {term: COLUMNS[term] for term in TERMS} | OWN


def write_explorer(results: Path, output: Path | None = None, trust: bool = False) -> Path:
    """Write the page of the results of a study, by default beside them, and return its path.

    Results that are outdated or of another config are left out. MissingError if there are none;
    UnfinishedError if the study is not finished, which the page says too. With `trust`, results that were
    begun elsewhere are compared with their study, too, which runs its code.
    """
    config, output = results / "config.yaml", output or results / "explorer.html"
    text = config.read_text("utf-8", errors="replace") if config.exists() else ""
    own = state.select(results, find_tables(results), trust)
    said = "\n".join(filter(None, own[1:]))
    if not own.finished:
        raise MissingError(f"{results}: no table is finished\n{said}")
    html = build_page(own.finished, glossary(), text, said)
    with atomic(output) as temporary:
        temporary.write_text(html, encoding="utf-8")
    if own.unfinished:
        raise UnfinishedError(f"{output} is made of the results that are there\n{said}")
    return output
