"""Extractive questions: reading, windows, spans and the metrics of SQuAD's script."""

import json
import random
import re
import string
import unicodedata

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.atlas.ablation import ABLATION, MEAN_ABLATION, ablate
from headspec.config.sections.task import Task
from headspec.data import quality, splits
from headspec.data.prepare import prepare
from headspec.errors import DataError
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.tasks import metrics
from headspec.tasks.kinds.answer import data, encoding, head
from headspec.tasks.kinds.answer import metrics as agreement
from support.running.studies import FILLER, HEADS, LAYERS, bert, tokenizer
from support.tiny import CPU

CONTEXT = "The Denver Broncos beat the Carolina Panthers. The Broncos won in Denver."


# --- metrics


def by_the_script(prediction: str, golds: list[str]) -> tuple[float, float]:
    """F1 and exact match as the script of SQuAD 2.0 describes them, in other words."""

    def words(text: str) -> list[str]:
        kept = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(?:the|an|a)\b", " ", kept).split()

    scores = []
    for gold in [gold for gold in golds if words(gold)] or [""]:
        a, b = words(prediction), words(gold)
        same = sum(min(a.count(word), b.count(word)) for word in {*a})
        precision, recall = same / max(len(a), 1), same / max(len(b), 1)
        f1 = 2 * precision * recall / (precision + recall) if same else float(a == b)
        scores.append((f1, float(a == b)))
    return max(f1 for f1, _ in scores), max(exact for _, exact in scores)


@pytest.mark.parametrize(
    ("prediction", "golds", "f1", "exact"),
    [
        ("   Rock    n  Roll.", ["rock n roll"], 1, 1),
        ("rock", ["rock n roll"], 0.5, 0),
        ("the Broncos!", ["Broncos", "Denver Broncos"], 1, 1),
        ("Denver", ["Carolina", "Denver Broncos"], 2 / 3, 0),
        ("", [], 1, 1),
        ("", ["Denver"], 0, 0),
        ("Denver", [], 0, 0),
        ("The", [], 1, 1),  # what is left of it is nothing
        ("anthem", ["them"], 0, 0),  # articles are words
        ("U.S.", ["us"], 1, 1),
        ("a a b", ["a b b"], 2 / 3, 0),  # articles aside, b against b b
    ],
)
def test_answers_are_compared_as_by_the_script(prediction, golds, f1, exact):
    assert agreement.agreement(prediction, golds) == pytest.approx((f1, exact))
    assert by_the_script(prediction, golds) == pytest.approx((f1, exact))


def test_random_answers_are_compared_as_by_the_script():
    rng = random.Random(0)
    words = ["the", "a", "An", "Denver", "denver", "U.S.", "won-in", "'s", "–", "1,000", "«Müller»", "  "]
    for _ in range(2000):
        texts = [" ".join(rng.choices(words, k=rng.randrange(6))) for _ in range(4)]
        golds = texts[1 : 1 + rng.randrange(4)]
        assert agreement.agreement(texts[0], golds) == pytest.approx(by_the_script(texts[0], golds))


def by_the_script_of_mlqa(prediction: str, golds: list[str]) -> tuple[float, float]:
    """F1 and exact match of Chinese as mlqa_evaluation_v1.py describes them, in other words."""

    def segments(text: str) -> list[str]:
        kept = (c for c in text.lower() if unicodedata.category(c)[0] != "P" and c not in string.punctuation)
        return re.sub("([\u4e00-\u9fa5])", r" \1 ", "".join(kept)).split()

    scores = []
    for gold in golds:
        a, b = segments(prediction), segments(gold)
        same = sum(min(a.count(each), b.count(each)) for each in {*a})
        precision, recall = same / max(len(a), 1), same / max(len(b), 1)
        scores.append((2 * precision * recall / (precision + recall) if same else 0.0, float(a == b)))
    return max(f1 for f1, _ in scores), max(exact for _, exact in scores)


def test_random_answers_in_chinese_are_compared_as_by_the_script_of_mlqa():
    rng = random.Random(0)
    words = ["北京", "市", "上海。", "“京", "」", "The", "a-b", "ABC公司", "12，3", " ", "、", "~"]
    split = agreement.split_for("河流从北京市流向上海，a river")
    for _ in range(2000):
        texts = [" ".join(rng.choices(words, k=rng.randrange(1, 6))) for _ in range(4)]
        golds = [text for text in texts[1 : 2 + rng.randrange(3)] if split(text)]
        if golds and split(texts[0]):
            scores = agreement.agreement(texts[0], golds, split)
            assert scores == pytest.approx(by_the_script_of_mlqa(texts[0], golds))


@pytest.mark.parametrize(
    ("context", "prediction", "gold", "f1", "exact"),
    [
        # by cmrc2018_evaluate.py, too: the longest common part has 2 of 3 and 2 of 2 characters
        ("第3条河流从北京市流向上海。", "北京市", "北京", 0.8, 0),
        ("第3条河流从北京市流向上海。", "北京。", "北京", 1, 1),
        ("第3条河流从北京市流向上海。", "《北京》 ", "北京", 1, 1),
        ("第3条河流从北京市流向上海。", "上海", "北京", 0, 0),
        ("第3条河流从北京市流向上海。", "。", "北京", 0, 0),
        ("iPhone 12 由苹果公司发布。", "iphone 12", "iPhone 12 。", 1, 1),
        ("利根川は群馬県のコーヒーです。", "コーヒー", "コーヒーです", 0.8, 0),
        ("佐々木さんは、東京に住む。", "佐々木", "佐々", 0.8, 0),
        ("แม่น้ำไหลจากเชียงใหม่ไปกรุงเทพ", "เชียงใหม่", "เชียง", 2 * 4 / (7 + 4), 0),
        ("ទន្លេហូរពីភ្នំពេញទៅសមុទ្រ។", "ភ្នំពេញ", "ភ្នំ", 2 * 2 / (4 + 2), 0),
        # words have spaces
        ("한강은 서울을 지난다.", "서울을", "서울", 0, 0),
        ("नदी दिल्ली शहर से बहती है।", "दिल्ली शहर", "दिल्ली", 2 / 3, 0),
        ("The city of 北京 is the capital.", "city 北京", "北京", 2 / 3, 0),
    ],
)
def test_answers_without_spaces_are_compared_by_characters(context, prediction, gold, f1, exact):
    found = agreement.agreement(prediction, [gold], agreement.split_for(context))
    assert found == pytest.approx((f1, exact))


@pytest.mark.parametrize(
    ("context", "golds", "chance"),
    [
        (CONTEXT, [], 1),
        (CONTEXT, ["The"], 1),
        (CONTEXT, ["The", "Denver"], 0),
        (CONTEXT, ["Denver"], 0),
        ("从北京市流向上海。", ["。"], 1),
        ("从The北京市流向上海。", ["The"], 0),
    ],
)
def test_chance_is_the_score_of_no_answer(context, golds, chance):
    """Of a gold answer such as "The", nothing is compared."""
    places = [(gold, context.index(gold)) for gold in golds]
    row = {"example": 0, "text_a": "near our old", "text_b": context, "label": json.dumps(places)}
    frame, _ = encoding.ENCODING.encode(tokenizer(), pd.DataFrame([row]), 64, CLASSES)
    labels = np.stack(frame["label_values"])
    assert labels.tolist() == [[chance]]
    score = agreement.agreement("", golds, agreement.split_for(context))
    assert score == (chance, chance)
    for metric in ("answer_f1", "answer_exact_match"):
        assert metrics.chance(metric, labels) == metrics.score(metric, labels, [score]) == chance


# --- reading


LISTS = {"text": ["Denver Broncos", "Denver"], "answer_start": [4, 66]}
DICTS = [{"text": "Denver Broncos", "answer_start": 4}, {"answer_start": 66, "text": "Denver"}]
ARRAYS = {"text": np.array(LISTS["text"], object), "answer_start": np.array([4, 66])}
NUMBERS = [{"text": np.str_(each["text"]), "answer_start": np.int32(each["answer_start"])} for each in DICTS]
NONE = {"text": np.array([], object), "answer_start": np.array([], np.int32)}
BOTH = [("Denver Broncos", 4), ("Denver", 66)]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        *((cell, BOTH) for cell in (LISTS, DICTS, ARRAYS)),
        *((write(cell), BOTH) for write in (json.dumps, repr) for cell in (LISTS, DICTS)),
        *(
            (write(cell), BOTH)
            for write in (str, repr)
            for cell in (ARRAYS, np.array(DICTS), np.array(NUMBERS))
        ),
        *((write(cell), BOTH[:1]) for write in (list, repr, json.dumps) for cell in ([DICTS[0]],)),
        *((write(DICTS[0]), BOTH[:1]) for write in (dict, repr, json.dumps)),
        *(
            ([{"text": "Denver", "answer_start": start}], BOTH[1:])
            for start in (66.0, "66", "66.0", np.int8(66))
        ),
        *((cell, []) for cell in ([], "[]", {"text": [], "answer_start": []}, np.array([]))),
        *((write(NONE), []) for write in (str, repr)),
    ],
)
def test_answers_are_read_in_every_form(cell, expected):
    assert data.stated(cell) == expected
    assert [data.placed(*answer, CONTEXT) for answer in expected] == expected


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ([{"text": " ", "answer_start": 3}], "an empty answer"),
        ([{"text": "Denver"}], "expected text and answer_start"),
        ({"text": ["Denver"], "answer_start": []}, "1 texts of answers and 0 places"),
        ([{"text": 7, "answer_start": 4}], "has 7, expected the text"),
        *(([{"text": "Denver", "answer_start": start}], f"has {start!r} as answer_start, expected a whole")
            for start in (4.5, True, "four", np.nan)),
        ("Denver", "has 'Denver', expected answers as JSON"),
        ("{'text': array(['a', ..., 'z']), 'answer_start': array([0, ..., 9])}", "expected answers as JSON"),
        (None, "has nothing, expected a list"),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused(cell, said):
    with pytest.raises(ValueError, match=said):
        data.stated(cell)


COMPOSED, DECOMPOSED = "Évry, à Sète, naïf", unicodedata.normalize("NFD", "Évry, à Sète, naïf")


@pytest.mark.parametrize(
    ("text", "start", "context", "expected"),
    [
        *(("Denver", start, CONTEXT, ("Denver", 4)) for start in range(2, 7)),
        ("Denver", 68, CONTEXT, ("Denver", 66)),
        ("in Denver", 63, CONTEXT, ("in Denver", 63)),
        ("in\u00a0Denver", 63, CONTEXT, ("in Denver", 63)),
        ("aa", 3, "aaaaaaaa", ("aa", 3)),
        ("ab", 3, "abababab", ("ab", 2)),  # the nearest, and of two the first
        # composed otherwise than its context, and counted in either form
        ("Sète", 8, DECOMPOSED, ("Se\u0300te", 10)),
        ("Se\u0300te", 10, DECOMPOSED, ("Se\u0300te", 10)),
        ("Se\u0300te", 10, COMPOSED, ("Sète", 8)),
        ("naïf", 14, DECOMPOSED, ("nai\u0308f", 17)),
        ("각", 1, unicodedata.normalize("NFD", "각각"), (unicodedata.normalize("NFD", "각"), 3)),
    ],
)
def test_an_answer_is_found_near_its_place_however_it_is_composed(text, start, context, expected):
    assert data.placed(text, start, context) == expected
    assert context.startswith(*expected)


@pytest.mark.parametrize(
    ("text", "start", "said"),
    [
        ("Denver", 7, "'Denver' is not at character 7 of the context, but at 4"),
        ("Denver", 60, "not at character 60 of the context, but at 66"),
        ("Boston", 4, "'Boston' is not at character 4 .*, nor anywhere else"),
        ("Denver", -1, "not at character -1 of the context, but at 4"),
        ("denver", 4, "nor anywhere else"),
    ],
)
def test_an_answer_elsewhere_is_refused(text, start, said):
    with pytest.raises(ValueError, match=said):
        data.placed(text, start, CONTEXT)


def questions(moved: int, rows: int) -> pd.DataFrame:
    starts = [4 + (i < moved) for i in range(rows)]
    cells = [[{"text": "Denver Broncos", "answer_start": start}] for start in starts]
    return pd.DataFrame(
        {"question": [f"Who {i}?" for i in range(rows)], "context": CONTEXT, "answers": cells}
    )


def test_moved_answers_are_counted_and_refused_where_they_are_many():
    task = Task(source="x", type="answer")
    rows = data.DATA.rows(questions(4, 100), task, "tasks.t", "train.csv")
    assert {*rows["label"]} == {'[["Denver Broncos", 4]]'}
    found = quality.summary(rows, splits.normalised(rows), data.DATA)
    said = (
        "4 of 100 training rows have an answer that is up to 2 characters from its answer_start, or composed"
    )
    assert [line for line in quality.task_warnings("t", {"train": found}) if said in line]
    right = data.DATA.rows(questions(0, 9), task, "tasks.t", "train.csv")
    found = quality.summary(right, splits.normalised(right), data.DATA)
    assert not [*quality.task_warnings("t", {"train": found})]
    with pytest.raises(
        DataError, match=r"^tasks.t.label: 5 of 100 rows of train.csv have .* in row 1"
    ) as error:
        data.DATA.rows(questions(5, 100), task, "tasks.t", "train.csv")
    assert "'Denver Broncos' at 5 in row 1, where the context has 'Denver Broncos' at 4" in str(error.value)


def test_answers_that_are_longer_than_predictions_are_counted():
    long = " ".join(map(str, range(31)))
    answers = [[(long, 0)], [(long[:-3], 0)], [(long, 0), ("0", 0)], []]
    rows = pd.DataFrame(
        {"text_a": "Who?", "text_b": long, "label": [*map(json.dumps, answers)], "moved": False}
    )
    found = quality.summary(rows, splits.normalised(rows), data.DATA)
    said = (
        "tasks.t: 1 of 4 training rows have gold answers of more than 30 words, and predictions have at most"
    )
    assert [line for line in quality.task_warnings("t", {"train": found}) if line.startswith(said)]


def test_whether_a_question_may_have_no_answer_follows_from_training(tmp_path):
    """From a document as published."""
    right = [{"text": "Denver", "answer_start": 66}]
    for none in ([], [[]]):
        paragraphs = [
            {"context": f"{CONTEXT} {i}", "qas": [{"question": f"Who {i}?", "answers": answers}]}
            for i, answers in enumerate([right] * 20 + none)
        ]
        (tmp_path / "train-v2.0.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        task = Task(source=str(tmp_path), train_split="train-v2.0", type="answer")
        prepared = prepare("q", task, 0)
        assert prepared.classes == {"type": "answer", "unanswerable": bool(none)}
        rows = pd.concat([prepared.train, prepared.validation])
        assert {*rows["label"]} == {'[["Denver", 66]]'} | ({"[]"} if none else set())
        assert rows["text_b"].str.startswith(CONTEXT).all() and rows["text_a"].str.match("Who ").all()


# --- windows


def pair(question: int = 3) -> encoding.Pair:
    """[CLS] question [SEP] context [SEP], with 20 tokens of two characters in the context."""
    none = np.full((question + 2, 2), encoding.NONE)
    offsets = np.concatenate([none, np.arange(20)[:, None] * 2 + [0, 2], none[:1]])
    return encoding.Pair([*range(100, 102 + question), *range(20), 99], [], offsets)


@pytest.mark.parametrize("most", [12, 16, 17, 20, 25])
def test_windows_have_the_whole_question_and_all_of_the_context(most):
    whole = pair()
    cut = encoding.windows(whole, most)
    contexts = [window.ids[window.context] for window in cut]
    assert {*range(20)} == {token for part in contexts for token in part}
    for window, part in zip(cut, contexts, strict=True):
        assert len(window.ids) == most
        assert window.ids[:5] == whole.ids[:5] and window.ids[-1] == 99
        assert (window.offsets[window.context, 0] == np.array(part) * 2).all()
    room = most - 6
    for before, after in zip(contexts, contexts[1:], strict=False):
        assert len({*before} & {*after}) >= int(room * encoding.OVERLAP)
    assert encoding.windows(whole, 26) == [whole]
    with pytest.raises(ValueError, match="question has 13 tokens, .* at most 12 of max_length 16"):
        encoding.windows(pair(question=10), 16)


def test_an_answer_is_read_where_most_of_it_stands_in_the_middle():
    cut = encoding.windows(pair(), 14)  # eight tokens of context in each
    for first in range(20):
        i, span = encoding.learnt_window(cut, 2 * first, 2 * first + 2)
        window = cut[i]
        assert span[0] == span[1] and window.ids[span[0]] == first
        beside = min(span[0] - window.context.start, window.context.stop - 1 - span[1])
        for other in cut:
            if first in (ids := other.ids[other.context]):
                at = ids.index(first)
                assert min(at, len(ids) - 1 - at) <= beside
    i, (first, last) = encoding.learnt_window(cut, 10, 40)  # longer than a window
    assert last - first + 1 == 8
    assert encoding.learnt_window(cut, 7, 7) == (0, (encoding.NONE, encoding.NONE))


# --- spans


def test_the_best_span_is_that_of_all_spans():
    torch.manual_seed(0)
    logits, allowed = torch.randn(30, 50, 2), torch.rand(30, 50) < 0.7
    found = head.best(logits, allowed)
    for row in range(len(logits)):
        spans = {
            (i, j): float(logits[row, i, 0] + logits[row, j, 1])
            for i in range(50)
            for j in range(i, min(50, i + head.LONGEST))
            if allowed[row, i] and allowed[row, j]
        }
        expected = max(spans, key=lambda span: spans[span])
        assert (int(found.first[row]), int(found.last[row])) == expected
        assert float(found.scores[row]) == pytest.approx(spans[expected])
    assert head.best(torch.zeros(1, 4, 2), torch.zeros(1, 4, dtype=torch.bool)).scores.item() == -np.inf


# --- the model


def table() -> pd.DataFrame:
    """Questions on short and long contexts, one in four without an answer."""
    rng, rows = np.random.default_rng(0), []
    for i in range(12):
        words = [str(word) for word in rng.choice(FILLER, 30 if i % 3 == 0 else 5)]
        at = int(rng.integers(len(words)))
        label = [] if i % 4 == 3 else [(words[at], sum(len(word) + 1 for word in words[:at]))]
        rows.append((i, "near our old", " ".join(words), json.dumps(label)))
    return pd.DataFrame(rows, columns=["example", "text_a", "text_b", "label"])


CLASSES = {"type": "answer", "unanswerable": True}


@pytest.fixture
def model() -> MultiTask:
    torch.manual_seed(1)
    built = MultiTask(bert(), "first", {"q": CLASSES}).eval()
    torch.nn.init.normal_(built.classifier("q").ends.weight)
    for layer in built.encoder.encoder.layer:  # so that each head alone changes answers
        layer.attention.output.dense.weight.data *= 10
    return built


@pytest.fixture
def examples() -> Examples:
    frame, truncated = encoding.ENCODING.encode(tokenizer(), table(), 16, CLASSES)
    assert truncated == 0
    return Examples.for_task(frame, CLASSES)


def logits(model: MultiTask, window: encoding.Pair) -> torch.Tensor:
    """(tokens, 2) of a window alone."""
    inputs = {"input_ids": torch.tensor([window.ids]), "token_type_ids": torch.tensor([window.kinds])}
    with torch.no_grad():
        return model.classifier("q").ends(model.encoder(**inputs).last_hidden_state)[0]


def test_the_loss_is_that_of_the_window_with_the_answer(model, examples):
    rows = np.arange(len(examples))
    batch = examples.batch(rows)
    with torch.no_grad():
        losses = model.losses("q", model.pool(batch), batch.labels)
    for row, question in zip(rows, examples.gold.columns["questions"], strict=True):
        window, found = question.windows[0], logits(model, question.windows[0])
        span = (0, 0) if question.span[0] == encoding.NONE else question.span
        if question.golds:
            (start, _), (_, stop) = window.offsets[span[0]], window.offsets[span[1]]
            assert question.context[start:stop] == question.golds[0]
        places = [0, *range(len(window.ids))[window.context]]
        ends = [-(found[place, end] - found[places, end].logsumexp(0)) for end, place in enumerate(span)]
        assert float(losses[row]) == pytest.approx(float(sum(ends) / 2), abs=1e-5)


def predicted(model: MultiTask, question: head.Question) -> str:
    """The best span of all windows, each read alone."""
    best, text, none = -np.inf, "", np.inf
    for window in question.windows:
        found = logits(model, window)
        none = min(none, float(found[0].sum()))
        places = range(len(window.ids))[window.context]
        for i in places:
            for j in places[places.index(i) : places.index(i) + head.LONGEST]:
                if (score := float(found[i, 0] + found[j, 1])) > best + 1e-6:
                    best, text = score, question.context[window.offsets[i][0] : window.offsets[j][1]]
    return "" if none > best else text


def test_the_answer_is_the_best_of_all_windows(model, examples):
    assert {1} < {len(question.windows) for question in examples.gold.columns["questions"]}
    none = Mask("none", None, 0.0, None, np.zeros((LAYERS, HEADS), dtype=bool))
    found = under_masks(model, "q", examples, np.arange(len(examples)), [none], CPU)
    questions = examples.gold.columns["questions"]
    expected = [predicted(model, question) for question in questions]
    assert found.texts[0].tolist() == expected
    scores = [
        agreement.agreement(text, question.golds) for text, question in zip(expected, questions, strict=True)
    ]
    assert found.values[0] == pytest.approx(np.array(scores))
    assert len({*expected}) > 4


def test_predictions_without_spaces_are_scored_by_characters(model):
    context, golds = (
        "第三条河流从北京市流向上海",
        ["北京", "河流从北京市", "北京市流向上海", "第三条河流从北京市流向"],
    )
    labels = [json.dumps([(gold, context.index(gold))]) for gold in golds]
    rows = pd.DataFrame({"text_a": "near our old", "text_b": context, "label": labels, "example": range(4)})
    frame, _ = encoding.ENCODING.encode(tokenizer(), rows, 64, CLASSES)
    model.classifier("q").unanswerable = False
    none = Mask("none", None, 0.0, None, np.zeros((LAYERS, HEADS), dtype=bool))
    found = under_masks(model, "q", Examples.for_task(frame, CLASSES), np.arange(4), [none], CPU)
    expected = [by_the_script_of_mlqa(text, [gold]) for text, gold in zip(found.texts[0], golds, strict=True)]
    assert found.values[0] == pytest.approx(np.array(expected))
    assert any(0 < f1 < 1 for f1, _ in expected)


def test_an_ablated_head_is_closed_in_every_window_and_importance_is_of_one(model, examples):
    rows, n = np.arange(len(examples)), LAYERS * HEADS
    found = ablate(model, "q", examples, rows, CPU, (ABLATION, MEAN_ABLATION))
    masks = [
        Mask("q", "top", 0.1, None, closed) for closed in np.eye(n, dtype=bool).reshape(n, LAYERS, HEADS)
    ]
    expected = under_masks(model, "q", examples, rows, masks, CPU).values
    by_head = found.predictions[ABLATION].reshape(len(rows), n, 2)
    assert by_head == pytest.approx(expected.swapaxes(0, 1))
    assert (expected != expected[:1]).any()
    assert not np.array_equal(found.predictions[MEAN_ABLATION], found.predictions[ABLATION])
    gradients = gate_gradients(model, "q", examples, rows, CPU)
    assert gradients.shape == (len(examples), LAYERS, HEADS) and (np.abs(gradients) > 0).any(axis=0).all()
