"""Code blocks of pages, and what a worked example changes in a copy of the workflow."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: the page and its heading, its language, the file that it is of, and its text."""

    page: str
    heading: str
    language: str
    title: str
    text: str

    def apply(self, folder: Path) -> None:
        """Make the file, add the rule to the end of its file, or the lines marked + where the others are."""
        path = folder / self.title
        if self.language == "diff":
            lines = self.text.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
            text = path.read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{self.title} has {text.count(old)} times {old!r}"
            path.write_text(text.replace(old, new), encoding="utf-8")
        else:
            assert path.exists() == (path.suffix == ".smk"), self.title
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(("\n\n" if path.suffix == ".smk" else "") + self.text)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found, heading = [], ""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and after:
            heading = after.content
        if token.type == "fence":
            language, _, rest = token.info.partition(" ")
            title = re.search(r'title="(.+?)"', rest)
            name = page.relative_to(ROOT).as_posix()
            found.append(Block(name, heading, language, title[1] if title else "", token.content))
    return found
