"""Answers that a prompted decoder writes, compared with loops that write one token after another."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.errors import DataError, ModelError, ScoreError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import evaluated
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.language import load_language_model
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import tokenizer
from headspec.prompts.head import prompted
from headspec.tasks.kinds.generation.prompts import Generation
from headspec.tasks.kinds.texts.wording import Wording
from headspec.tasks.metrics import chance, score
from headspec.tasks.registry import kind
from support import language
from support.tiny import CPU

TOKENS, N = 6, 9
PROMPT = "saw {text_a} the"


class Made(NamedTuple):
    joint: MultiTask
    examples: Examples
    frame: pd.DataFrame
    plain: Any
    split: Any


def asked(**keys: Any) -> dict[str, Any]:
    task = Task(source="x", type="generation", prompt=PROMPT, **{"max_new_tokens": TOKENS} | keys)
    return kind(task).asked(task)


def made(name: str, folder, table: pd.DataFrame, most: int = 64, shots: int = 0, **keys: Any) -> Made:
    path = folder / name
    if not path.exists():
        language.make(name, path)
    settings = Model(source=str(path), max_length=most)
    split, wording = tokenizer(settings, "models.m"), Wording(PROMPT, (), asked=asked(**keys))
    shown, table = table.head(shots), table.iloc[shots:].reset_index(drop=True)
    prompts = Generation(split, Generation.showing(wording, shown, []), most, "tasks.t")
    frame, _ = prompts.encode(table, [])
    classes = {"t": prompts.classes([], "generation")}
    joint = prompted(load_language_model(path, "m"), {"t": prompts.answers([])}, classes, "m", split)
    joint.save(folder / "saved", encoders.reference(settings, "models.m"))
    return Made(
        MultiTask.load(folder / "saved"), Examples.for_task(frame, classes["t"]), frame,
        AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path),
    )  # fmt: skip


def table(answers: list[str]) -> pd.DataFrame:
    return language.table(len(answers)).assign(label=answers)


@torch.no_grad()
def written(model: Any, split: Any, ids: list[int], tokens: int = TOKENS) -> str:
    """The most likely continuation, by whole passes without a cache or padding."""
    new: list[int] = []
    while len(new) < tokens:
        token = int(model(input_ids=torch.tensor([ids + new])).logits[0, -1].argmax())
        if token == model.generation_config.eos_token_id:
            break
        new.append(token)
    return split.decode(new, skip_special_tokens=True)


def masks(exists: np.ndarray) -> list[Mask]:
    some = np.random.default_rng(0).random(exists.shape) < 0.3
    return [Mask("none", None, 0.0, None, exists & False), Mask("t", "top", 0.3, None, exists & some)]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_answers_are_those_written_alone_with_the_same_heads_closed(name, tmp_path):
    """In batches with padding; a third of the references is what the whole model writes."""
    first = made(name, tmp_path, table(["the house"] * 3 + ["lovely"] * (N - 3)))
    ids = [list(row) for row in first.frame["input_ids"]]
    starts = [sum(np.array(row) == -1) + 1 for row in first.frame["targets"]]
    prompts = [row[:start] for row, start in zip(ids, starts, strict=True)]
    whole = [written(first.plain, first.split, prompt) for prompt in prompts]
    answers = [text.strip() if i % 3 == 0 else "lovely house" for i, text in enumerate(whole)]
    again = made(name, tmp_path, table(answers))
    closing = masks(again.joint.gates.exists)
    found = evaluated(again.joint, {"t": again.examples}, closing, CPU)["t"]
    assert found.texts is not None and found.texts[0].tolist() == whole
    with headspec.HeadGates(again.plain).closed(closing[1].closed):
        assert found.texts[1].tolist() == [written(again.plain, again.split, ids) for ids in prompts] != whole
    same = [text.strip() == answer for text, answer in zip(whole, answers, strict=True)]
    assert found.values[0, :, 0].tolist() == same
    assert score("generated_exact_match", again.examples.label, found.values[0]) == np.mean(same)
    means = evaluated(again.joint, {"t": again.examples}, closing, CPU, ablation="mean")["t"]
    assert means.texts is not None and means.texts[0].tolist() == whole
    assert name == "gpt2" or whole != means.texts[1].tolist()  # this one repeats itself


def test_samples_are_measurements_of_one_example(tmp_path):
    """Its value is their mean; the last one is their variance."""
    answers = ["the house"] * 5 + ["lovely"] * 4

    def found(**asked: Any) -> tuple[MultiTask, Any]:
        one = made("llama", tmp_path, table(answers), max_new_tokens=1, **asked)
        return one, evaluated(one.joint, {"t": one.examples}, masks(one.joint.gates.exists), CPU)["t"]

    one, drawn = found(temperature=1.0, samples=4, metrics=["generated_f1", "generated_variance"])
    head = one.joint.classifier("t")
    texts = np.array(head.written[: 4 * N])[:, 1].reshape(4, N)  # without heads closed
    assert (texts[0] != texts[1]).any()
    order = [example for example, _ in head.written[:N]]
    for place, example in enumerate(order):
        scores = [float(head.scorer.values(text, answers[example])[1]) for text in texts[:, place]]
        assert drawn.values[0, example, 1] == pytest.approx(np.mean(scores))
        assert drawn.values[0, example, -1] == pytest.approx(np.var(scores, ddof=1))
    metric = score("generated_variance", one.examples.label, drawn.values[0])
    assert metric == pytest.approx(drawn.values[0, :, -1].mean()) and one.examples.label[:, -1].max() == 0
    _, again = found(temperature=1.0, samples=4, metrics=["generated_f1"])
    np.testing.assert_array_equal(again.values, drawn.values)
    one.joint.classifier("t").asked["seed"] = 1
    other = evaluated(one.joint, {"t": one.examples}, masks(one.joint.gates.exists), CPU)["t"]
    assert (other.texts != drawn.texts).any()
    _, cold = found(temperature=1e-4, samples=2)
    _, greedy = found()
    assert (cold.texts == greedy.texts).all() and cold.values[..., -1].max() == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"samples": 3}, "tasks.t.temperature: got 0, expected a value above 0, so that tasks.t.samples"),
        (
            {"temperature": 1, "metrics": ["generated_f1", "generated_variance"]},
            "tasks.t.samples: got 1, ",
        ),
    ],
)
def test_samples_that_cannot_differ_are_refused(keys, message):
    task = Task(source="x", type="generation", prompt=PROMPT, **keys)
    (problem,) = kind(task).problems("tasks.t", task)
    assert problem.startswith(message)


def test_stop_strings_end_texts_and_are_missed_if_they_never_come(tmp_path, caplog):
    answers = ["the old house"] * 5 + ["lovely"] * 4
    one = made("llama", tmp_path, table(answers), stop=["<end>"])
    closing = masks(one.joint.gates.exists)
    whole = evaluated(one.joint, {"t": one.examples}, closing, CPU)["t"].texts
    assert whole is not None
    assert f"tasks.t.stop: none of {2 * N} texts has '<end>'; they end by the model's own end" in caplog.text
    word = whole[0][0].split()[1]
    caplog.clear()
    two = made("llama", tmp_path, table(answers), stop=[word])
    cut = evaluated(two.joint, {"t": two.examples}, closing, CPU)["t"].texts
    assert cut is not None and cut[0].tolist() == [text.split(word)[0] for text in whole[0]]
    assert "tasks.t.stop" not in caplog.text


def test_the_loss_is_that_of_the_reference_answer(tmp_path):
    answers = ["the old house", "lovely", "a"] * 3
    one = made("llama", tmp_path, table(answers), shots=2)
    gates, rows = headspec.HeadGates(one.plain), np.arange(len(one.examples))
    gradients = gate_gradients(one.joint, "t", one.examples, rows, CPU)
    for row, (ids, targets) in enumerate(zip(one.frame["input_ids"], one.frame["targets"], strict=True)):
        own = [token for token in targets if token != -1]
        pieces = one.split.convert_ids_to_tokens([*ids, own[-1]])
        text = "".join(pieces).replace("Ġ", " ").replace("Ċ", "\n")
        assert text.endswith(f"the {answers[row + 2]}") and "\n\n" in text  # after two demonstrations
        values = torch.ones(1, *gates.exists.shape, requires_grad=True)
        with gates.at(values):
            logits = one.plain(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            loss = -sum(logits[i, token] for i, token in enumerate(targets) if token != -1) / len(own)
            (expected,) = torch.autograd.grad(loss, values)
        np.testing.assert_allclose(gradients[row], expected[0], rtol=1e-3, atol=1e-5)


def test_chance_is_the_best_constant_answer(tmp_path):
    one = made("llama", tmp_path, table(["the old house"] * 5 + ["lovely"] * 4))
    label = one.examples.label
    assert chance("generated_exact_match", label) == 5 / 9
    assert chance("generated_f1", label) == 5 / 9 and chance("generated_number", label) == 0


def test_prompts_leave_room_for_answers(tmp_path):
    one = made("llama", tmp_path, table(["the old house"] * 5 + ["lovely"] * 4), most=TOKENS + 6)
    starts = [sum(np.array(row) == -1) + 1 for row in one.frame["targets"]]
    assert max(starts) == 6
    with pytest.raises(ModelError, match=r"tasks\.t\.prompt: .* expected fewer than 2"):
        made("llama", tmp_path, table(["a", "the"]), most=TOKENS + 2)


def test_a_number_that_a_metric_needs_is_missed_before_anything_is_written(tmp_path):
    with pytest.raises(DataError, match="generated_number, but the answer of example 1, 'two', has no num"):
        made("llama", tmp_path, table(["1", "two"]), metrics=["generated_number"])


def test_texts_are_kept_if_a_score_fails(tmp_path, monkeypatch):
    (tmp_path / "judging.py").write_text(
        "def judge(text, answer):\n"
        "    assert text.strip() in ('', 'lovely', 'the old house'), 'unexpected'\n"
        "    return 2.0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    one = made("llama", tmp_path, table(["the old house"] * 5 + ["lovely"] * 4))
    head = one.joint.classifier("t")
    head.scorer.reference = "judging:judge"
    with pytest.raises(
        ScoreError, match=r"tasks\.t\.score: judging:judge raised AssertionError: unex"
    ) as told:
        evaluated(one.joint, {"t": one.examples}, masks(one.joint.gates.exists), CPU)
    assert "of example " in str(told.value)
    assert len(told.value.texts) == 2 * N and {i for i, _ in told.value.texts} == {*range(N)}


def test_joint_knockouts_are_of_the_main_score(tmp_path):
    texts = ["the old house"] * 5 + ["lovely"] * 4
    one = made("llama", tmp_path, table(texts), metrics=["generated_contains", "generated_f1"])
    head, batch = one.joint.classifier("t"), one.examples.batch(np.arange(N))
    head.scorer.values = lambda text, *_: [0.0, 0.0, float(len(text)), 0.0, 0.0]
    with one.joint.gates.closed({0: [1]}):
        found = head.answer(one.joint, batch).texts
        assert head.costs(one.joint, batch).tolist() == [-len(text) for text in found]
