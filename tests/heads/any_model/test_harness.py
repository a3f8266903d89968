"""Tasks of lm-evaluation-harness, from files, against log-likelihoods of the same models."""

import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.errors import MissingError
from headspec.heads.any_model import harness
from support import language
from support.models import TEXTS

CHOICES = ["one", "house"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    path = language.make("llama", folder / "m")
    rows = [{"text": text, "answer": i % 2} for i, text in enumerate(TEXTS[:12])]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = {
        "task": "mine", "dataset_path": "json", "test_split": "test", "output_type": "multiple_choice",
        "dataset_kwargs": {"data_files": {"test": str(folder / "test.jsonl")}},
        "doc_to_text": "{{text}}", "doc_to_target": "answer", "doc_to_choice": CHOICES,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    return AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path), task


@torch.no_grad()
def right(model, tokenizer) -> list[bool]:
    """Whether the more likely choice is the answer, one text after another."""
    found = []
    for number, text in enumerate(TEXTS[:12]):
        likelihoods = []
        for choice in CHOICES:
            before = tokenizer(text)["input_ids"]
            ids = tokenizer(f"{text} {choice}")["input_ids"]
            logits = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            likelihoods.append(sum(float(logits[i - 1, ids[i]]) for i in range(len(before), len(ids))))
        found.append(int(np.argmax(likelihoods)) == number % 2)
    return found


@pytest.mark.needs("lm_eval")
def test_tasks_are_evaluated_without_heads_and_without_random_ones(made, monkeypatch):
    """The harness reads its list of tasks once for all sets."""
    model, tokenizer, task = made
    index, read = import_module("lm_eval.tasks").TaskManager, []
    begin = index.__init__
    monkeypatch.setattr(index, "__init__", lambda self, **given: read.append(begin(self, **given)))
    lm = import_module("lm_eval.models.huggingface").HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4)
    heads = {1: [0, 2, 3], 2: [1]}
    table = headspec.evaluate(lm, [task], heads, draws=3).set_index("order")
    assert list(table.index) == ["none", "closed", "random", "same_layers"] and len(read) == 1
    assert (
        list(table["heads"]) == [0, 4, 4, 4]
        and {*table["task"]} == {"mine"}
        and {*table["metric"]} == {"acc"}
    )
    whole = right(model, tokenizer)
    with headspec.HeadGates(model).closed(heads):
        without = right(model, tokenizer)
    assert table["value"]["none"] == np.mean(whole) and table["value"]["closed"] == np.mean(without)
    assert table["se"]["none"] == pytest.approx(pd.Series(whole).sem())
    assert whole != without
    random = table.loc["random"]
    assert random.low <= random.value <= random.high and random.p in (0.25, 0.5, 0.75, 1)
    assert right(model, tokenizer) == whole  # afterwards the model is as before
    with pytest.raises(ValueError, match="^heads: got none"):
        headspec.evaluate(lm, [task], {})
    with pytest.raises(TypeError, match="^lm: got dict, expected lm_eval"):
        headspec.evaluate({}, [task], heads)


@pytest.mark.thorough
@pytest.mark.needs("lm_eval")
def test_batches_that_do_not_fit_are_halved(made):
    model, tokenizer, task = made
    hflm, sizes = import_module("lm_eval.models.huggingface").HFLM, []
    heads = {1: [0, 2, 3], 2: [1]}
    settings = {
        "draws": 2,
        "task_manager": import_module("lm_eval.tasks").TaskManager(include_defaults=False),
    }
    whole = hflm(pretrained=model, tokenizer=tokenizer, batch_size=8)
    expected = headspec.evaluate(whole, [task], heads, **settings)

    def limited(module, args, kwargs):
        sizes.append(len(args[0] if args else kwargs["input_ids"]))
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    lm = hflm(pretrained=model, tokenizer=tokenizer, batch_size=8)
    handle = model.register_forward_pre_hook(limited, with_kwargs=True)
    try:
        found = headspec.evaluate(lm, [task], heads, **settings)
    finally:
        handle.remove()
    pd.testing.assert_frame_equal(found, expected)
    assert max(sizes) == 8 and lm.batch_size == 2


def test_random_sets_that_are_no_better_count():
    def found(value, error=0.1, higher=True):
        return {("t", "acc"): harness.Found(value, error, higher)}

    draws = [found(value) for value in (0.2, 0.5, 0.7)]
    table = harness._table({"none": [found(0.8)], "closed": [found(0.4)], "random": draws}, 3)
    row = table.set_index("order").loc["random"]
    assert (row.low, row.high, row.p) == (0.2, 0.7, 0.5) and row.value == pytest.approx(1.4 / 3)
    assert row.se == pytest.approx(np.sqrt(0.01 + np.var([0.2, 0.5, 0.7], ddof=1) / 3))
    lower = [found(value, higher=False) for value in (0.2, 0.5, 0.7)]
    table = harness._table({"none": [found(0.8)], "closed": [found(0.4, higher=False)], "random": lower}, 3)
    assert table["p"].iloc[-1] == 0.75


def test_metrics_have_names_errors_and_directions():
    results = {
        "results": {"t": {"alias": "t", "sample_len": 9, "acc,none": 0.5, "acc_stderr,none": 0.1,
                          "exact_match,strict": 0.25, "exact_match_stderr,strict": "N/A",
                          "word_perplexity,none": 9.0}},
        "higher_is_better": {"t": {"acc": True, "exact_match": True, "word_perplexity": False}},
    }  # fmt: skip
    found = harness._metrics(results)
    assert found["t", "acc"] == (0.5, 0.1, True)
    assert found["t", "exact_match,strict"][0] == 0.25 and np.isnan(found["t", "exact_match,strict"].error)
    assert not found["t", "word_perplexity"].higher and len(found) == 3


def test_without_the_harness_a_sentence_says_how_to_install_it(made, monkeypatch):
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    with pytest.raises(
        MissingError, match="^evaluate: lm-evaluation-harness is missing; `pip install lm_eval`"
    ):
        headspec.evaluate(made[0], ["arc_easy"], {1: [0]})
