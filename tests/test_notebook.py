"""The functions of a notebook, on any model with its own task head."""

import contextlib
import copy
import importlib
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from transformers import AutoTokenizer, BartForSequenceClassification, PreTrainedModel

import headspec
from headspec.errors import ModelError
from headspec.heads.any_model.scores import SCORES
from headspec.heads.behaviours.table import BEHAVIOURS
from support import pages
from support.data import matrices
from support.model_types import any_model, every_type
from support.model_types.any_model import KINDS, QUICK
from support.models import TEXTS, make, qwen
from support.paths import ROOT
from support.tiers import cases

#: why the heads of a model cannot be removed
REFUSED = {
    "olmo2": "the remaining heads do not reproduce",  # a norm spans all heads
    "t5": "the remaining heads do not reproduce",  # one layer has the position biases of all
    "falcon-grouped": "queries, keys and values of a group side by side",
}


@torch.no_grad()
def logits(model: PreTrainedModel, kind: str) -> torch.Tensor:
    return model.eval()(**KINDS[kind].batch()).logits


def some(kind: str) -> np.ndarray:
    """Heads that are pruned: all of the first layer, one of the last, so that groups are uneven."""
    gates = headspec.HeadGates(any_model.model(kind))
    heads = np.random.default_rng(2).permutation(np.arange(gates.exists.size) % 2 == 0)
    heads = heads.reshape(gates.exists.shape) & gates.exists
    heads[0] = gates.exists[0]
    heads[-1] = np.arange(gates.heads) == 1
    return heads


def without(kind: str, heads: np.ndarray) -> torch.Tensor:
    """The logits of a model whose columns of W_O are zero for these heads."""
    model = any_model.model(kind)
    gates = headspec.HeadGates(model)
    with torch.no_grad():
        for site in gates.sites:
            (row,) = site.rows
            site.columns()[heads[row, : site.heads]] = 0
    return logits(model, kind)


@pytest.mark.parametrize("kind", cases(KINDS, QUICK.__contains__))
def test_closed_heads_are_zero_columns_and_removed_heads(kind, tmp_path):
    model, heads = any_model.model(kind), some(kind)
    before, plain = copy.deepcopy(model.state_dict()), logits(model, kind)
    with headspec.HeadGates(model).closed(heads):
        expected = logits(model, kind)
        if kind not in REFUSED:
            small = headspec.remove_heads(model, heads)  # a copy, without the gates
    if kind != "albert":  # whose layers share their columns
        torch.testing.assert_close(expected, without(kind, heads), rtol=1e-4, atol=1e-5)
    assert (expected - plain).abs().max() > 1e-3 * plain.abs().max()  # heads matter
    assert torch.equal(logits(model, kind), plain)
    if kind in REFUSED:
        with pytest.raises(ModelError, match=REFUSED[kind]):
            headspec.remove_heads(model, heads)
    else:
        torch.testing.assert_close(logits(small, kind), expected, rtol=1e-3, atol=1e-4)
        assert kind == "albert" or small.num_parameters() < model.num_parameters()
        headspec.save(small, tmp_path)
        again = headspec.load(tmp_path)
        assert type(again) is type(model) and again.num_parameters() == small.num_parameters()
        torch.testing.assert_close(logits(again, kind), logits(small, kind))
        assert {p.requires_grad for p in small.parameters()} <= {p.requires_grad for p in model.parameters()}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


ROUNDS = {"first": [0, 1, 2, 3], "last": [-1, -2, -3, -4], "uneven": [0, 1, 4]}


@pytest.mark.parametrize(
    ("kind", "removed"),
    cases(
        itertools.product(sorted(KINDS.keys() - REFUSED), ROUNDS),
        lambda case: case[0] in QUICK and case[1] == "uneven",
    ),
)
def test_what_is_left_is_scored_and_pruned_again(kind, removed, tmp_path):
    """A layer without heads stays a row; the rest are other numbers of heads, in three rounds."""
    model = any_model.model(kind)
    exists = headspec.HeadGates(model).exists
    chosen = np.zeros_like(exists)
    rows = [0] if kind == "ragged" else ROUNDS[removed]  # ragged has one layer with heads
    chosen[tuple(np.argwhere(exists)[rows].T)] = True
    left = exists.sum(1) - chosen.sum(1)
    for _ in range(3):
        with headspec.HeadGates(model).closed(chosen):
            expected = logits(model, kind)
        model = headspec.remove_heads(model, chosen)
        torch.testing.assert_close(logits(model, kind), expected, rtol=1e-3, atol=1e-4)
        scores = headspec.head_importance(model, any_model.batches(kind))
        assert ((~np.isnan(scores)).sum(1) == left).all()
        chosen = headspec.top_heads(-scores, 1)
        left = left - chosen.sum(1)
    headspec.save(model, tmp_path)
    torch.testing.assert_close(logits(headspec.load(tmp_path), kind), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("kind", "removed"), [("falcon-grouped", (0, 2)), ("mixtral", (0, 1, 2))])
def test_keys_and_values_go_with_their_last_query_head(kind, removed):
    """Also where they are in one matrix, of a group as large as the others."""
    model, heads = any_model.model(kind), np.zeros((any_model.LAYERS, any_model.HEADS), dtype=bool)
    heads[:, removed] = True
    small = headspec.remove_heads(model, heads)
    with headspec.HeadGates(model).closed(heads):
        torch.testing.assert_close(logits(small, kind), logits(model, kind), rtol=1e-3, atol=1e-4)
    matrices = {"falcon-grouped": 2 * 2, "mixtral": 2 * 3 + 2 * 1}[kind]  # of heads, of Mixtral's a group too
    assert model.num_parameters() - small.num_parameters() == any_model.LAYERS * matrices * 8 * 32


ONE_HEAD = np.array([[False] * 4, [False, True, False, False]])


@pytest.mark.parametrize(
    "heads",
    [
        ONE_HEAD,
        ONE_HEAD.tolist(),
        torch.tensor(ONE_HEAD),
        {1: [1]},
        {1: 1, 0: []},
        {np.int64(1): torch.tensor([1])},
        [(1, 1)],
        {(1, 1)},
        np.argwhere(ONE_HEAD),
    ],
    ids=str,
)
def test_heads_may_be_chosen_in_any_form(heads):
    """Also as `prune_heads` of transformers 4 took them."""
    model = any_model.model("vit")
    with headspec.HeadGates(model).closed(heads) as gates:
        assert torch.equal(gates.values, torch.tensor(~ONE_HEAD).float())
        expected = logits(model, "vit")
    small = headspec.remove_heads(model, heads)
    torch.testing.assert_close(logits(small, "vit"), expected, rtol=1e-3, atol=1e-4)
    axes = headspec.heat_map(np.ones((2, 4)), heads, Figure().subplots())
    assert {patch.get_xy() for patch in axes.patches} == {(0.5, 0.5)}


@pytest.mark.parametrize("nothing", [{}, [], np.zeros((2, 4), dtype=bool)], ids=str)
def test_no_heads_may_be_chosen(nothing):
    model = any_model.model("vit")
    small = headspec.remove_heads(model, nothing)
    assert torch.equal(logits(small, "vit"), logits(model, "vit"))


FORMS = r"expected bool \(2, 4\), such as from top_heads, {layer: \[heads\]} or pairs \(layer, head\)$"


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (np.zeros((2, 4)), rf"heads: got float64 \(2, 4\), {FORMS}"),
        ([[1, 0, 0, 0], [0, 0, 0, 0]], rf"heads: got int64 \(2, 4\), {FORMS}"),
        (np.zeros((4, 2), dtype=bool), r"heads: got \(4, 2\), expected \(2, 4\)$"),
        (np.zeros((3, 2, 4), dtype=bool), r"heads: got \(3, 2, 4\), expected \(2, 4\)$"),
        ({2: [0]}, "heads: got layer 2, head 0; the model has layers 0 to 1 with heads 0 to 3$"),
        ([(0, 4)], "heads: got layer 0, head 4; the model has layers 0 to 1"),
        ({0: [-1]}, "heads: got layer 0, head -1; the model has layers 0 to 1"),
        ({"first": [1]}, r"heads: got 'first': \[1\], expected a layer: a list of its heads, from 0$"),
        ({0: [0.5]}, r"heads: got 0: \[0.5\], expected a layer: a list"),
        ({0: "all"}, "heads: got 0: 'all', expected a layer: a list"),
        ([[True], [False, True]], r"heads: got rows of different lengths, expected \(layers, heads\)$"),
        (None, "heads: got NoneType, expected numbers$"),
        ("0.1", "heads: got str, expected numbers$"),
    ],
    ids=str,
)
def test_what_chooses_no_heads_is_refused(heads, message):
    model = any_model.model("vit")
    with pytest.raises(ValueError, match=f"^{message}"):
        headspec.remove_heads(model, heads)


def test_messages_name_what_was_chosen():
    with pytest.raises(ValueError, match=r"^closed heads: got \(1, 4\), expected \(\.\.\., 2, 4\)$"):
        headspec.HeadGates(any_model.model("vit")).closed(np.zeros((1, 4), dtype=bool))
    with pytest.raises(ValueError, match="^outlined: got layer 2, head 0; the model has layers 0 to 1"):
        headspec.heat_map(np.ones((2, 4)), {2: [0]}, Figure().subplots())


def test_pairs_of_numbers_are_no_mask_of_layers_with_two_heads():
    with pytest.raises(ValueError, match=r"^outlined: got int64 \(2, 2\), expected bool \(2, 2\)"):
        headspec.heat_map(np.ones((2, 2)), [[0, 1], [1, 1]], Figure().subplots())


@pytest.mark.parametrize("kind", ["vit", "t5"])
def test_gates_are_of_the_model_and_the_pass(kind):
    model, batch = any_model.model(kind).eval(), KINDS[kind].batch()
    gates = headspec.HeadGates(model)
    layers, heads = gates.exists.shape
    ones = [[1.0] * heads] * layers
    plain = logits(model, kind)
    for values in (ones, torch.ones(1, layers, heads), np.ones((3, 1, layers, heads), dtype=bool)):
        with gates.at(values):
            assert torch.equal(logits(model, kind), plain)
    for shape in ((heads, layers), (heads,), (2, 3, 4, layers, heads)):
        expected = rf"expected \(\[batch, \[tokens,\]\] {layers}, {heads}\)$"
        with pytest.raises(ValueError, match=f"^gates: got .*, {expected}"), gates.at(np.ones(shape)):
            pass
    for shape, message in {
        (2,): rf"2 examples for 3 sequences; expected 3, or gates \({layers}, {heads}\) for all",
        (4,): "4 examples for 3 sequences",
        (2, 9): "2 examples for 3 sequences",
        (3, 2): "2 tokens for [578] tokens",
    }.items():
        with (
            pytest.raises(ValueError, match=f"^gates: got gates of {message}"),
            gates.at(torch.ones(*shape, layers, heads)),
        ):
            model(**batch)
    assert torch.equal(logits(model, kind), plain)


def test_gates_of_examples_do_not_fit_beams():
    model = any_model.model("pythia").eval()
    gates, ids = headspec.HeadGates(model), any_model.ids(2)
    values = torch.rand(2, *gates.exists.shape)
    settings = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    with gates.at(values), pytest.raises(ValueError, match="2 examples for 6 sequences.* where beams repeat"):
        model.generate(ids, num_beams=3, **settings)
    with gates.at(values.repeat_interleave(3, 0)):
        both = model.generate(ids.repeat_interleave(3, 0), **settings)
    for example in range(2):
        with gates.at(values[example]):
            assert torch.equal(model.generate(ids[[example]], **settings)[0], both[3 * example])


@pytest.mark.parametrize("kind", ["pythia", "gemma2", "t5"])
@torch.no_grad()
def test_gates_of_tokens_are_of_the_tokens_after_a_cache(kind):
    """Also of those whose first keys a sliding window has left."""
    model, ids = any_model.model(kind).eval(), any_model.ids(2)
    gates = headspec.HeadGates(model)
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0,
                "output_logits": True, "return_dict_in_generate": True}  # fmt: skip
    for _ in range(2):
        with gates.at(torch.rand(2, 11, *gates.exists.shape) * 2):
            whole, cached = (model.generate(ids, use_cache=use, **settings) for use in (False, True))
            torch.testing.assert_close(
                torch.stack(cached.logits), torch.stack(whole.logits), rtol=1e-3, atol=1e-4
            )
            assert torch.equal(model.generate(ids, use_cache=True, **settings).sequences, cached.sequences)
    with gates.at(torch.rand(2, 8, *gates.exists.shape)), contextlib.ExitStack() as stack:
        if kind != "t5":
            stack.enter_context(pytest.raises(ValueError, match="^gates: got gates of 8 tokens for 9 tokens"))
        model.generate(ids, use_cache=True, **settings)


def test_blocks_inside_blocks_close_the_heads_of_both():
    model = any_model.model("vit").eval()
    gates = headspec.HeadGates(model)
    with gates.closed({0: [1], 1: [0, 2]}):
        both = logits(model, "vit")
    with gates.closed({0: [1]}):
        one = logits(model, "vit")
        with gates.closed({1: [0, 2]}):
            assert torch.equal(logits(model, "vit"), both)
        assert torch.equal(logits(model, "vit"), one)
        of_examples = np.zeros((3, *gates.exists.shape), dtype=bool)
        of_examples[1, 1, [0, 2]] = True
        with gates.closed(of_examples), gates.closed(np.zeros((3, 1, *gates.exists.shape), dtype=bool)):
            found = logits(model, "vit")
        torch.testing.assert_close(found[1], both[1])
        torch.testing.assert_close(found[[0, 2]], one[[0, 2]])


def test_rows_are_listed_with_their_towers():
    rows = headspec.HeadGates(any_model.model("t5")).rows
    assert rows["row"].tolist() == [*range(6)] and (rows["heads"] == any_model.HEADS).all()
    assert rows["tower"].tolist() == ["encoder"] * 2 + ["decoder"] * 4
    assert rows["kind"].tolist() == ["encoder"] * 2 + ["decoder"] * 2 + ["cross"] * 2
    assert rows["module"][5] == "decoder.block.1.layer.1.EncDecAttention"
    one = headspec.HeadGates(any_model.model("ragged")).rows
    assert one["row"].tolist() == [1] and one["tower"].tolist() == [""]


def test_cross_attention_is_told_by_its_arguments_where_lengths_are_equal():
    """A BART that classifies reads its source as its target, too."""
    config = every_type.config("bart", num_labels=3, eos_token_id=2, pad_token_id=1)
    model = BartForSequenceClassification(config).eval()
    ids = any_model.ids(3)
    ids[:, -1] = 2
    batch = {"input_ids": ids, "labels": torch.tensor([0, 2, 1])}
    gates = headspec.HeadGates(model, {"input_ids": ids})
    assert gates.first_rows == {"encoder": 0, "decoder": 2, "cross": 4}
    assert "encoder_attn" in gates.site(4).name and "self_attn" in gates.site(2).name
    scores, given = (headspec.head_importance(model, [batch], inputs=i) for i in (None, {"input_ids": ids}))
    np.testing.assert_allclose(scores, given, rtol=1e-4)
    assert scores.shape == (6, any_model.HEADS)


def test_a_model_is_told_from_what_holds_one():
    model = any_model.model("vit")
    for other, message in (
        (
            torch.nn.DataParallel(model),
            "DataParallel, expected a model of transformers, such as its .module$",
        ),
        (torch.nn.Linear(2, 2), "Linear, expected a model of transformers$"),
        ("bert-base-uncased", "str, expected a model of transformers$"),
    ):
        for use in (
            headspec.HeadGates,
            lambda other: headspec.head_importance(other, any_model.batches("vit")),
            lambda other: headspec.remove_heads(other, {0: [1]}),
        ):
            with pytest.raises(TypeError, match=f"^model: got {message}"):
                use(other)


def test_gates_of_examples_and_tokens_have_gradients():
    kind = "roberta"
    model, batch = any_model.model(kind).eval(), any_model.classified()
    gates = headspec.HeadGates(model)
    derivatives = headspec.head_importance(model, any_model.batches(kind), per_example=True)
    xi = torch.ones(3, 7, gates.layers, gates.heads, requires_grad=True)
    with gates.at(xi):
        (gradient,) = torch.autograd.grad(3 * model(**batch).loss, xi)
    np.testing.assert_allclose(gradient.sum(1), derivatives, rtol=1e-3, atol=1e-5)
    closed = np.zeros((3, *gates.exists.shape), dtype=bool)
    closed[1] = True
    plain = logits(model, kind)
    with gates.closed(closed):
        changed = (logits(model, kind) - plain).abs().amax(1)
    assert changed[[0, 2]].max() < 1e-5 < changed[1]


def test_the_heat_map_has_scores_and_outlines():
    scores = np.array([[1.0, 0.5, np.nan], [0.0, 2.0, 3.0]])
    axes = headspec.heat_map(scores, headspec.top_heads(scores, 2), Figure().subplots(), "loss")
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array().filled(np.nan), scores)
    assert {patch.get_xy() for patch in axes.patches} == {(0.5, 0.5), (1.5, 0.5)}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("head", "layer")
    assert image.get_clim() == (0, 3) and axes.figure.axes[1].get_ylabel() == "loss"
    assert headspec.heat_map(-scores, axes=Figure().subplots()).images[0].get_clim() == (-3, 3)


def test_each_picture_is_a_new_one_by_default():
    scores = np.arange(8.0).reshape(2, 4)
    curve = headspec.head_curve(
        any_model.model("roberta"), any_model.batches("roberta"), scores=scores, fractions=[0.5], draws=5
    )
    axes = [headspec.heat_map(scores), headspec.plot_curve(curve), headspec.heat_map(scores)]
    assert len({each.figure for each in axes}) == 3
    assert [len(each.images) for each in axes] == [1, 0, 1]
    for each in axes:
        pyplot.close(each.figure)


def test_importing_headspec_loads_no_model():
    code = (
        "import sys, headspec; sys.exit(not sys.modules.keys().isdisjoint(['torch', 'numpy', 'matplotlib']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(headspec.__all__) <= set(dir(headspec))
    assert all(getattr(headspec, name).__name__ == name for name in headspec.__all__)
    with pytest.raises(AttributeError, match="module 'headspec' has no attribute 'head_mask'"):
        _ = headspec.head_mask


REVIEWS = TEXTS[:24]


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder in which the names of models on the page are folders."""
    monkeypatch.chdir(tmp_path)
    make("roberta", tmp_path / "FacebookAI" / "roberta-base")
    make("bert", tmp_path / "distilbert" / "distilbert-base-uncased-finetuned-sst-2-english")
    pd.DataFrame({"text": REVIEWS, "label": np.arange(len(REVIEWS)) % 2}).to_csv(
        tmp_path / "reviews.csv", index=False
    )
    rng = np.random.default_rng(0)
    rows = matrices.answers(matrices.additive(rng, 3, own=0.5), 60, rng).assign(heads=8)
    matrices.counted(rows).to_csv(tmp_path / "matrix.csv", index=False)
    folder = tmp_path / "EleutherAI" / "pythia-70m"
    folder.mkdir(parents=True)
    qwen(folder)
    size = len(AutoTokenizer.from_pretrained(folder))
    any_model.model("pythia", vocab_size=size, max_position_embeddings=256).save_pretrained(folder)
    return tmp_path


def run(*names_of_pages: str) -> dict:
    names: dict = {}
    for block in (block for page in names_of_pages for block in pages.blocks(ROOT / "docs" / page)):
        if block.language == "python":
            exec(block.text, names)
    return names


def test_the_code_of_the_pages_runs(named, caplog):
    """Rows of files often take turns between classes, or are sorted: both halves have both classes."""
    names = run("code/notebook.md", "methods/decoders.md")
    usual = "headspec.load", "metric: none of"  # a random model writes no stop string
    told = [record.message for record in caplog.records if record.name == "headspec"]
    assert all(any(words in message for words in usual) for message in told)
    assert names["found"]["verdict"].iloc[-1].startswith("double") and len(names["parts"]) == 4
    assert abs(names["curve"].attrs["n"] - len(REVIEWS) / 2) <= 1
    assert names["curve"]["value"].between(names["curve"]["low"], names["curve"]["high"]).all()
    exec(
        next(each.text for each in pages.blocks(ROOT / "README.md") if each.heading == "In a notebook"),
        names | {"headspec": headspec, "evaluate": lambda model: model(**names["batches"][0])},
    )
    assert names["xi"].grad.abs().max() > 0
    assert names["small"].num_parameters() < names["model"].num_parameters()
    np.testing.assert_allclose(names["scores"], np.abs(names["signed"]).mean(0), rtol=1e-4)
    np.testing.assert_allclose(names["exact"], names["single"].mean(0), rtol=1e-4)
    for page, named_there in ("code/notebook.md", ["score", *SCORES]), ("methods/decoders.md", BEHAVIOURS):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert {*re.findall(r"^\| `(\w+)` \|", text, re.M)} == {*named_there}


def test_the_code_of_the_page_on_transformers_4_runs(named):
    names = run("code/from-transformers-4.md")
    assert names["mask"].grad.abs().max() > 0
    assert headspec.HeadGates(names["model"]).exists[0].sum() == names["gates"].heads - 2


def test_transformers_says_what_the_page_on_transformers_4_quotes():
    model = any_model.model("roberta").eval()
    ids, page = any_model.ids(), (ROOT / "docs/code/from-transformers-4.md").read_text(encoding="utf-8")
    with torch.no_grad():
        assert torch.equal(model(ids, head_mask=torch.zeros(2, 4)).logits, model(ids).logits)  # ignored
    for name in ("prune_heads", "get_head_mask"):
        with pytest.raises(AttributeError, match=f"object has no attribute '{name}'"):
            getattr(model, name)
        assert f"object has no attribute '{name}'" in page
    for module, name in (
        ("pytorch_utils", "find_pruneable_heads_and_indices"),
        ("modeling_utils", "apply_chunking_to_forward"),
    ):
        message = f"cannot import name '{name}' from 'transformers.{module}'"
        with pytest.raises(ImportError, match=message):
            exec(f"from transformers.{module} import {name}")
        assert message in page


@pytest.mark.slow
def test_the_example_runs(tmp_path, monkeypatch):
    """Its stored outputs are as many, and of the same kinds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    execute = importlib.import_module("execute")
    stored = json.loads((ROOT / "docs" / "examples" / "heads.ipynb").read_text(encoding="utf-8"))
    notebook = copy.deepcopy(stored)
    names = execute.run(notebook)
    assert names["again"].num_parameters() < names["model"].num_parameters()
    assert names["alone"].num_parameters() < names["vit"].num_parameters()
    kinds = [
        [[output["output_type"] for output in cell.get("outputs", [])] for cell in each["cells"]]
        for each in (notebook, stored)
    ]
    assert kinds[0] == kinds[1] and sum("display_data" in cell for cell in kinds[0]) == 4
