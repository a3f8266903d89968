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
    "user of a database": ("postgres://me:pa55word@host/db", "postgres://***@host/db"),
    "password with marks": ("https://me:p@ss:w0rd@host/x.csv", "https://***@host/x.csv"),
    "parameter": ("https://host/x.csv?a=1&access_token=s3cr3t", "https://host/x.csv?a=1&access_token=***"),
    "parameter auth": ("https://host/x?auth=s3cr3t&a=1", "https://host/x?auth=***&a=1"),
    "parameter pwd": ("https://host/x?pwd=s3cr3t", "https://host/x?pwd=***"),
    "parameter of Amazon": ("https://host/x?X-Amz-Signature=0a1b", "https://host/x?X-Amz-Signature=***"),
    "parameter in camel case": ("https://host/x?apiKey=0a1b", "https://host/x?apiKey=***"),
    "fragment": ("https://host/x#access_token=s3cr3t", "https://host/x#access_token=***"),
    "password": ("x, password: hunter2", "x, password: ***"),
    "key": ("api_key = 's3cr3t'", "api_key = '***'"),
    "key in JSON": ('{"api-key": "s3cr3t"}', '{"api-key": "***"}'),
    "shell": ("export PGPASSWORD=hunter2", "export PGPASSWORD=***"),
    "shell, in part": ("DB_PASS=hunter2 GITHUB_PAT=s3cr3t x", "DB_PASS=*** GITHUB_PAT=*** x"),
    "shell, authentication": ("REDISCLI_AUTH=hunter2", "REDISCLI_AUTH=***"),
    "header": ("Authorization: Bearer 0a1b2c3d4e5f6a7b8c", "Authorization: Bearer ***"),
    "header of another scheme": ("-H 'Authorization: token 0a1b2c3d4e5f'", "-H 'Authorization: token ***'"),
    "header without a scheme": ("authorization: 0a1b2c3d4e5f", "authorization: ***"),
    "option": ("db --password hunter2 x", "db --password *** x"),
    "option of curl": ("curl -u me:hunter2 https://host", "curl -u *** https://host"),
    "long option of curl": ("curl --user 'me:hunter2' x", "curl --user '***' x"),
    "signature alone": ("sig=0a%2B1b", "sig=***"),
    "web token of SLURM": ("export SLURM_JWT=s3cr3t", "export SLURM_JWT=***"),
    "shell, ssh": ("SSHPASS=hunter2 sshpass -e", "SSHPASS=*** sshpass -e"),
    "shell, key of Rails": ("SECRET_KEY_BASE=s3cr3t", "SECRET_KEY_BASE=***"),
    "hook of Slack": ("https://hooks.slack.com/services/T0/B0/x1", "https://hooks.slack.com/services/***"),
    "token of Groq": (f"gsk_{'aB3' * 17}x", "***"),
    "token of Nvidia": (f"nvapi-{'aB3' * 21}x", "***"),
    "token of DigitalOcean": (f"dop_v1_{'a3' * 32}", "***"),
    "token of Google": (f"ya29.{'aB3' * 20}", "***"),
    "token of an organization": (f"api_org_{'aBc' * 11}x", "***"),
    "token of a service that is not known": (f"x newco_live-{'aB3' * 9}, y", "x ***, y"),
    "token of the hub": ("x hf_aBcDeFgHiJkLmNoPqRsT.", "x ***."),
    "token of GitHub": (f"x ghp_{'aB3' * 12}, y", "x ***, y"),
    "fine token of GitHub": (f"github_pat_{'aB3' * 7}_{'x1' * 20}", "***"),
    "token of GitLab": (f"glpat-{'aB3' * 7}", "***"),
    "key of OpenAI": (f"sk-{'aB3' * 16}", "***"),
    "key of a project": (f"sk-proj-{'aB3' * 8}", "***"),
    "key of a model service, in parts": (f"sk-ant-api03-{'aB3' * 8}-x", "***"),
    "key of Amazon": ("AKIA0123456789ABCDEF", "***"),
    "token of Slack": ("xoxb-123456789012-abcdef", "***"),
    "web token": ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJ", "***"),
    "private key": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIs3cr3t\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
    ),
    "variable": ("x/by-the-environment/y", "x/***/y"),
    "password in a variable": ("x by@the:address y", "x *** y"),
}
CLEAN = [
    "hub:a/b@0123abc", "monkey=1", "tasks.t.label: row 3 (label is 'a@b')", "s@x.org https://h/a@b",
    "tasks.pass.label: no column 'pass'", "tasks.password: 30 of 100 training examples", "secret: public",
    "  password: {source: data/p.csv}", "  secret:", "labels: [pass, token, key, secret, password, auth]",
    "prompt: 'Password: {text_a}'", "password: ${DB_PASS}", "token: 14 per example", "pad_token: <pad>",
    "unk_token=[UNK] sep_token='</s>'", "forward_pass: 0.5", "https://h/x?monkey=1&page=2#key",
    "86b5e0934494bd15c9632b12f734a8a67f723594", "a3f3ab759b9d7018046ce361f115ef38276d2e1e", "1e-05", "3.14",
    "hub:me/sk-internationalization",
    "sk-learn-is-a-task-with-a-long-name", "basic internationalization", "task-hf_short", "risk-averse",
    "facebook_Wav2Vec2ForSequenceClassification", "a-bert-base-uncased_XLMRobertaForSequenceClassification",
    "--token-type ids", "--tokens 5 --user me", "a bypass=road", "Authorization: required",
    "results/demo/runs/minilm/sentiment+topic/tuned/seed0", "by basic authorization of readers",
]  # fmt: skip
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


@pytest.mark.parametrize(
    "part", ["sk-a-", "?a_", "token", "a-", "eyJaaaaaaaa.", ":/", "SG.", "-----BEGIN PRIVATE KEY-----"]
)
def test_long_texts_are_gone_through_once(part):
    """Patterns that looked for their end from everywhere would need hours."""
    text = part * 100_000
    assert len(redacted(text)) <= len(text)


@pytest.mark.parametrize(("name", "secret"), VARIABLES.items())
def test_values_of_variables_that_hold_secrets_are_hidden(monkeypatch, name, secret):
    monkeypatch.setenv(name, "/correct/horse")
    assert (redacted("x /correct/horse y") == "x *** y") == secret


KEYS = ["study", "data_seed", "nonsense", "tasks.tone.source", "tasks.tone.filter", "models.bert.source"]


@pytest.mark.parametrize("key", KEYS)
def test_a_config_with_a_secret_is_refused_without_showing_it(key):
    secret, _ = SECRETS["password"]
    value = {"x": secret} if key.endswith("filter") else secret
    with pytest.raises(ConfigError, match=f"^{key}.*holds a password or token") as caught:
        load(changed(CONFIG, {key: value}))
    assert secret not in str(caught.value)


@pytest.mark.parametrize("case", ["password", "user and password", "private key", "token of the hub"])
def test_a_file_with_a_secret_is_refused_without_showing_it(tmp_path, case):
    """In a comment, as the report has the whole file, and in YAML that is malformed."""
    path, secret = tmp_path / "study.yaml", SECRETS[case][0]
    path.write_text("study: x\n# " + secret.replace("\n", "\n# "))
    with pytest.raises(ConfigError, match=r"study.yaml, line [23]: holds a password or token") as comment:
        strict_yaml(path)
    path.write_text(f"source: [{secret}\nb: }}")
    with pytest.raises(ConfigError) as malformed:
        strict_yaml(path)
    said = f"{comment.value} {malformed.value}"
    assert not [word for word in ("hunter2", "pa55word", "MIIs3cr3t", "hf_aBc") if word in said]


def test_a_command_prints_no_secret(tmp_path, monkeypatch, capsys):
    token = f"ghp_{'aB3' * 12}"
    (tmp_path / token).mkdir()
    for study, problem in {ROOT / "docs/studies/ag-pair": None, tmp_path / token: "no tables"}.items():
        monkeypatch.setattr(
            sys, "argv", ["headspec", "explorer", str(study), "--output", f"{tmp_path}/{token}/x"]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr().out + str(ended.value)
        assert token not in said and "/***" in said and (problem is None or problem in said)
