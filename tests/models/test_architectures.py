"""Every architecture from its files to logits, and the details that differ between them."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.heads import head_settings
from headspec.models.batching import Batch, Examples
from headspec.models.encoders import classifier_dropout
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.study_checks import check_models
from headspec.models.tokenization import encode, tokenizer
from headspec.training.updates import backward
from support import tiny
from support.data.labelled_texts import table
from support.models import MODELS, TRANSLATORS
from support.running.studies import study
from support.tiny import TYPES, by_family, pooling
from support.translators import translator

#: model: its convention
POOLING = dict.fromkeys(MODELS, "first") | dict.fromkeys(
    ("gpt2", "openai-gpt", "llama", "qwen2", "qwen3", "mistral"), "last"
)


def test_every_architecture_of_the_table_is_tested():
    assert {kind for kind, _, _ in MODELS.values()} == set(TYPES)


def loaded(model_folder, name: str) -> tuple[Model, MultiTask]:
    settings = Model(source=str(model_folder(name)), max_length=16)
    return settings, MultiTask.pretrained(settings, "m", {"a": ["x", "y"]}).eval()


def encoded(settings: Model, *rows: tuple) -> Examples:
    return Examples(encode(tokenizer(settings, "m"), table(*rows), 16, ["x", "y"])[0])


@pytest.mark.parametrize("name", by_family(MODELS))
def test_padding_does_not_matter_and_every_word_does(model_folder, name):
    """With the pooling of its convention: a decoder's first token, for example, attends only to itself."""
    settings, model = loaded(model_folder, name)
    assert model.pooling == POOLING[name]
    texts = [("boat near", "our house"), ("tree near", "our house"), ("boat near", "our tree")]
    texts += [("the old house saw our boat", "the tree"), ("moss", "day")]
    examples = encoded(settings, *((*pair, "x") for pair in texts))
    with torch.no_grad():
        together = model.pool(examples.batch(np.arange(5)))
        alone = torch.cat([model.pool(examples.batch(np.array([i]))) for i in range(5)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    plain, first, last, *_ = alone
    assert (plain - first).abs().max() > 1e-4 and (plain - last).abs().max() > 1e-4


#: models whose classifier in transformers is linear in the same vector: name of the linear layer
CLASSIFIERS = {"bert": "classifier", "albert": "classifier", "gpt2": "score", "openai-gpt": "score",
               "llama": "score", "qwen2": "score", "qwen3": "score", "mistral": "score"}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_logits_are_those_of_transformers(model_folder, name):
    """The sequence classifier of transformers pads with another token, yet uses the same vector."""
    settings, model = loaded(model_folder, name)
    reference = AutoModelForSequenceClassification.from_pretrained(model_folder(name), num_labels=2).eval()
    linear = reference.get_submodule(CLASSIFIERS[name])
    model.classifiers[0].load_state_dict({"bias": torch.zeros(2)} | linear.state_dict())
    if linear.bias is not None:
        torch.nn.init.zeros_(linear.bias), torch.nn.init.zeros_(model.classifiers[0].bias)
    texts, tokens = ["the old house saw our boat", "tree"], tokenizer(settings, "m")
    examples = encoded(settings, (texts[0], None, "x"), (texts[1], None, "y"))
    tokens.pad_token, tokens.padding_side = tokens.convert_ids_to_tokens(5), "right"  # not in the texts
    reference.config.pad_token_id = reference.config.get_text_config().pad_token_id = tokens.pad_token_id
    batch = tokens(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model.logits("a", model.pool(examples.batch(np.arange(2))))
        torch.testing.assert_close(logits, reference(**batch).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "end"), {"gpt2": "<|endoftext|>", "openai-gpt": "<unk>", "qwen2": "<|endoftext|>"}.items()
)
def test_texts_of_decoders_end_with_a_special_token(model_folder, name, end):
    """Also those that are truncated."""
    tokenize = tokenizer(Model(source=str(model_folder(name))), "m")
    number, whole = tokenize.convert_tokens_to_ids(end), tokenize("the old house")["input_ids"]
    assert whole == [*AutoTokenizer.from_pretrained(model_folder(name))("the old house")["input_ids"], number]
    frame, truncated = encode(tokenize, table(("the boat " * 9, "the tree " * 9, "x")), 8, ["x", "y"])
    assert truncated == 1
    assert [token == number for token in frame["input_ids"][0]] == [False, False, False, True] * 2


@pytest.mark.parametrize("name", [*by_family(), *by_family(TRANSLATORS)])
def test_microbatches_give_the_same_gradients(model_folder, name):
    """With dropout, and they leave the same random state."""
    results = []
    for microbatches in (1, 2, 3):
        if name in TRANSLATORS:
            model, texts = translator(model_folder(name), name, 7)
        else:
            dropout = {"attention_dropout": 0.2} if name in ("llama", "qwen3") else {}
            model, texts = tiny.multitask(name, {"a": ["x", "y"]}, **dropout).train(), tiny.examples(7)
        model.attend_for_gradients(tiny.CPU)
        batch, learning = texts.batch(np.arange(7)), list(model.parameters())
        torch.manual_seed(5)
        loss, _ = backward(
            lambda b, o=model: o.losses("a", o.pool(b), b.labels), batch, learning, microbatches, tiny.CPU
        )
        gradients = torch.cat([p.grad.flatten() for p in learning if p.grad is not None])
        results.append((loss, gradients / gradients.abs().max(), torch.rand(1)))
    for loss, gradients, drawn in results[1:]:
        torch.testing.assert_close(loss, results[0][0])
        torch.testing.assert_close(gradients, results[0][1], rtol=0, atol=2e-6 if name in TYPES else 1e-5)
        assert torch.equal(drawn, results[0][2])


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "gpt2", "llama"])
def test_parts_of_a_batch_have_different_masks_in_fused_attention(kind):
    """Eight copies of a text, of which attention alone has dropout, have eight losses, always the same."""
    rates = {"attention_probs_dropout_prob": 0.5, "hidden_dropout_prob": 0.0, "attention_dropout": 0.5}
    rates |= {"attn_pdrop": 0.5, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "dropout": 0.0}
    torch.manual_seed(1)
    encoder = tiny.encoder(kind, **rates, classifier_dropout=0.0)
    encoder.set_attn_implementation("sdpa")
    model = MultiTask(encoder, pooling(kind), {"a": ["x", "y"]}).train()
    model.dropout.p = 0.0
    batch, found = tiny.examples(1).batch(np.zeros(8, dtype=int)), []
    for microbatches in (1, 2, 2):
        seen: list[torch.Tensor] = []

        def losses(part: Batch, seen: list = seen) -> torch.Tensor:
            seen.append(model.losses("a", model.pool(part), part.labels))
            return seen[-1]

        torch.manual_seed(5)
        backward(losses, batch, list(model.parameters()), microbatches, tiny.CPU)
        found.append(torch.cat(seen).detach())
    assert [len(each.unique()) for each in found] == [8, 8, 8]
    assert torch.equal(found[1], found[2])


def test_dropout_of_a_classifier_is_the_architectures():
    rates = {kind: classifier_dropout(tiny.encoder(kind).config) for kind in TYPES}
    assert rates["bert"] == rates["roberta"] == rates["gpt2"] == 0.1
    assert rates["distilbert"] == 0.2 and rates["albert"] == 0.1
    assert rates["llama"] == rates["modernbert"] == 0.0
    assert classifier_dropout(tiny.encoder("bert", classifier_dropout=0.3).config) == 0.3


# --- refusals before any job


def check(source: Path, **settings) -> None:
    check_models(study(models={"own": {"source": str(source), **settings}}))


def refused(source: Path, **settings) -> str:
    with pytest.raises(ModelError) as caught:
        check(source, **settings)
    return str(caught.value)


@pytest.mark.parametrize(("name", "longest"), [("bert", 64), ("gpt2", 64), ("roberta", 62), ("mpnet", 62)])
def test_more_tokens_than_positions_are_refused(model_folder, name, longest):
    """Positions of RoBERTa and MPNet start after padding's."""
    _, model = loaded(model_folder, name)
    ids = torch.full((1, longest + 1), 5)
    assert model.encoder(input_ids=ids[:, 1:]).last_hidden_state.shape[1] == longest
    with pytest.raises((IndexError, RuntimeError)):
        model.encoder(input_ids=ids)
    check(model_folder(name), max_length=longest)
    message = refused(model_folder(name), max_length=longest + 1)
    assert message.startswith(f"models.own.max_length: got {longest + 1}, ")
    assert f"has positions for {longest} tokens" in message


def test_relative_positions_have_no_limit(model_folder):
    check(model_folder("deberta-v3"), max_length=128)


def test_sources_that_are_no_folder_of_a_model(model_folder, tmp_path):
    """Names of the hub without its prefix, a file, folders without a type or with a GGUF file."""
    for source, written in {
        "google-bert/bert-base-uncased": "hub:google-bert/bert-base-uncased@<revision>",
        "bert-base-uncased": "hub:<owner>/bert-base-uncased@<revision>",
    }.items():
        assert refused(Path(source)).endswith(f"For the hub, write '{written}'.")
    assert "hub" not in refused(Path("models/mine/checkpoint"))
    assert "is a file; expected the model's folder" in refused(model_folder("bert") / "model.safetensors")
    gguf(tmp_path / "small.gguf", "llama")
    assert refused(tmp_path).endswith(f"Did you mean '{tmp_path}/small.gguf'?")
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    assert refused(tmp_path) == f"models.own.source: config.json of '{tmp_path}' has no model_type"


def gguf(path: Path, architecture: str, **sizes: int) -> Path:
    """The first bytes of a GGUF file, with the sizes after a list and before the words of a tokenizer."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def texts(*values: str) -> bytes:
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text(architecture)]
    pairs.append(text("general.languages") + texts("en", "de"))
    pairs.append(text("general.quality") + struct.pack("<If", 6, 0.5))
    pairs += [text(f"{architecture}.{key}") + struct.pack("<II", 4, size) for key, size in sizes.items()]
    pairs.append(text("tokenizer.ggml.tokens") + texts("a", "b")[:-5])  # cut off: nobody reads it
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + b"".join(pairs))
    return path


def test_sizes_are_read_from_the_start_of_a_gguf_file(tmp_path):
    heads = {"attention.head_count": 9, "attention.head_count_kv": 3}
    path = gguf(tmp_path / "a.gguf", "llama", block_count=30, embedding_length=576, **heads)
    check(path)
    assert settings(path, "models.m", str(path)) == {
        "model_type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "hidden_size": 576,
    }  # fmt: skip
    few = study(models={"own": {"source": str(path)}}, pruning={"fraction": 0.001})
    with pytest.raises(ModelError, match="less than one of the 270 heads of models.own"):
        head_settings.check_head_counts(few)


def test_files_that_do_not_begin_as_gguf_are_refused(tmp_path):
    path = gguf(tmp_path / "a.gguf", "llama")
    whole = path.read_bytes()
    for content in (b"not what it says", whole[:5], whole[:30], whole[:60], whole[:90]):
        path.write_bytes(content)
        assert "is not a GGUF file" in refused(path)
    path.write_bytes(whole.replace(b"architecture", b"archipelagos"))
    assert "it does not start with its architecture" in refused(path)
