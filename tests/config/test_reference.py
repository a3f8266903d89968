"""The config reference, generated from the classes of sections."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headspec.config import reference
from headspec.config.loading import load
from headspec.config.study import Study
from headspec.errors import HeadspecError
from headspec.provenance import code_hash
from support.configs import VALID


def test_every_key_of_every_section_is_in_the_reference() -> None:
    sections = dict(reference.sections(reference.schema()))
    assert set(sections[""]["properties"]) == set(Study.model_fields)
    assert {"models.<name>", "tasks.<name>", "training.frozen"} <= set(sections)
    rows = [line for line in reference.markdown().splitlines() if line.startswith("- ")]
    assert len(rows) == sum(len(section["properties"]) for section in sections.values())
    titles = {f"#{re.sub('[.<>]', '', name)}" for name in sections}
    for row in rows:
        link = re.fullmatch(r"- \[`\w+`\]\((#\w+)\)", row)
        assert link[1] in titles if link else re.fullmatch(r"- `\w+` \(.+?\): .+", row), row


def test_the_documented_defaults_are_the_defaults() -> None:
    assert "- `learning_rate` (number > 0; `2e-05`): peak learning rate" in reference.markdown()
    study = load(VALID)
    for name, section in reference.sections(reference.schema()):
        if name and "<name>" not in name and name not in ("mixtures", "brain", "atlas.treebank"):
            part = study
            for key in name.split("."):
                part = getattr(part, key)
            documented = {key: node["default"] for key, node in section["properties"].items()}
            assert documented == part.model_dump(), name


def test_the_reference_in_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{reference.BEGIN}\nold\n{reference.END}\nafter\n")
    library = str(code_hash.LIBRARY.parent)
    command = [sys.executable, "-m", "headspec", "reference", str(path)]
    subprocess.run(command, check=True, env={"PYTHONPATH": library})
    text = path.read_text()
    assert text == f"before\n{reference.BEGIN}\n{reference.markdown()}{reference.END}\nafter\n"
    assert reference.updated(text.replace("`2e-05`", "`3e-05`")) == text


def test_a_file_without_the_markers_is_refused() -> None:
    with pytest.raises(HeadspecError, match="config reference: begin"):
        reference.updated(f"{reference.END}\n{reference.BEGIN}\n")
