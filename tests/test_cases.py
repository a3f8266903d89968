"""Tests that find their cases by searching folders find them: these many, or more."""

from support.paths import ROOT
from support.schemas import SCHEMAS


def found(folder: str, pattern: str) -> int:
    return len(list((ROOT / folder).rglob(pattern)))


def test_cases():
    assert len(SCHEMAS) >= 47
    assert found("workflow/scripts", "*.py") >= 56
    assert found("workflow/rules", "*.smk") >= 11
    assert found("workflow/report", "*.rst") >= 23
    assert found("workflow/studies", "*.yaml") >= 7
    assert found("envs", "*.yaml") >= 3
