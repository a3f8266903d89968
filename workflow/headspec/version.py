"""The version of headspec, from the text file that the package metadata is made of."""

from __future__ import annotations

from pathlib import Path

#: a text file, so that a new version is no new code to any stage
VERSION = (Path(__file__).parent / "VERSION").read_text(encoding="utf-8").strip()
