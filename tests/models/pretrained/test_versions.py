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
from typing import Any

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerFast
from transformers.models.auto import tokenization_auto

from headspec import plugins
from headspec.config.sections.model import Model
from headspec.errors import ChangedError, ModelError
from headspec.models import encoders, tokenization
from headspec.models.architectures import types
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import folders, study_checks
from headspec.models.pretrained.folders import folder
from headspec.models.pretrained.model_files import VOCABULARIES
from headspec.provenance import hashes
from support.data.hub import REVISION, lay_out
from support.data.model_files import configure
from support.running.studies import study


def both(source: object) -> tuple[str, str]:
    model = Model(source=str(source))
    return folders.version(model, "models.m", "weights"), folders.version(model, "models.m", "tokenizer")


def edit(path: Path) -> None:
    """Change the content, not the size, and the time."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


WEIGHTS, TOKENS, BOTH, NONE = (True, False), (False, True), (True, True), (False, False)
#: the files of a model as people have it, and the versions that an edit changes
FILES = {
    "config.json": BOTH, "generation_config.json": WEIGHTS, "modules.json": WEIGHTS,
    "sentence/1_Pooling/config.json": WEIGHTS, "model.safetensors.index.json": WEIGHTS,
    "first.safetensors": WEIGHTS, "parts/second.safetensors": WEIGHTS,
    "tokenizer.json": TOKENS, "tokenizer_config.json": TOKENS, "special_tokens_map.json": TOKENS,
    "vocab.txt": TOKENS, "vocab.json": TOKENS, "added_tokens.json": TOKENS, "merges.txt": TOKENS,
    "source.spm": TOKENS, "spiece.model": TOKENS, "chat_template.jinja": TOKENS,
    "additional_chat_templates/tools.jinja": TOKENS,
    "README.md": NONE, "README.txt": NONE, "requirements.txt": NONE, "pytorch_model.bin": NONE,
    "stale.safetensors": NONE, "onnx/model.onnx": NONE, "onnx/config.json": NONE, "trainer_state.json": NONE,
    "eval/results.json": NONE, "1_Pooling/config.json": NONE, "2_Normalize/config.json": NONE,
    "chat_template.json": NONE, "preprocessor_config.json": NONE, "onnx/tokenizer.json": NONE,
}  # fmt: skip
#: without these, there are no weights
MEAN = "sentence/1_Pooling/config.json"
INCOMPLETE = ("model.safetensors.index.json", "first.safetensors", "parts/second.safetensors")
MODULES = '[{"path": "sentence/1_Pooling", "type": "sentence_transformers.models.Pooling"}]'


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
        path.parent.mkdir(parents=True, exist_ok=True)
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


def test_what_is_loaded_has_a_version_and_all_else_is_not_there(everything):
    """Python's own reads, and the folders that loaders see, which are listed again here, file by file."""
    opened: list[str] = []
    audited = [True]  # a hook cannot be taken off again

    def note(event: str, given: tuple) -> None:
        if audited and event == "open":
            opened.append(str(given[0]))

    sys.addaudithook(note)
    MultiTask.pretrained(Model(source=str(everything)), "models.m", {})
    tokenization.tokenizer(Model(source=str(everything)), "models.m")
    audited.clear()
    real = {os.path.relpath(os.path.realpath(path), everything) for path in opened}
    inside = {path for path in real if not path.startswith("..")}
    read = {"config.json", "chat_template.jinja", "model.safetensors.index.json", MEAN}
    assert read <= inside
    assert inside <= {name for name, changes in FILES.items() if changes != NONE}
    for part, whose in (("weights", WEIGHTS), ("tokenizer", TOKENS)):
        loaded = folder(Model(source=str(everything)), "models.m", part)
        there = {path.relative_to(loaded).as_posix() for path in loaded.rglob("*") if not path.is_dir()}
        assert there == {name for name, changes in FILES.items() if changes in (whose, BOTH)}


def test_what_is_put_beside_the_links_is_removed(model):
    named = Model(source="m")
    loaded = folder(named, "models.m", "weights")
    (loaded / "adapter_config.json").touch()
    there = {path.name for path in folder(named, "models.m", "weights").iterdir()}
    assert there == {"config.json", "model.safetensors", "tokenizer_config.json"}


def test_the_class_token_counts_where_it_decides_the_pooling(model):
    before = both(model)
    configure(model, "tokenizer_config.json", cls_token=None)
    after = both(model)
    assert before[0] != after[0] and before[1] != after[1]


def test_tokenizers_of_all_types_of_models_read_files_that_have_versions():
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name

    classes = {tokenizer_class_from_name(TOKENIZER_MAPPING_NAMES.get(kind) or "") for kind in types()}
    names = {name for each in classes - {None} for name in each.vocab_files_names.values()}
    assert {"tokenizer.json", "vocab.txt", "source.spm"} <= names
    assert {
        name
        for name in names
        if not any(fnmatch(name, kind) for kind in (*VOCABULARIES, "tokenizer_config.json"))
    } == set()


@pytest.fixture
def own_tokenizer(model, monkeypatch) -> Path:
    """A model whose tokenizer, of a plugin, is made of words.lst, and of another file if its config says."""
    monkeypatch.setattr(tokenization_auto, "REGISTERED_TOKENIZER_CLASSES", {})
    monkeypatch.setattr(tokenization_auto.TOKENIZER_MAPPING, "_extra_content", {})

    class Own(PreTrainedTokenizerFast):
        vocab_files_names = {"words_file": "words.lst"}

        def __init__(self, words_file: str, more: str = "", **settings: Any) -> None:
            words = Path(words_file).read_text().split()
            words += Path(settings["name_or_path"], more).read_text().split() if more else []
            ids = {word: i for i, word in enumerate(words)}
            super().__init__(tokenizer_object=Tokenizer(WordLevel(ids, "?")), **settings)

    AutoTokenizer.register(BertConfig, Own, exist_ok=True)
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "Own", "eos_token": "."}')
    (model / "words.lst").write_text("? . b")
    return model


def test_a_vocabulary_that_the_class_of_a_tokenizer_names_counts(own_tokenizer):
    before = both(own_tokenizer)
    edit(own_tokenizer / "words.lst")
    after = both(own_tokenizer)
    assert before[0] == after[0] and before[1] != after[1]
    assert "b" not in tokenization.tokenizer(Model(source="m"), "models.m").get_vocab()


def test_a_vocabulary_that_no_class_names_cannot_be_read(own_tokenizer, monkeypatch):
    """Planning says so, because a plugin has the tokenizer."""
    planned = study(models={"m": {"source": "m", "max_length": 16}})
    Path("own.py").touch()
    monkeypatch.setenv(plugins.REGISTERING, "own.py")
    study_checks.check_models(planned)
    (own_tokenizer / "more.lst").write_text("c")
    configure(own_tokenizer, "tokenizer_config.json", more="more.lst")
    with pytest.raises(ModelError, match=r"^models.m.source: the tokenizer of 'm' cannot be .*/more\.lst'"):
        study_checks.check_models(planned)


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
    for name in ("other.gguf", "config.json", "trainer_state.json", "README.txt"):
        Path(name).write_bytes(b"GGUF 2")
    assert both("m.gguf") == after
    Path("tokenizer.json").write_text("{}")
    assert both("m.gguf")[0] == after[0] and both("m.gguf")[1] != after[1]
    loaded = folder(Model(source="m.gguf"), "models.m")
    assert loaded.name == "m.gguf" and {path.name for path in loaded.parent.iterdir()} == {
        "m.gguf",
        "tokenizer.json",
    }


@pytest.mark.parametrize(
    ("source", "file", "content", "problem"),
    [
        ("m", "adapter_config.json", {}, "has an adapter next to it .*merge_and_unload"),
        # with a GGUF file, transformers would load what it is an adapter of
        ("m/m.gguf", "adapter_config.json", {}, "has an adapter next to it .*merge_and_unload"),
        ("m", "config.json", {"model_type": "bert", "transformers_weights": "b.safetensors"},
         "config.json of 'm' has transformers_weights 'b.safetensors'; expe"),
        ("m", "config.json", {"model_type": "bert", "configuration_files": ["config.4.0.0.json"]},
         "config.json of 'm' has configuration_files "),
        ("m", "tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.4.0.json"]},
         "tokenizer_config.json of 'm' has fast_tokenizer_files "),
    ],
)  # fmt: skip
def test_what_transformers_would_load_beside_the_weights_is_refused(model, source, file, content, problem):
    (model / "m.gguf").write_bytes(b"GGUF 1")
    (model / file).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=rf"^models\.m\.source: .*{problem}"):
        encoders.load(Model(source=source), "models.m")


def test_a_file_is_hashed_once(model, monkeypatch):
    """By this process or an earlier one, until it changes, even to a file of the same size and date."""
    monkeypatch.setattr(hashes, "RECENT", 0)
    path = model / "model.safetensors"
    first = hashes.sha256(path)
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()
    hashes.SHA256.save()
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
    folders.hub_commit.cache_clear()
    return both(source)


@pytest.mark.parametrize("revision", ["", "@main", f"@{REVISION}"])
def test_the_version_of_a_hub_model_is_its_commit_downloaded_or_not(empty_cache, revision):
    if REVISION in revision:  # a named commit needs neither cache nor network
        assert asked(HUB + revision) == (REVISION, REVISION)
    lay_out(empty_cache)
    assert asked(HUB + revision) == (REVISION, REVISION)


def test_a_snapshot_of_the_hub_is_loaded_without_other_files(cache):
    (cache / "trainer_state.json").write_text("{}")
    (cache / "words.lst").touch()
    loaded = {path.name for path in folder(Model(source=HUB), "models.m").iterdir()}
    assert loaded == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


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
    with pytest.raises(ModelError, match=f"^models.m.source: the commit of '{HUB}@gone' is unknown"):
        folders.version(Model(source=f"{HUB}@gone"), "models.m", "weights", results=empty_cache)
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
    planned = folders.version(named, "models.m", "weights")
    message = "^models.m.source: .* was replaced after this job was planned. Sta"
    if before:
        before(weights)
    outcome = pytest.raises(ChangedError, match=message) if refused else nullcontext()
    with outcome, folders.as_planned(planned, named, "models.m", "weights"):
        if meanwhile:
            meanwhile(weights)
