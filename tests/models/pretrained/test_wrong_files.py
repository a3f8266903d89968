"""Model folders with contradictory or broken files, or code to run: a ModelError while planning."""

import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.heads import head_settings
from headspec.models import encoders
from headspec.models.pretrained import study_checks
from headspec.models.pretrained.checks import check_model
from headspec.models.pretrained.config_json import SIZES
from headspec.models.pretrained.folders import folder
from headspec.models.tokenization import tokenizer
from support.data.model_files import configure
from support.running import studies
from support.running.studies import WORDS, bert

CODE = type("Code", (), {"__reduce__": lambda self: (os.mkdir, ("trace",))})()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["bert", "gpt2", "x"]),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(["model_type", *SIZES, "position_biased_input", "auto_map"])


def planned(source: str = "m", max_length: int = 16) -> None:
    model = Model(source=source, max_length=max_length)
    check_model(folder(model, "models.m"), model, "models.m")
    head_settings.exists(model, "models.m")


def refused(source: str = "m") -> str:
    with pytest.raises(ModelError) as caught:
        planned(source)
    return str(caught.value)


@settings(max_examples=3 * settings().max_examples)
@given(st.dictionaries(KEYS, VALUES, max_size=3) | VALUES)
def test_any_config_is_a_model_or_an_error(tmp_path_factory, config):
    folder = tmp_path_factory.getbasetemp() / "any-model"
    folder.mkdir(exist_ok=True)
    save_file({"x": np.zeros(1)}, folder / "model.safetensors")
    if isinstance(config, dict):
        config = {"model_type": "bert"} | config
    (folder / "config.json").write_text(json.dumps(config))
    try:
        planned(str(folder))
    except ModelError as error:
        assert str(error).startswith("models.m.")


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "{", "", "\0", '{"model_type": ["bert"]}', '{"n_head": "12"}', '{"n_layer": -2}',
     '{"model_type": "bert", "num_attention_heads": 0}'],
)  # fmt: skip
def test_a_broken_config(model, text):
    (model / "config.json").write_text(text)
    assert "models.m.source: 'm' has no readable config.json" in refused()


@pytest.mark.parametrize(
    "index",
    [
        "{",
        "[]",
        "{}",
        '{"weight_map": 1}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "part.bin"}}',
        '{"weight_map": {}}',
    ],
)
def test_an_index_that_names_no_safetensors(model, index):
    (model / "model.safetensors").rename(model / "part.bin")
    (model / "model.safetensors.index.json").write_text(index)
    assert "no complete safetensors weights" in refused()


def pipe(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "modules.json",
     "tokenizer_config.json", "spiece.model"],
)  # fmt: skip
def test_a_pipe_in_place_of_a_file(model, name):
    """Reading it would block forever."""
    pipe(model / name)
    problem = f"models.m.source: 'm' cannot be loaded: {name} is a pipe or device; expected a file"
    assert refused() == problem


@pytest.mark.parametrize("name", ["1_Pooling/config.json", "model.safetensors.index.json", "eval.json"])
def test_a_pipe_in_place_of_a_file_that_is_not_read(model, name):
    """Nothing names the first, and transformers prefers a file of weights to an index."""
    pipe(model / name)
    planned()


WEIGHTS = "model.safetensors"


@pytest.mark.parametrize("place", [WEIGHTS, "part-2.safetensors"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda data: b"", "cannot be read ("),
        (lambda data: data[:100], "cannot be read ("),
        (lambda data: data[: len(data) // 2], "cannot be read ("),
        (lambda data: data.replace(b'[27,32]', b'[32,27,2]', 1) if b'[27,32]' in data else data[:-8],
         "cannot be read ("),
        (lambda data: (2).to_bytes(8, "little") + b"{}", "has no "),
    ],
    ids=["empty", "short", "half", "misshapen", "no tensors"],
)  # fmt: skip
def test_weights_that_cannot_be_loaded(model, place, content, told):
    """Also where they are in several files."""
    if place != WEIGHTS:
        (model / WEIGHTS).unlink()
        bert().save_pretrained(model, max_shard_size="3KB")
        place = sorted(model.glob("*-of-*.safetensors"))[1].name
    (model / place).write_bytes(content((model / place).read_bytes()))
    message = refused()
    assert message.startswith("models.m.source: 'm' cannot be loaded: ") and f"{place} {told}" in message
    with pytest.raises(ModelError, match="models.m.source: 'm' cannot be loaded"):
        encoders.load(Model(source="m"), "models.m")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"model_type": "brt"},
            "is of type brt, which is not a type of transformers; expected one of docs/",
        ),
        ({"hidden_size": 30}, "has hidden_size 30 and num_attention_heads 4; expected a multiple of 4"),
        (
            {"num_attention_heads": 5},
            "hidden_size 32 and num_attention_heads 5; expected a multiple of 5",
        ),
        (
            {"hidden_size": 64},
            "has hidden_size 64, but its weights have embeddings of width 32",
        ),
        ({"num_hidden_layers": 10**7}, "(num_hidden_layers is 10000000, expected at most 10000)"),
        ({"num_attention_heads": 10**9}, "(num_attention_heads is 1000000000, expected at most 10000)"),
        (
            {"_attn_implementation": "owner/kernel"},
            "has _attn_implementation 'owner/kernel', a kernel",
        ),
        (
            {"a": [{"attn_implementation": {"": "owner/k@v1:f"}}]},
            "attn_implementation 'owner/k@v1:f'",
        ),
    ],
)
def test_settings_with_which_a_model_cannot_be_loaded(model, settings, told):
    configure(model, **settings)
    assert refused().startswith("models.m.source: ") and told in refused()


@pytest.mark.parametrize("place", ["../part.safetensors", "{model}/../part.safetensors"])
def test_an_index_that_names_weights_outside(model, place):
    (model / WEIGHTS).rename(model.parent / "part.safetensors")
    index = {"weight_map": {"a": place.format(model=model)}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    problem = "'m' cannot be loaded: it names ../part.safetensors, which is outside its folder"
    assert refused().startswith(f"models.m.source: {problem}")


SPELLINGS: list[Callable[[Path], str]] = [
    str,
    lambda path: os.path.relpath(path),
    lambda path: f"./{os.path.relpath(path)}",
    lambda path: f"m/../{path.name}",
]
NESTED: list[Callable[[str], object]] = [
    str,
    lambda text: [text],
    lambda text: [1, {"a": text}],
    lambda text: {"a": [None, text]},
]


@settings(
    max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["vocab", "merges", "init_inputs", "vocab_file"])
    | st.from_regex("[a-z_]{3,9}", fullmatch=True),
    st.sampled_from(SPELLINGS),
    st.sampled_from(NESTED),
    st.sampled_from(["tokenizer_config.json", "special_tokens_map.json"]),
)
def test_a_tokenizer_that_names_files_outside(model, key, spelling, nested, file):
    """Transformers opens some of them, such as `vocab`; an edit there would rerun nothing."""
    outside, given = Path("elsewhere.txt"), model / file
    before = given.read_text() if given.exists() else "{}"
    outside.write_text("\n".join(WORDS))
    given.write_text(json.dumps(json.loads(before) | {key: nested(spelling(outside.absolute()))}))
    told = f"^models.m.source: {file} of 'm' has {key} '.*, a file that is not one of the model's; "
    try:
        for load in (lambda _, key: planned(), tokenizer):
            with pytest.raises(ModelError, match=told):
                load(Model(source="m"), "models.m")
    finally:
        given.write_text(before)


def test_names_in_a_tokenizer_that_are_harmless(model):
    """Its own files, folders, and files of another machine, as transformers 4 writes them."""
    names = {"vocab_file": str(model / "tokenizer.json"), "name_or_path": os.getcwd(), "unk_token": "[UNK]"}
    away = {"special_tokens_map_file": "/root/.cache/x.json", "tokenizer_file": "/root/.cache/tokenizer.json"}
    configure(model, "tokenizer_config.json", **names, **away)
    study_checks.check_models(studies.study(models={"m": {"source": "m", "max_length": 16}}))


def test_a_missing_file_that_a_tokenizer_names_is_told_before_a_run(model):
    (model / "tokenizer.json").unlink()
    (model / "vocab.txt").write_text("\n".join(WORDS))
    configure(model, "tokenizer_config.json", tokenizer_class="BertTokenizer", vocab="/nowhere/vocab.txt")
    with pytest.raises(ModelError, match="^models.m.source: the tokenizer of 'm' cannot be loaded"):
        study_checks.check_models(studies.study(models={"m": {"source": "m", "max_length": 16}}))


def test_a_folder_without_a_vocabulary(model):
    """Transformers would make a tokenizer that knows no word."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).unlink()
    (model / "words.txt").write_text("\n".join(WORDS))
    with pytest.raises(
        ModelError, match="^models.m.source: 'm' has no vocabulary; expected tokenizer.json, vocab.txt"
    ):
        study_checks.check_models(studies.study(models={"m": {"source": "m", "max_length": 16}}))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl", "model.safetensors"])
def test_pickles_are_not_loaded(model, name):
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(pickle.dumps(CODE))
    problem = "cannot be loaded" if name == "model.safetensors" else "has no complete safetensors weights"
    with pytest.raises(ModelError, match=f"models.m.source: 'm' {problem}"):
        encoders.load(Model(source="m"), "models.m")
    assert not Path("trace").exists()


def test_code_that_a_model_brings_is_not_run(model):
    (model / "code.py").write_text("import os\nos.mkdir('trace')\nclass Own: pass\n")
    for name, classes in {
        "config.json": {"AutoConfig": "code.Own", "AutoModel": "code.Own"},
        "tokenizer_config.json": {"AutoTokenizer": ["code.Own", "code.Own"]},
    }.items():
        settings = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps(settings | {"auto_map": classes}))
    for load in (encoders.load, tokenizer):
        try:
            load(Model(source="m"), "models.m")
        except ModelError as error:
            assert "trust_remote_code" in str(error)
    assert not Path("trace").exists()


@pytest.mark.parametrize("source", ["hub:../x", "hub:a..b/c", "hub:a--b/c@1", "hub:" + "a" * 200 + "/b"])
def test_names_that_the_hub_has_not(source):
    with pytest.raises(ModelError, match="models of the hub have no such names"):
        folder(Model(source=source), "models.m")


def test_a_folder_of_models_names_the_model(model):
    message = refused(".")
    assert "'.' has no readable config.json" in message and "Did you mean './m'?" in message


# --- sizes that disagree, with both numbers

KNOWN = len(WORDS)


def test_sizes_that_agree(model):
    planned(max_length=32)
    bert(vocab_size=KNOWN + 40).save_pretrained(model)  # embeddings without tokens do no harm
    planned(max_length=32)


def test_more_tokens_than_embeddings(model):
    more = studies.tokenizer()
    more.add_tokens(["[CITY]", "[TOWN]"])
    more.save_pretrained(model)
    numbers = f"has {KNOWN + 2} tokens, but the model has embeddings for only {KNOWN} (vocab_size"
    assert numbers in refused()
    (model / "model.safetensors").unlink()  # what a hub model that is not here leaves to jobs
    with pytest.raises(ModelError, match=re.escape(numbers)):
        tokenizer(Model(source="m"), "models.m")


@pytest.mark.parametrize("file", ["vocab.txt", "vocab.json"])
def test_more_words_in_other_files(model, file):
    (model / "tokenizer.json").unlink()
    words = [f"w{i}" for i in range(KNOWN + 5)]
    (model / file).write_text(json.dumps(dict.fromkeys(words)) if file.endswith("json") else "\n".join(words))
    (model / "added_tokens.json").write_text('{"[CITY]": 1}')
    assert f"has {KNOWN + 6} tokens, but the model has embeddings for only {KNOWN}" in refused()


def test_separators_of_lines_are_tokens(model):
    """As in vocabularies of BERT for many languages."""
    (model / "tokenizer.json").unlink()
    words = [*WORDS[:-3], "\u2028", "\x85", "\x0b"]
    (model / "vocab.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    planned()


@pytest.mark.parametrize("shards", ["1MB", "3KB"])
@pytest.mark.parametrize(
    ("name", "size", "rows"), [("vocab_size", KNOWN + 3, KNOWN), ("max_position_embeddings", 64, 32)]
)
def test_more_in_the_config_than_in_the_weights(model, name, size, rows, shards):
    (model / "model.safetensors").unlink()
    bert().save_pretrained(model, max_shard_size=shards)
    configure(model, **{name: size})
    assert f"has {name} {size}, but its weights have embeddings for {rows}" in refused()
