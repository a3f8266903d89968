"""Folders of models that nobody would publish: an EncoderError, and no code."""

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.heads import head_settings
from headspec.models import encoders
from headspec.models.pretrained.checks import check_model
from headspec.models.pretrained.config_json import SIZES
from headspec.models.pretrained.folders import folder
from headspec.models.tokens.tokenization import tokenizer

CODE = type("Code", (), {"__reduce__": lambda self: (os.mkdir, ("trace",))})()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["bert", "gpt2", "x"]),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(["model_type", *SIZES, "position_biased_input", "auto_map"])


def planned(source: str = "m") -> None:
    model = Model(source=source, max_length=16)
    check_model(folder(model, "models.m"), model, "models.m")
    head_settings.exists(model, "models.m")


@settings(max_examples=3 * settings().max_examples)
@given(st.dictionaries(KEYS, VALUES, max_size=3) | VALUES)
def test_any_config_is_a_model_or_an_error(tmp_path_factory, config):
    folder = tmp_path_factory.getbasetemp() / "any-model"
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").touch()
    if isinstance(config, dict):
        config = {"model_type": "bert"} | config
    (folder / "config.json").write_text(json.dumps(config))
    try:
        planned(str(folder))
    except EncoderError as error:
        assert str(error).startswith("models.m.")


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "{", "", "\0", '{"model_type": ["bert"]}', '{"n_head": "12"}', '{"n_layer": -2}',
     '{"model_type": "bert", "num_attention_heads": 0}'],
)  # fmt: skip
def test_a_broken_config(model, text):
    (model / "config.json").write_text(text)
    with pytest.raises(EncoderError, match="models.m.source: 'm' has no readable config.json"):
        planned()


@pytest.mark.parametrize(
    "index",
    ["{", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "part.bin"}}'],
)
def test_an_index_that_names_no_safetensors(model, index):
    (model / "model.safetensors").rename(model / "part.bin")
    (model / "model.safetensors.index.json").write_text(index)
    with pytest.raises(EncoderError, match="no complete safetensors weights"):
        planned()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.safetensors.index.json"])
def test_a_pipe_in_place_of_a_file(model, name):
    """Reading it would wait for ever."""
    (model / name.replace(".index.json", "")).unlink()
    os.mkfifo(model / name)
    problem = "no readable config.json .it is no file" if name == "config.json" else "no complete safetensors"
    with pytest.raises(EncoderError, match=f"models.m.source: 'm' has {problem}"):
        planned()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl", "model.safetensors"])
def test_pickles_are_not_loaded(model, name):
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(pickle.dumps(CODE))
    problem = "cannot be loaded" if name == "model.safetensors" else "has no complete safetensors weights"
    with pytest.raises(EncoderError, match=f"models.m.source: 'm' {problem}"):
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
        except EncoderError as error:
            assert "trust_remote_code" in str(error)
    assert not Path("trace").exists()


@pytest.mark.parametrize("source", ["hub:../x", "hub:a..b/c", "hub:a--b/c@1", "hub:" + "a" * 200 + "/b"])
def test_names_that_the_hub_has_not(source):
    with pytest.raises(EncoderError, match="models of the hub have no such names"):
        folder(Model(source=source), "models.m")


def test_a_folder_of_models_names_the_model(model):
    with pytest.raises(EncoderError, match=r"'\.' has no readable config.json .*Did you mean '\./m'\?"):
        planned(".")
