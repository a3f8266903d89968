"""Rules that the process of test studies translates beforehand."""

import io
import random
import sys
from types import SimpleNamespace

import pytest

from support.running.warm import SERVER


@pytest.mark.parametrize("edited", [False, True])
def test_rules_are_those_that_snakemake_translates(tmp_path, monkeypatch, edited):
    monkeypatch.syspath_prepend(SERVER)
    import beforehand

    monkeypatch.delitem(sys.modules, "beforehand")
    beforehand.workflow.parse = beforehand.translate  # here, Snakemake is left as it is
    text = random.Random(4).choice(beforehand.FILES[2:]).read_text()
    path = tmp_path / "it's.smk"
    path.write_text(
        text.replace("\nrule ", "\nrule another:\n    input: 'a'\n\n\nrule ", 1) if edited else text
    )
    file = SimpleNamespace(get_path_or_uri=lambda secret_free: str(path))
    study = SimpleNamespace(sourcecache=SimpleNamespace(open=lambda file: io.StringIO(path.read_text())))
    lines, expected = {}, {}
    code, rules = beforehand.parse(file, study, lines, rulecount=7)
    assert (code, rules) == beforehand.translate(file, study, expected, rulecount=7) and lines == expected
    assert rules > 7 and ("another" in code) == edited
