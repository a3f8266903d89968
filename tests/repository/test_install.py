"""Set-up by uv, which is told what pip is told."""

from hypothesis import given
from hypothesis import strategies as st

from envs import install
from envs.install import SETTINGS, settings, variables

WORDS = st.text(min_size=1)


@given(st.dictionaries(st.sampled_from([*SETTINGS]), st.tuples(WORDS, WORDS), min_size=1), st.randoms())
def test_settings_are_those_that_pip_lists_and_variables_win(given, random):
    lines = [f":env:.{name}={own!r}" for name, (own, _) in given.items() if random.random() < 0.5]
    own = {line.partition("=")[0].rpartition(".")[2] for line in lines}
    lines += [f"global.{name}={other!r}" for name, (_, other) in given.items()]
    random.shuffle(lines)
    found = settings("\n".join(lines))
    assert found.keys() == given.keys()
    assert all(found[name] == pair[name not in own] for name, pair in given.items())


def test_uv_looks_where_pip_does():
    listed = "global.extra-index-url='https://a.example/simple\\nfile:///b'\nglobal.find-links='/c /d'\n"
    found = variables(settings(listed))
    assert found["UV_INDEX"] == "https://a.example/simple file:///b" and found["UV_FIND_LINKS"] == "/c,/d"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_a_uv_that_fails_has_not_installed(tmp_path, monkeypatch):
    (tmp_path / "uv").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setattr(install.shutil, "which", lambda name: str(tmp_path / "uv"))
    assert not install.by_uv(["pip"])
