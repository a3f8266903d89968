"""Metrics of texts are sacrebleu's, also of samples, and go through what all metrics go through."""

import numpy as np
import pandas as pd
import pytest
from sacrebleu.metrics import BLEU, CHRF

from headspec import per_example, tables
from headspec.data.characters import unspaced
from headspec.heads.pruning import EVALUATION
from headspec.tasks.kinds.translation import metrics as counting
from headspec.tasks.kinds.translation.metrics import METRICS, counted
from headspec.tasks.metrics import bootstrap_counts, chance, score

WORDS = ["a", "the", "man", "woman", "dog", "plays", "runs", "in", "on", "street", "park", "red", ";", "."]


def texts(n: int, seed: int, longest: int = 12) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, longest))) for _ in range(n)]


REFERENCES = texts(60, 0)
#: half of the predictions are near their references, some are empty, too short for 4-grams, or the same
PREDICTED = [
    ["", *REFERENCES[1:4], "man", *(r.replace("dog", "cat") for r in REFERENCES[5:30]), *texts(30, 1)],
    texts(60, 2),
    ["the", *texts(59, 3, 4)],
]
SACREBLEU = {"bleu": BLEU(), "chrf": CHRF()}


def expected(metric: str, predicted: list[str], weights: np.ndarray) -> float:
    """The metric of a sample, by repeating its texts."""
    repeated = [np.repeat(np.array(of, dtype=object), weights).tolist() for of in (predicted, REFERENCES)]
    if metric == "exact_match":
        return float(np.mean([a.strip() == b.strip() for a, b in zip(*repeated, strict=True)]))
    return SACREBLEU[metric].corpus_score(repeated[0], [repeated[1]]).score / 100


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("predicted", PREDICTED)
def test_scores_are_sacrebleus_in_every_sample(metric, predicted):
    prediction, label = counted(predicted, REFERENCES), counting.labels(REFERENCES)
    weights = bootstrap_counts(60, 20, np.random.default_rng(0))
    weights[0], weights[1] = 1, np.arange(60) == 0
    found = score(metric, label, prediction, weights)
    assert found == pytest.approx([expected(metric, predicted, row) for row in weights], abs=1e-12)
    assert score(metric, label, prediction) == pytest.approx(found[0], abs=1e-15)


def test_identical_texts_score_one_and_nothing_scores_zero():
    label = counting.labels(REFERENCES)
    for metric in METRICS:
        assert score(metric, label, counted(REFERENCES, REFERENCES)) == pytest.approx(1)
        assert score(metric, label, counted([""] * 60, REFERENCES)) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_chance_is_a_constant_prediction(metric):
    constant = counting.constant_prediction(REFERENCES)
    assert constant in REFERENCES
    found = chance(metric, counting.labels(REFERENCES))
    assert found == pytest.approx(expected(metric, [constant] * 60, np.ones(60, dtype=int)))
    assert found > 0


def test_tables_keep_counts_and_texts(tmp_path):
    label, predicted = counting.labels(REFERENCES), counted(PREDICTED[0], REFERENCES)
    frame = pd.DataFrame({"task": "a", "example": np.arange(60, dtype="int32")})
    frame = frame.assign(**per_example.columns("label", label))
    frame = frame.assign(**per_example.columns("prediction", predicted, PREDICTED[0]))
    plain = pd.DataFrame({"task": "b", "example": np.arange(60), "label": 1.0, "prediction": np.arange(60.0)})
    path = tmp_path / "evaluation.parquet"
    tables.write(path, EVALUATION, pd.concat([plain, frame]), {})
    stored, read = pd.read_parquet(path), tables.read(path)
    assert stored["prediction_text"][:60].tolist() == PREDICTED[0]
    assert stored["prediction_text"][60:].isna().all() and stored["label"][:60].isna().all()
    found = per_example.labels_and_predictions(read[read["task"] == "a"])
    assert score("bleu", *found) == pytest.approx(expected("bleu", PREDICTED[0], np.ones(60, dtype=int)))


def test_signatures_name_versions_and_settings():
    found = counting.signatures()
    assert found["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert found["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


@pytest.mark.parametrize(
    ("language", "tokenizer", "text"),
    [
        ("zh", "zh", "这是第{}句话，很短。"),
        ("ja", "ja-mecab", "これは第{}の文です。"),
        ("ko", "ko-mecab", "이것은 {}번째 짧은 문장입니다."),
        ("other", "char", "นี่คือประโยคที่ {} ของเรา"),
    ],
)
def test_languages_without_spaces_have_sacrebleus_tokenizers(language, tokenizer, text):
    references = [text.format(i) for i in range(40)]
    predicted = references[:20] * 2
    assert unspaced(references) == language
    label, counts = counting.labels(references, language), counted(predicted, references, language)
    found = counting.signatures(language)[f"bleu ({language})"].partition("tok:")[2].partition("|")[0]
    assert found == tokenizer or (found == "char" and "mecab" in tokenizer)  # where MeCab is not installed
    for metric, sacrebleu in {"bleu": BLEU(tokenize=found), "chrf": CHRF()}.items():
        expected = sacrebleu.corpus_score(predicted, [references]).score / 100
        assert score(metric, label, counts) == pytest.approx(expected, abs=1e-12) and 0.3 < expected < 1
    assert score("exact_match", label, counts) == 0.5
    plain = counted(predicted, references)
    assert score("chrf", plain, plain) == score("chrf", label, counts)


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["Ein Hund läuft."], None), (["Собака бежит."], None), (["लड़का आता है।"], None), ([], None),
        (["今日は東京タワーへ行った。"], "ja"), (["他去了东京 Tower。"], "zh"),
        (["BERT 和 GPT are models"], None),
        (["ភាសាខ្មែរ"], "other"), (["မြန်မာဘာသာ"], "other"), (["123 !"], None),
    ],
)  # fmt: skip
def test_languages_are_told_by_their_letters(texts, language):
    assert unspaced(texts) == language
