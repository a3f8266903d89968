"""Versions of pretrained models: what changes them, and what is hashed again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants

from headspec import digests
from headspec.config.sections.model import Model
from headspec.errors import ChangedError, EncoderError
from headspec.models import versions
from support.data.hub import REVISION, lay_out
from support.running.studies import local_model


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model_folder() -> Path:
    return local_model(Path("own"))


def both(source: object) -> tuple[str, str]:
    model = Model(source=str(source))
    return versions.weights(model, "models.m"), versions.tokenizer(model, "models.m")


def edit(path: Path) -> None:
    """Change the content, not the size, and the time."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


@pytest.mark.parametrize(
    ("name", "changes"),
    [("model.safetensors", (True, False)), ("config.json", (True, True)), ("tokenizer.json", (False, True)),
     ("tokenizer_config.json", (False, True)), ("README.md", (False, False))],
)  # fmt: skip
def test_weights_and_tokenizer_have_separate_versions(model_folder, name, changes):
    (model_folder / "README.md").write_text("# A model\n")
    before = both(model_folder)
    edit(model_folder / name)
    after = both(model_folder)
    assert tuple(a != b for a, b in zip(after, before, strict=True)) == changes


def test_another_file_makes_another_version(model_folder):
    weights, tokenizer = both(model_folder)
    (model_folder / "added_tokens.json").write_text(json.dumps({"new": 30}))
    assert both(model_folder) == (weights, both(model_folder)[1]) and both(model_folder)[1] != tokenizer


def test_all_weight_files_count(model_folder):
    for number in (1, 2):
        (model_folder / f"model-0000{number}-of-00002.safetensors").write_bytes(bytes([number]))
    weights, tokenizer = both(model_folder)
    edit(model_folder / "model-00002-of-00002.safetensors")
    assert both(model_folder)[0] != weights and both(model_folder)[1] == tokenizer


def test_the_same_files_elsewhere_are_the_same_version(model_folder):
    before = both(model_folder)
    model_folder.rename("moved")
    for path in Path("moved").iterdir():
        path.touch()
    assert both("moved") == before


def test_a_gguf_file_is_a_whole_model():
    Path("m.gguf").write_bytes(b"GGUF 1")
    before = both("m.gguf")
    assert before[0] == before[1]
    edit(Path("m.gguf"))
    assert both("m.gguf")[0] == both("m.gguf")[1] != before[0]


def test_a_file_is_hashed_once(model_folder, monkeypatch):
    """By this process or an earlier one, until it changes, even to a file of the same size and date."""
    monkeypatch.setattr(digests, "RECENT", 0)
    path = model_folder / "model.safetensors"
    first = digests.content(path)
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()
    digests.remember()
    digests.CONTENTS.forget()  # as in another process
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)
        assert digests.content(path) == first
    before, times = both(model_folder), path.stat()
    edit(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests.content(path) == hashlib.sha256(path.read_bytes()).hexdigest() != first
    assert both(model_folder) != before


@pytest.mark.parametrize("revision", ["", "@main", f"@{REVISION}"])
def test_the_version_of_a_hub_model_is_its_commit_downloaded_or_not(folder, monkeypatch, revision):
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


def test_the_hub_is_asked_for_a_branch_that_is_not_in_the_cache(folder, monkeypatch):
    """So that downloading it, between two plans, does not change its version."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
    with HTTPServer(("127.0.0.1", 0), Hub) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        versions.commit.cache_clear()
        assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
        assert both("hub:someone/tiny-bert@gone") == ("", "")  # no job could read it
        hub.shutdown()
    versions.commit.cache_clear()  # without the hub, the stored commit holds
    assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
    (folder / "made.parquet").touch()
    with pytest.raises(
        EncoderError, match="^models.m.source: the commit of 'hub:someone/tiny-bert@gone' is unknown"
    ):
        versions.weights(Model(source="hub:someone/tiny-bert@gone"), "models.m", results=folder)
    versions.commit.cache_clear()
    lay_out(folder)
    assert both("hub:someone/tiny-bert@main") == (REVISION, REVISION)
    versions.commit.cache_clear()


def load(model_folder: Path, change: Callable[[Path], None], planned: str | None = None) -> None:
    """Load a model, which changes meanwhile."""
    model = Model(source=str(model_folder))
    planned = planned or versions.weights(model, "models.m")
    with versions.held(versions.weights, planned, model, "models.m"):
        change(model_folder / "model.safetensors")


def put_back(path: Path) -> None:
    """Replace a file by another and by itself."""
    edit(path)
    edit(path)


@pytest.mark.parametrize("change", [edit, put_back])
def test_a_model_that_is_replaced_while_it_is_loaded_is_refused(model_folder, change):
    load(model_folder, Path.exists)
    with pytest.raises(
        ChangedError, match="^models.m.source: .* was replaced after this job was planned. Sta"
    ):
        load(model_folder, change)


def test_a_model_that_is_replaced_before_its_job_is_refused(model_folder):
    planned = both(model_folder)[0]
    edit(model_folder / "model.safetensors")
    with pytest.raises(ChangedError, match="was replaced after this job was planned"):
        load(model_folder, Path.exists, planned)
