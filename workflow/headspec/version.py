"""The version of headspec, from the text file that package metadata also reads."""

from pathlib import Path

#: a text file, so that a new version changes the code of no stage
VERSION = (Path(__file__).parent / "VERSION").read_text(encoding="utf-8").strip()
