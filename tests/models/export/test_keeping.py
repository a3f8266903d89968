"""Models without some heads: their configs, saved and loaded, and the functions of transformers 4."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    PreTrainedModel,
)

import headspec
from headspec import compat
from headspec.errors import ModelError
from headspec.models.export import structure
from headspec.models.gates import HeadGates
from support.model_types import any_model, every_type
from support.models import make
from support.tiers import cases

FIRST, LATER = {0: [1], 1: [0, 3]}, {0: [0, 1], 1: [0]}


@torch.no_grad()
def logits(model, kind: str) -> torch.Tensor:
    return model.eval()(**any_model.KINDS[kind].batch()).logits


def small(kind: str, heads=FIRST):
    return headspec.remove_heads(any_model.model(kind), heads)


def test_a_config_with_a_number_of_heads_says_it_and_transformers_loads_it_alone(tmp_path):
    pruned = small("mixtral", {0: [2, 3], 1: [0, 1]})
    assert (pruned.config.num_attention_heads, pruned.config.num_key_value_heads) == (2, 1)
    assert structure.of(pruned.config)["modules"] == {}
    headspec.save(pruned, tmp_path)
    for alone in (AutoModelForCausalLM.from_pretrained(tmp_path), headspec.load(tmp_path)):
        assert torch.equal(logits(alone, "mixtral"), logits(pruned, "mixtral"))


GATED = {
    "step3p7": {
        "text_config": {"mlp_layer_types": ["dense"] * 2, "num_hidden_layers": 2, "sliding_window": 8,
                        "layer_types": ["full_attention", "sliding_attention"]},
        "vision_config": {"image_size": 28},
    },
    "dots3_note_text": every_type.OWN["dots3_note_text"],
}  # fmt: skip
#: removed heads of two layers that share keys in pairs: as many, but not as many keys
AS_MANY = {0: [0, 1], 1: [1, 3]}


@pytest.mark.parametrize(("heads", "alone"), [(AS_MANY, True), ({0: [0, 1]}, False)], ids=str)
@pytest.mark.parametrize("kind", ["gemma4_text", "gemma4_unified_text"])
def test_numbers_by_layer_are_those_of_keys(kind, heads, alone, tmp_path):
    """What these types read by layer of their config is the number of key heads, not of queries."""
    keys = {"num_key_value_heads": 2, "num_global_key_value_heads": 2}
    model = AutoModel.from_config(every_type.config(kind, **every_type.OWN[kind], **keys)).eval()
    pruned = headspec.remove_heads(model, heads)
    assert bool(structure.of(pruned.config)["modules"]) != alone
    headspec.save(pruned, tmp_path)
    loaded = (AutoModel.from_pretrained if alone else headspec.load)(tmp_path)
    ids = any_model.ids() % 90  # words with an embedding in every layer
    with torch.no_grad():
        assert torch.equal(loaded(ids)[0], pruned(ids)[0])


@pytest.mark.parametrize("kind", GATED)
def test_types_whose_queries_differ_by_layer_put_a_gate_behind_heads(kind):
    """They alone could say in their config that layers keep different numbers of heads."""
    model = AutoModel.from_config(every_type.config(kind, **GATED[kind])).eval()
    with pytest.raises(ModelError, match="cannot be removed"):
        headspec.remove_heads(model, {0: [0, 1]})


@pytest.mark.parametrize("kind", ["audioflamingo3", "glmasr", "qwen2_audio", "voxtral"])
def test_towers_that_keep_their_heads_keep_their_numbers(kind, tmp_path):
    """Texts do not run the tower of sound: nothing else would tell that its heads are counted wrongly."""
    model = AutoModel.from_config(every_type.config(kind)).eval()
    pruned = headspec.remove_heads(model, {0: [0, 1], 1: [1, 3]})
    headspec.save(pruned, tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    assert model.config.text_config.num_attention_heads != loaded.config.text_config.num_attention_heads
    for config in pruned.config, loaded.config:
        assert config.audio_config.num_attention_heads == model.config.audio_config.num_attention_heads


class Towers(PreTrainedModel):
    """A tower of texts, and one of sounds with as many heads, which texts do not run."""

    config_class = LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.text = LlamaModel(config)
        sizes = {name: getattr(config, name) for name in ("hidden_size", "num_attention_heads")}
        self.sound = BertModel(BertConfig(**sizes, num_hidden_layers=1, vocab_size=8))
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        return self.text(input_ids, attention_mask, use_cache=False)


def test_a_number_that_another_tower_reads_is_not_changed():
    """Its weights would fit another number of heads as well."""
    model = Towers(every_type.config("llama")).eval()
    heads = model.config.num_attention_heads
    half = {0: [0, 1], 1: [2, 3]}
    pruned = headspec.remove_heads(model, half)
    assert Towers(pruned.config).sound.config.num_attention_heads == heads
    assert structure.of(pruned.config)["modules"]
    text = headspec.remove_heads(model.text, half)
    assert text.config.num_attention_heads == heads // 2 and not structure.of(text.config)["modules"]


@pytest.mark.parametrize("kind", ["deepseek_v3", "mistral4"])
def test_rotations_keep_their_size_where_values_have_another(kind, tmp_path):
    """The length of context vectors is not written where a config means that of keys."""
    sizes = every_type.OWN.get(kind, {}) | {"v_head_dim": 12}
    model = AutoModel.from_config(every_type.config(kind, **sizes)).eval()
    pruned = headspec.remove_heads(model, {0: [0, 1], 1: [1, 3]})
    headspec.save(pruned, tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(any_model.ids())[0], pruned(any_model.ids())[0])


@pytest.mark.parametrize("kind", ["roberta", "mpnet"])
def test_others_are_refused_by_transformers_alone_and_loaded_without_what_was_removed(kind, tmp_path):
    pruned = small(kind)
    pruned.save_pretrained(tmp_path)  # as Trainer does
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(pruned).from_pretrained(tmp_path)
    loaded = headspec.load(tmp_path, dtype=torch.bfloat16)
    assert loaded.dtype == torch.bfloat16 and type(loaded) is type(pruned)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    assert stored == {name: tuple(value.shape) for name, value in loaded.state_dict().items()}
    kept = [*structure.of(loaded.config)["kept_heads"].values()]
    assert kept == [[0, 2, 3], [1, 2]]


EMPTIED = ["roberta", "mixtral", "bloom", "albert", "gpt2-classes", "mpnet", "vit"]


@torch.no_grad()
@pytest.mark.parametrize("writing", ["headspec.save", "save_pretrained"])
@pytest.mark.parametrize("kind", cases(EMPTIED, ["roberta", "mixtral", "bloom"].__contains__))
def test_a_layer_without_heads_is_not_drawn_again(kind, writing, tmp_path, caplog):
    """Transformers alone would give it new weights; `save` says once which loader reads it."""
    pruned = small(kind, {0: [0, 1, 2, 3]})
    headspec.save(pruned, tmp_path) if writing == "headspec.save" else pruned.save_pretrained(tmp_path)
    told = [each.message for each in caplog.records if each.name == "headspec"]
    assert len(told) == (writing == "headspec.save")
    assert all("headspec.load reads it, from_pretrained of transformers does not" in each for each in told)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(pruned).from_pretrained(tmp_path)
    torch.testing.assert_close(logits(headspec.load(tmp_path), kind), logits(pruned, kind))


def test_what_a_config_counts_is_saved_without_a_word(tmp_path, caplog):
    headspec.save(small("mixtral", {0: [2, 3], 1: [0, 1]}), tmp_path)
    assert not [each for each in caplog.records if each.name == "headspec"]


def test_files_of_1_0_of_a_layer_without_heads_are_loaded_without_a_report(tmp_path, caplog):
    """They have no tensor in the place of the weights that are gone."""
    pruned = small("roberta", {0: [0, 1, 2, 3]})
    headspec.save(pruned, tmp_path)
    emptied = [name for name, value in pruned.named_buffers() if name.endswith(".weight")]
    state = load_file(tmp_path / "model.safetensors")
    assert len(emptied) == 4
    save_file(
        {name: state[name] for name in state.keys() - emptied},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    caplog.clear()
    assert torch.equal(logits(headspec.load(tmp_path), "roberta"), logits(pruned, "roberta"))
    assert "MISSING" not in caplog.text


def test_weights_that_are_not_finite_are_told_at_loading(tmp_path):
    model = any_model.model("roberta")
    with torch.no_grad():
        model.classifier.dense.weight[0, 0] = torch.nan
    expected = "1 of its weights are nan or infinite, such as 'classifier.dense.weight'$"
    headspec.save(model, tmp_path)
    with pytest.raises(ModelError, match=expected):
        headspec.load(tmp_path)
    with pytest.raises(ModelError, match=f"^heads of this roberta cannot be removed: {expected}"):
        headspec.remove_heads(model, FIRST)


@torch.no_grad()
def test_the_encoder_inside_is_saved_and_loaded_as_well(tmp_path):
    pruned, ids = small("roberta"), any_model.ids()
    encoder = pruned.base_model.eval()
    with pytest.raises(ModelError, match="'pooler' is missing"):
        headspec.save(encoder, tmp_path)
    headspec.save(pruned, tmp_path / "whole")  # whose config is the encoder's
    encoder.save_pretrained(tmp_path)
    assert torch.equal(headspec.load(tmp_path)(ids)[0], encoder(ids)[0])


def test_a_whole_model_is_saved_with_its_tokenizer(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(make("bert", tmp_path / "bert"))
    model = AutoModel.from_pretrained(tmp_path / "bert")
    headspec.save(model, tmp_path / "kept", tokenizer)
    again = headspec.load(tmp_path / "kept")
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))
    assert AutoTokenizer.from_pretrained(tmp_path / "kept")("a b") == tokenizer("a b")


def test_what_the_config_does_not_describe_is_refused(tmp_path):
    pruned = small("roberta")
    pruned.classifier.dense = torch.nn.Linear(32, 16)
    expected = r"'classifier.dense.bias' is \(16,\), expected \(32,\)$"
    with pytest.raises(ModelError, match=f"^this roberta does not match its config: {expected}"):
        headspec.save(pruned, tmp_path)
    with pytest.raises(TypeError, match="^model: got Linear, expected a model of transformers"):
        headspec.save(pruned.classifier.dense, tmp_path)
    assert not [*tmp_path.iterdir()]


def adapted():
    peft = pytest.importorskip("peft")
    model = any_model.model("roberta")
    made = peft.get_peft_model(model, peft.LoraConfig(target_modules=["query", "value", "dense"]))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return made


def test_adapters_are_merged_before_heads_are_removed(tmp_path):
    """Otherwise a sentence says so, whether they are still there or were merged later."""
    with headspec.HeadGates(adapted()).closed(FIRST) as gates:
        expected = logits(gates.model, "roberta")
    pruned = headspec.remove_heads(adapted(), FIRST)
    torch.testing.assert_close(logits(pruned, "roberta"), expected, rtol=1e-4, atol=1e-4)
    merge = r".* merge them before heads are removed: remove_heads\(model.merge_and_unload\(\), heads\)$"
    for model in (pruned, pruned.base_model.model):
        with pytest.raises(ModelError, match=f"^this roberta has adapters, {merge}"):
            headspec.save(model, tmp_path)
    with pytest.raises(ModelError, match=f"^this roberta had adapters when heads were removed, {merge}"):
        headspec.save(pruned.merge_and_unload(), tmp_path)
    assert not [*tmp_path.iterdir()]
    headspec.save(headspec.remove_heads(adapted().merge_and_unload(), FIRST), tmp_path)
    loaded = headspec.load(tmp_path)
    torch.testing.assert_close(logits(loaded, "roberta"), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["Pruned"]}, "architectures in its config is 'Pruned', expected a model of trans"),
        ({"architectures": None}, "architectures in its config is 'none'"),
    ],
    ids=str,
)
def test_folders_that_hold_no_such_model_are_refused(change, message, tmp_path):
    headspec.save(small("roberta"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ModelError, match=message):
        headspec.load(tmp_path)


def test_pickles_are_not_loaded(tmp_path):
    pruned = small("roberta")
    pruned.config.architectures = ["RobertaForSequenceClassification"]
    pruned.config.save_pretrained(tmp_path)
    torch.save(pruned.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        headspec.load(tmp_path)


def test_what_transformers_4_pruned_and_saved_is_loaded(tmp_path):
    """It wrote `pruned_heads` into the config, and loaded a model after pruning it."""
    pruned = small("roberta")
    headspec.save(pruned, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config = {name: value for name, value in config.items() if name != structure.KEY}
    (tmp_path / "config.json").write_text(json.dumps(config | {"pruned_heads": FIRST}))
    loaded = headspec.load(tmp_path)
    assert torch.equal(logits(loaded, "roberta"), logits(pruned, "roberta"))
    headspec.save(loaded, tmp_path / "again")
    assert torch.equal(logits(headspec.load(tmp_path / "again"), "roberta"), logits(pruned, "roberta"))


@pytest.mark.parametrize("kind", ["roberta", "mixtral", "vit"])
def test_heads_are_pruned_in_place_by_their_first_numbers(kind):
    """Also in two steps; those that are pruned already are passed over."""
    model = any_model.model(kind)
    inside = [*model.base_model.modules()]
    compat.prune_heads(model, FIRST)
    compat.prune_heads(model, LATER)
    expected = small(kind, {0: [0, 1], 1: [0, 3]})
    torch.testing.assert_close(logits(model, kind), logits(expected, kind))
    assert model.num_parameters() == expected.num_parameters()
    if kind != "mixtral":  # whose keys get modules around them
        assert set(inside) == set(model.base_model.modules())


def test_a_layer_without_heads_is_passed_over():
    model = any_model.model("roberta")
    for _ in range(2):
        compat.prune_heads(model, {0: [0, 1, 2, 3]})
    assert np.array_equal(HeadGates(model).exists, np.arange(2)[:, None] == np.full(4, 1))
    with pytest.raises(ValueError, match="heads: got layer 2, head 0"):
        compat.prune_heads(model, {2: [0]})


@pytest.mark.parametrize("first", [[1], [0, 1, 2, 3]])
@pytest.mark.parametrize("head", [4, 99, -1])
def test_a_head_that_never_existed_is_refused_in_a_pruned_layer(first, head):
    model = any_model.model("roberta")
    compat.prune_heads(model, {0: first})
    with pytest.raises(ValueError, match=f"^heads: got layer 0, head {head}; the model has .* heads 0 to 3$"):
        compat.prune_heads(model, {0: [head]})


def test_rows_of_pruneable_heads_are_those_that_transformers_4_found():
    """Heads 1 and 4 of six are pruned; 0 and 3 are the first and third of the others."""
    heads, rows = compat.find_pruneable_heads_and_indices([0, 3, 4], 4, 2, {1, 4})
    assert heads == {0, 3} and rows.tolist() == [2, 3, 6, 7]
