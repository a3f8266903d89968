"""Passwords and tokens stay out of messages, logs and results."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from headspec.config.loading import load, strict_yaml
from headspec.errors import ConfigError, DataError, HeadspecError
from headspec.progress import log, stage
from headspec.redaction import redacted
from support.running.studies import CONFIG

SECRETS = {
    "user and password": ("https://me:pa55word@host/x.csv", "https://***@host/x.csv"),
    "user": ("https://s3cr3t@host/x.csv", "https://***@host/x.csv"),
    "parameter": ("https://host/x.csv?a=1&access_token=s3cr3t", "https://host/x.csv?a=1&access_token=***"),
    "token of the hub": ("x hf_aBcDeFgHiJkLmNoPqRsT.", "x ***."),
    "variable": ("x/by-the-environment/y", "x/***/y"),
}
CLEAN = ["hub:a/b@0123abc", "monkey=1", "tasks.t.label: row 3 (label is 'a@b')", "s@x.org https://h/a@b"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "by-the-environment")


@pytest.mark.parametrize("case", SECRETS)
def test_secrets_are_hidden_wherever_a_message_is_made(tmp_path, case):
    secret, shown = SECRETS[case]
    assert redacted(secret) == shown
    assert (
        str(DataError(secret)) == shown
        and str(HeadspecError.of([DataError(secret)] * 2)) == f"{shown}\n{shown}"
    )
    file = tmp_path / "log"
    job = SimpleNamespace(
        rule="r", wildcards={}, threads=1, resources={}, log=[str(file)], input=[], params={}
    )
    with pytest.raises(SystemExit), stage(job, "x"):
        log.info("read %s", secret)
        raise ValueError(secret)
    text = file.read_text()
    assert text.count(shown) == 2 and secret not in text  # the line, and the error after its traceback
    logging.getLogger().handlers.clear()


@pytest.mark.parametrize("text", CLEAN)
def test_other_text_is_left_alone(text):
    assert redacted(text) == text


KEYS = ["study", "data_seed", "nonsense", "tasks.tone.source", "tasks.tone.filter", "models.bert.source"]


@pytest.mark.parametrize("case", SECRETS)
@pytest.mark.parametrize("key", KEYS)
def test_a_config_with_a_secret_is_refused_without_showing_it(key, case):
    section, _, last = key.rpartition(".")
    config = dict(CONFIG)
    node = config
    for part in filter(None, section.split(".")):
        node[part] = dict(node[part])
        node = node[part]
    node[last] = {"x": SECRETS[case][0]} if last == "filter" else SECRETS[case][0]
    with pytest.raises(ConfigError) as caught:
        load(config)
    assert str(caught.value).startswith(f"{key}") and "holds a password or token" in str(caught.value)
    assert SECRETS[case][0] not in str(caught.value)


def test_malformed_yaml_is_quoted_without_its_secrets(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("source: [https://me:pa55word@host/x?token=s3cr3t\nb: }")
    with pytest.raises(ConfigError) as caught:
        strict_yaml(path)
    assert "pa55word" not in str(caught.value) and "s3cr3t" not in str(caught.value)
