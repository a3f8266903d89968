"""Versions of pretrained models: what changes them, and what is hashed again."""

from __future__ import annotations

import hashlib
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from headspec import versions
from headspec.errors import EncoderError
from headspec.sections import Model
from studies import local_model
from test_hub import REVISION, lay_out


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own() -> Path:
    return local_model(Path("own"))


def both(source: object) -> tuple[str, str]:
    model = Model(source=str(source))
    return versions.weights(model, "models.m"), versions.tokenizer(model, "models.m")


def edit(path: Path) -> None:
    """Another content of the same size, a moment later."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


@pytest.mark.parametrize(
    ("name", "changes"),
    [("model.safetensors", (True, False)), ("config.json", (True, True)), ("tokenizer.json", (False, True)),
     ("tokenizer_config.json", (False, True)), ("README.md", (False, False))],
)  # fmt: skip
def test_weights_and_tokenizer_have_versions_of_their_own(own, name, changes):
    (own / "README.md").write_text("# A model\n")
    before = both(own)
    edit(own / name)
    after = both(own)
    assert tuple(a != b for a, b in zip(after, before, strict=True)) == changes


def test_a_file_more_is_another_version(own):
    weights, tokenizer = both(own)
    (own / "added_tokens.json").write_text(json.dumps({"new": 30}))
    assert both(own) == (weights, both(own)[1]) and both(own)[1] != tokenizer


def test_weights_in_several_files_all_count(own):
    for number in (1, 2):
        (own / f"model-0000{number}-of-00002.safetensors").write_bytes(bytes([number]))
    weights, tokenizer = both(own)
    edit(own / "model-00002-of-00002.safetensors")
    assert both(own)[0] != weights and both(own)[1] == tokenizer


def test_the_same_files_elsewhere_are_the_same_version(own):
    before = both(own)
    own.rename("moved")
    for path in Path("moved").iterdir():
        path.touch()
    assert both("moved") == before


def test_a_gguf_file_is_all_of_a_model():
    Path("m.gguf").write_bytes(b"GGUF 1")
    before = both("m.gguf")
    assert before[0] == before[1]
    edit(Path("m.gguf"))
    assert both("m.gguf")[0] == both("m.gguf")[1] != before[0]


def test_a_file_is_hashed_once(own, monkeypatch):
    """In this process or a later one, until its size or its time changes."""
    path = own / "model.safetensors"
    first = versions.content(path)
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()
    versions._content.cache_clear()  # as in another process
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)
        assert versions.content(path) == first
    edit(path)
    assert versions.content(path) == hashlib.sha256(path.read_bytes()).hexdigest() != first


@pytest.mark.parametrize("revision", ["", "@main", f"@{REVISION}"])
def test_a_hub_model_s_version_is_its_commit_fetched_or_not(folder, monkeypatch, revision):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    source = f"hub:someone/tiny-bert{revision}"
    versions.commit.cache_clear()
    if REVISION in revision:  # a named commit needs neither cache nor network
        assert both(source) == (REVISION, REVISION)
    lay_out(folder)
    versions.commit.cache_clear()
    assert both(source) == (REVISION, REVISION)


class Hub(BaseHTTPRequestHandler):
    """A hub that knows the commit of one branch of one model."""

    def do_GET(self) -> None:
        there = self.path == "/api/models/someone/tiny-bert/revision/main"
        self.send_response(200 if there else 404)
        self.end_headers()
        if there:
            self.wfile.write(json.dumps({"id": "someone/tiny-bert", "sha": REVISION}).encode())

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_branch_that_is_not_in_the_cache_is_asked_for(folder, monkeypatch):
    """So that fetching it, between two plans, does not change its version."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
    with HTTPServer(("127.0.0.1", 0), Hub) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        versions.commit.cache_clear()
        assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
        assert both("hub:someone/tiny-bert@gone") == ("", "")  # no job could read it
        hub.shutdown()
    versions.commit.cache_clear()  # without the hub: what is known from before
    assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
    (folder / "made.parquet").touch()
    with pytest.raises(EncoderError, match="^models.m.source: which commit 'hub:someone/tiny-bert@gone' is"):
        versions.weights(Model(source="hub:someone/tiny-bert@gone"), "models.m", made=folder)
    versions.commit.cache_clear()
    lay_out(folder)
    assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
    versions.commit.cache_clear()
