"""Versions of pretrained models: what changes them, and what is hashed again."""

import hashlib
import json
import os
import sys
from contextlib import nullcontext
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from headspec.config.sections.model import Model
from headspec.errors import ChangedError, EncoderError
from headspec.models import encoders
from headspec.models.architectures import types
from headspec.models.pretrained import versions
from headspec.models.pretrained.listed import TOKENIZERS
from headspec.models.tokens import tokenization
from headspec.provenance import hashes
from support.data.hub import REVISION, lay_out


def both(source: object) -> tuple[str, str]:
    model = Model(source=str(source))
    return versions.version(model, "models.m", "weights"), versions.version(model, "models.m", "tokenizer")


def edit(path: Path) -> None:
    """Change the content, not the size, and the time."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


WEIGHTS, TOKENS, BOTH, NONE = (True, False), (False, True), (True, True), (False, False)
#: the files of a model as people have it, and the versions that an edit changes
FILES = {
    "config.json": BOTH, "generation_config.json": BOTH, "modules.json": BOTH, "1_Pooling/config.json": BOTH,
    "model.safetensors.index.json": BOTH, "first.safetensors": WEIGHTS, "parts/second.safetensors": WEIGHTS,
    "tokenizer.json": TOKENS, "tokenizer_config.json": TOKENS, "special_tokens_map.json": TOKENS,
    "vocab.txt": TOKENS, "vocab.json": TOKENS, "added_tokens.json": TOKENS, "merges.txt": TOKENS,
    "source.spm": TOKENS,
    "spiece.model": TOKENS, "chat_template.jinja": TOKENS, "chat_template.json": TOKENS,
    "additional_chat_templates/tools.jinja": TOKENS,
    "README.md": NONE, "pytorch_model.bin": NONE, "onnx/model.onnx": NONE, "stale.safetensors": NONE,
}  # fmt: skip
#: without these, there are no weights
INCOMPLETE = ("model.safetensors.index.json", "first.safetensors", "parts/second.safetensors")
MODULES = '[{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]'


@pytest.fixture
def everything(model) -> Path:
    """A model with all `FILES`, its weights in two files that an index names."""
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    names, shards = sorted(weights), INCOMPLETE[1:]
    where = {name: shards[i % 2] for i, name in enumerate(names)}
    index = json.dumps({"metadata": {}, "weight_map": where})
    (model / "model.safetensors.index.json").write_text(index)
    for name in FILES:
        path = model / name
        path.parent.mkdir(exist_ok=True)
        if name in shards:
            save_file({each: weights[each] for each in names if where[each] == name}, path)
        elif not path.exists():
            path.write_text(MODULES if name == "modules.json" else "{}")
    return model


@pytest.mark.parametrize(("name", "changes"), FILES.items())
def test_weights_and_tokenizer_have_separate_versions(everything, name, changes):
    before = both(everything)
    (everything / name).touch()
    assert both(everything) == before
    edit(everything / name)
    edited = both(everything)
    assert tuple(a != b for a, b in zip(edited, before, strict=True)) == changes
    (everything / name).rename("elsewhere")
    without = both(everything)
    if name not in INCOMPLETE:
        assert tuple(a != b for a, b in zip(without, edited, strict=True)) == changes
    Path("elsewhere").rename(everything / name)
    assert both(everything) == edited


def test_all_that_is_opened_has_a_version(everything):
    """What Python opens, that is; the names of tokenizers' files have the next test."""
    opened: list[str] = []
    audited = [True]  # a hook cannot be taken off again

    def note(event: str, given: tuple) -> None:
        if audited and event == "open":
            opened.append(str(given[0]))

    sys.addaudithook(note)
    encoders.load(Model(source=str(everything)), "models.m")
    tokenization.tokenizer(Model(source=str(everything)), "models.m")
    audited.clear()
    inside = {os.path.relpath(path, everything) for path in opened if str(everything) in path}
    read = {"config.json", "chat_template.jinja", "model.safetensors.index.json", "1_Pooling/config.json"}
    assert read <= inside
    assert inside <= {name for name, changes in FILES.items() if changes != NONE}


def test_tokenizers_of_all_types_of_models_read_files_that_have_versions():
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name

    classes = {tokenizer_class_from_name(TOKENIZER_MAPPING_NAMES.get(kind) or "") for kind in types()}
    names = {name for each in classes - {None} for name in each.vocab_files_names.values()}
    assert {"tokenizer.json", "vocab.txt", "source.spm"} <= names
    assert {name for name in names if not any(fnmatch(name, kind) for kind in TOKENIZERS)} == set()


def test_the_same_files_elsewhere_are_the_same_version(model):
    before = both(model)
    model.rename("moved")
    for path in Path("moved").iterdir():
        path.touch()
    assert both("moved") == before


def test_a_gguf_file_is_a_whole_model_with_the_texts_beside_it(tmp_path, monkeypatch):
    """Transformers prefers a tokenizer beside it to the file's own."""
    monkeypatch.chdir(tmp_path)
    Path("m.gguf").write_bytes(b"GGUF 1")
    before = both("m.gguf")
    edit(Path("m.gguf"))
    after = both("m.gguf")
    assert before[0] == before[1] != after[0] == after[1]
    Path("other.gguf").write_bytes(b"GGUF 2")
    assert both("m.gguf") == after
    Path("tokenizer.json").write_text("{}")
    assert both("m.gguf")[0] == after[0] and both("m.gguf")[1] != after[1]


@pytest.mark.parametrize(
    ("source", "file", "content", "problem"),
    [
        ("m", "adapter_config.json", {}, "has an adapter beside it .*merge_and_unload"),
        # with a GGUF file, transformers would load what it is an adapter of
        ("m/m.gguf", "adapter_config.json", {}, "has an adapter beside it .*merge_and_unload"),
        ("m", "config.json", {"model_type": "bert", "transformers_weights": "b.safetensors"},
         "transformers_weights 'b.safetensors'; expe"),
    ],
)  # fmt: skip
def test_what_transformers_would_load_beside_the_weights_is_refused(model, source, file, content, problem):
    (model / "m.gguf").write_bytes(b"GGUF 1")
    (model / file).write_text(json.dumps(content))
    with pytest.raises(EncoderError, match=rf"^models\.m\.source: .*{problem}"):
        encoders.load(Model(source=source), "models.m")


def test_a_file_is_hashed_once(model, monkeypatch):
    """By this process or an earlier one, until it changes, even to a file of the same size and date."""
    monkeypatch.setattr(hashes, "RECENT", 0)
    path = model / "model.safetensors"
    first = hashes.sha256(path)
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()
    hashes.save()
    hashes.SHA256.clear()  # as in another process
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)
        assert hashes.sha256(path) == first
    before, times = both(model), path.stat()
    edit(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert hashes.sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest() != first
    assert both(model) != before


# --- the hub


HUB = "hub:someone/tiny-bert"


def asked(source: str) -> tuple[str, str]:
    """The versions, as in another process."""
    versions.commit.cache_clear()
    return both(source)


@pytest.mark.parametrize("revision", ["", "@main", f"@{REVISION}"])
def test_the_version_of_a_hub_model_is_its_commit_downloaded_or_not(empty_cache, revision):
    if REVISION in revision:  # a named commit needs neither cache nor network
        assert asked(HUB + revision) == (REVISION, REVISION)
    lay_out(empty_cache)
    assert asked(HUB + revision) == (REVISION, REVISION)


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


def test_the_hub_is_asked_for_a_branch_that_is_not_in_the_cache(empty_cache, monkeypatch):
    """So that downloading it, between two plans, does not change its version."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert asked(f"{HUB}@main") == (REVISION, REVISION)
        assert asked(f"{HUB}@gone") == ("", "")  # no job could read it
        server.shutdown()
    assert asked(f"{HUB}@main") == (REVISION, REVISION)  # without the hub, the stored commit holds
    (empty_cache / "made.parquet").touch()
    with pytest.raises(EncoderError, match=f"^models.m.source: the commit of '{HUB}@gone' is unknown"):
        versions.version(Model(source=f"{HUB}@gone"), "models.m", "weights", results=empty_cache)
    lay_out(empty_cache)
    assert asked(f"{HUB}@main") == (REVISION, REVISION)


# --- between planning and loading


def put_back(path: Path) -> None:
    """Replace a file by another and by itself."""
    edit(path)
    edit(path)


@pytest.mark.parametrize(
    ("before", "meanwhile", "refused"),
    [(None, None, False), (edit, None, True), (None, edit, True), (None, put_back, True)],
)
def test_a_model_that_is_replaced_after_planning_is_refused(model, before, meanwhile, refused):
    """Before its job, or while it is loaded."""
    weights, named = model / "model.safetensors", Model(source="m")
    planned = versions.version(named, "models.m", "weights")
    message = "^models.m.source: .* was replaced after this job was planned. Sta"
    if before:
        before(weights)
    outcome = pytest.raises(ChangedError, match=message) if refused else nullcontext()
    with outcome, versions.as_planned(planned, named, "models.m", "weights"):
        if meanwhile:
            meanwhile(weights)
