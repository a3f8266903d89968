"""Passwords and tokens stay out of messages, logs and results."""

import json
import logging
import re
import sys
from html import escape
from types import SimpleNamespace

import pytest

from headspec import cli
from headspec.config.loading import load, strict_yaml
from headspec.errors import ConfigError, DataError, HeadspecError
from headspec.explorer.page import page
from headspec.progress import log, stage
from headspec.redaction import redacted
from support.paths import ROOT
from support.running.studies import CONFIG, changed

SECRETS = {
    "user and password": ("https://me:pa55word@host/x.csv", "https://***@host/x.csv"),
    "user": ("https://s3cr3t@host/x.csv", "https://***@host/x.csv"),
    "password with marks": ("postgres://me:p@ss:w0rd@host/x.csv", "postgres://***@host/x.csv"),
    "variable": ("x/by-the-environment/y", "x/***/y"),
    "password in a variable": ("x by@the:address y", "x *** y"),
}
CLEAN = [
    "hub:a/b@0123abc",
    "tasks.t.label: row 3 (label is 'a@b')",
    "s@x.org https://h/a@b",
    "pad_token: <pad>",
]
#: variable: whether it holds a secret
VARIABLES = {
    "HF_TOKEN": True, "PGPASSWORD": True, "DB_PASS": True, "GITHUB_PAT": True, "REDISCLI_AUTH": True,
    "api_key": True, "MYSQL_PWD": True, "AWS_SECRET_ACCESS_KEY": True, "REDISPASSWD": True,
    "OPENAI_API_KEY": True, "npm_config__auth": True, "AZURE_CLIENT_SECRET": True,
    "SLURM_JWT": True, "SSHPASS": True, "SECRET_KEY_BASE": True,
    "PWD": False, "OLDPWD": False, "PATH": False, "SSH_AUTH_SOCK": False, "GIT_ASKPASS": False,
    "XDG_SESSION_PATH": False, "MONKEY": False, "HF_TOKEN_PATH": False, "COMPASS": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "by-the-environment")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:by@the:address@host/db")


@pytest.mark.parametrize("case", SECRETS)
def test_secrets_are_hidden_wherever_a_message_is_made(tmp_path, case):
    secret, shown = SECRETS[case]
    assert redacted(secret) == shown == str(DataError(secret))
    assert str(HeadspecError.combined([DataError(secret)] * 2)) == f"{shown}\n{shown}"
    file = tmp_path / "log"
    job = SimpleNamespace(
        rule="r", wildcards={}, threads=1, resources={}, log=[str(file)], input=[], params={}
    )
    with pytest.raises(SystemExit), stage(job, "x"):
        log.info("read %s", secret)
        raise ValueError(secret)
    logging.getLogger().handlers.clear()
    text = file.read_text()
    assert text.count(shown) == 2 and secret not in text  # the line, and the error after its traceback
    html = page({"study": secret, "provenance": {"config": [f"# {secret}\nstudy: x", 1, None]}})
    found = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert found == {"study": shown, "provenance": {"config": [f"# {shown}\nstudy: x", 1, None]}}
    assert secret not in html and escape(secret) not in html


@pytest.mark.parametrize("text", CLEAN)
def test_other_text_is_left_alone(text):
    assert redacted(text) == text


def test_configs_and_pages_of_headspec_are_left_alone():
    paths = [path for folder in ("workflow/studies", "docs") for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text() for path in paths if path.suffix in (".yaml", ".md")]
    assert len(texts) > 40 and [text for text in texts if redacted(text) != text] == []


@pytest.mark.parametrize(("name", "secret"), VARIABLES.items())
def test_values_of_variables_that_hold_secrets_are_hidden(monkeypatch, name, secret):
    monkeypatch.setenv(name, "/correct/horse")
    assert (redacted("x /correct/horse y") == "x *** y") == secret


KEYS = ["study", "data_seed", "nonsense", "tasks.tone.source", "tasks.tone.filter", "models.bert.source"]


@pytest.mark.parametrize("key", KEYS)
def test_a_config_with_a_secret_is_refused_without_showing_it(key):
    secret, _ = SECRETS["variable"]
    value = {"x": secret} if key.endswith("filter") else secret
    with pytest.raises(ConfigError, match=f"^{key}.*holds a password or token") as caught:
        load(changed(CONFIG, {key: value}))
    assert secret not in str(caught.value)


@pytest.mark.parametrize("case", SECRETS)
def test_a_file_with_a_secret_is_refused_without_showing_it(tmp_path, case):
    """In a comment, as the report has the whole file, and in YAML that is malformed."""
    path, secret = tmp_path / "study.yaml", SECRETS[case][0]
    path.write_text(f"study: x\n# {secret}")
    with pytest.raises(ConfigError, match=r"study.yaml, line 2: holds a password or token") as comment:
        strict_yaml(path)
    path.write_text(f"source: [{secret}\nb: }}")
    with pytest.raises(ConfigError) as malformed:
        strict_yaml(path)
    said = f"{comment.value} {malformed.value}"
    assert secret not in said


def test_a_command_prints_no_secret(tmp_path, monkeypatch, capsys):
    token = "by-the-environment"
    (tmp_path / token).mkdir()
    for study, problem in {ROOT / "docs/studies/ag-pair": None, tmp_path / token: "no tables"}.items():
        monkeypatch.setattr(
            sys, "argv", ["headspec", "explorer", str(study), "--output", f"{tmp_path}/{token}/x"]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr().out + str(ended.value)
        assert token not in said and "/***" in said and (problem is None or problem in said)
