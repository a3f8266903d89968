"""Paths of the repository and of real data beside it, without which some tests are skipped."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
