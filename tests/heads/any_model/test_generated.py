"""Answers that a model writes, compared with loops that write one token after another."""

from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import headspec
from headspec.errors import ScoreError
from headspec.heads.any_model.curves.halves import assigned
from headspec.heads.any_model.user_model import read
from headspec.seeds import derive
from support import language
from support.models import TEXTS, TRANSLATORS
from support.tiny import config

TOKENS, N = 6, 10
PROMPTS = TEXTS[:N]


def made(name, folder):
    path = language.make(name, folder / "m")
    return AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return made("llama", tmp_path_factory.mktemp("made"))


@torch.no_grad()
def written(model, tokenizer, prompt: str, tokens: int = TOKENS) -> str:
    """The most likely continuation, by whole passes without a cache or padding."""
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    if not ids.numel() or (tokenizer.bos_token_id is not None and ids[0, 0] != tokenizer.bos_token_id):
        batch = next(read(model, None, tokenizer, {"prompts": [prompt], "answers": [" one"]}))
        ids = batch["input_ids"][batch["labels"] == -100][None]
    new: list[int] = []
    while len(new) < tokens:
        token = int(model(input_ids=ids).logits[0, -1].argmax())
        if token == model.generation_config.eos_token_id:
            break
        new.append(token)
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
    return tokenizer.decode(new, skip_special_tokens=True)


def closed(curve, order: str) -> float:
    return float(curve[curve["order"] == order]["value"].iloc[0])


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_texts_are_those_written_alone_with_the_same_heads_closed(name, tmp_path):
    """In batches with padding."""
    model, tokenizer = made(name, tmp_path)
    answers = [" " + written(model, tokenizer, prompt).strip() for prompt in PROMPTS]
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": answers}
    metric = headspec.Generated(max_new_tokens=TOKENS)
    scores = np.random.default_rng(0).random((3, 4))
    curve = headspec.head_curve(model, metric=metric, scores=scores, fractions=[0.25], draws=5, **given)
    with headspec.HeadGates(model).closed(headspec.top_heads(scores, 3)):
        without = [written(model, tokenizer, prompt).strip() for prompt in PROMPTS]
    same = np.mean([text == answer.strip() for text, answer in zip(without, answers, strict=True)])
    assert closed(curve, "none") == 1 and closed(curve, "top") == same < 1
    whole = curve[curve["order"] == "none"].iloc[0]
    assert whole.high == 1 and 0.5 < whole.low < 1 and curve["high"].max() <= 1
    assert curve.attrs == {"metric": "exact_match", "n": N}
    ranked = headspec.head_curve(model, metric=metric, fractions=[0.25], draws=5, seed=2, **given)
    half = assigned(
        [*read(model, None, tokenizer, {"prompts": PROMPTS, "answers": answers})],
        "input_ids", np.random.default_rng(derive(2, "halves")),
    )  # fmt: skip
    places = np.flatnonzero(half == 0)
    by_half = headspec.head_importance(
        model,
        tokenizer=tokenizer,
        prompts=[PROMPTS[i] for i in places],
        answers=[answers[i] for i in places],
    )
    with headspec.HeadGates(model).closed(headspec.top_heads(by_half, 3)):
        texts = {i: written(model, tokenizer, PROMPTS[i]).strip() for i in np.flatnonzero(half)}
    assert closed(ranked, "top") == np.mean([text == answers[i].strip() for i, text in texts.items()])


def test_the_score_may_be_a_function_of_text_and_reference(decoder, monkeypatch):
    model, tokenizer = decoder
    seen = []

    def words(text, reference):
        seen.append((text, reference))
        return len(text.split()) - reference["words"]

    whole = [written(model, tokenizer, prompt) for prompt in PROMPTS]
    stop = next(each.split()[1] for each in whole if len(each.split()) > 2)
    metric = headspec.Generated(
        words, max_new_tokens=TOKENS, stop=[stop], references=[{"words": i} for i in range(N)]
    )
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" one"] * N, "scores": np.ones((3, 4))}
    curve = headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, **given)
    assert curve.attrs["metric"] == "words"
    expected = [(text.split(stop)[0], {"words": i}) for i, text in enumerate(whole)]
    assert seen[0] == ("", {"words": 0})  # tried before anything is written
    assert seen[1 : N + 1] == expected
    assert any(text != cut for text, (cut, _) in zip(whole, expected, strict=True))
    assert curve["value"][0] == np.mean([len(text.split()) - each["words"] for text, each in expected])

    def fails(text, reference):
        return 1 / 0

    monkeypatch.setattr(type(model), "generate", None)  # refused before the model writes
    no_numbers = "much", "0.5", None, [1.0], np.ones(1), torch.ones(2), 1j, 10**400, float("nan"), np.inf
    for score, message in (
        (fails, "fails raised ZeroDivisionError: .*, for the text"),
        *(
            (lambda *_, value=value: value, r"returned .*\sfor the text .*, expected a")
            for value in no_numbers
        ),
    ):
        with pytest.raises(ValueError, match=f"^metric: .*{message}"):
            headspec.head_curve(model, metric=headspec.Generated(score), fractions=[0.5], draws=5, **given)


@pytest.mark.parametrize("value", [True, np.bool_(True), 1, np.float32(1), np.array(1), torch.tensor(1.0)])
def test_a_function_may_return_any_single_number(value):
    found = headspec.Generated(lambda *_: value).value("", "")
    assert found == 1 and type(found) is float


def test_no_text_is_lost_if_the_score_fails(decoder):
    model, tokenizer = decoder
    whole, calls = [written(model, tokenizer, prompt) for prompt in PROMPTS], iter(range(N + 4))

    def score(text, reference):
        if next(calls) == N + 3:
            raise KeyError("late")
        return 1.0

    metric = headspec.Generated(score, max_new_tokens=TOKENS)
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" one"] * N, "scores": np.ones((3, 4))}
    said = r"^metric: score raised KeyError: 'late', for the text .* and the answer ' one' of example 2$"
    with pytest.raises(ScoreError, match=said) as told:
        headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, **given)
    assert [*told.value.texts][:N] == [*enumerate(whole)] and len(told.value.texts) == 2 * N


@pytest.mark.parametrize(
    "own",
    [{"num_beams": 3, "num_return_sequences": 2}, {"return_dict_in_generate": True, "output_scores": True}],
    ids=str,
)
def test_there_is_one_text_for_each_prompt_whatever_the_models_own_settings(own, tmp_path):
    model, tokenizer = made("llama", tmp_path)
    expected, seen = [written(model, tokenizer, prompt) for prompt in PROMPTS], []
    model.generation_config.update(**own)
    metric = headspec.Generated(lambda text, _: seen.append(text) or 1.0, max_new_tokens=TOKENS)
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" one"] * N, "scores": np.ones((3, 4))}
    headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, **given)
    assert seen[1 : N + 1] == expected


def test_samples_are_the_same_again_and_vary_within_an_example(decoder):
    model, tokenizer = decoder
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" the old house"] * N}
    settings = {"scores": np.ones((3, 4)), "fractions": [0.5], "draws": 5, **given}

    def curve(samples, seed=0):
        metric = headspec.Generated("f1", temperature=1.5, samples=samples, max_new_tokens=4, seed=seed)
        return headspec.head_curve(model, metric=metric, **settings)

    first = curve(2)
    assert first.equals(curve(2)) and not first.equals(curve(2, seed=1))
    width = [row.high - row.low for row in (first.iloc[0], curve(6).iloc[0])]
    assert width[1] < width[0]


@pytest.mark.parametrize(
    ("score", "text", "answer", "value"),
    [
        ("exact_match", " one two\n", "one two", 1), ("exact_match", "One two", "one two", 0),
        ("contains", "it is one two.", " one two", 1), ("contains", "one", "one two", 0),
        ("f1", "The lovely house!", "lovely old house", 0.8), ("f1", "", "house", 0),
        ("number", "so 3 and 1,200.0 in all.", "#### 1200", 1), ("number", "-5", "5", 0),
        ("number", "none", "5", 0), ("number", "it is .5", "0.50", 1),
    ],
)  # fmt: skip
def test_scores_of_texts(score, text, answer, value):
    assert headspec.Generated(score).value(text, answer) == pytest.approx(value)


#: forms of a number, given as thousandths
FORMS: list[Callable[[int], str]] = [
    lambda n: f"{n / 1000:,.3f}",
    lambda n: f"${n / 1000:,.3f}",
    lambda n: f"{n}e-3.",
    lambda n: f"**{n * 10}E−4**",
    lambda n: f"{n}/1000",
    lambda n: f"({n // 1000} {n % 1000}/1000)",
]


def test_numbers_are_compared_by_their_value_in_any_form():
    rng = np.random.default_rng(0)
    metric = headspec.Generated("number")
    for _ in range(200):
        n = int(rng.integers(1, 10 ** rng.integers(1, 8)))
        texts = [form(n) for form in FORMS]
        dash = rng.choice(["-", "−"])
        negative = [dash + form(n).strip("(*.)") for form in FORMS[:5]] + [f"-${n / 1000:,.3f}"]
        for text in texts:
            answer = str(rng.choice(texts))
            before = f"It is {rng.integers(9)}, no: "
            assert metric.value(f"{before}{text}", answer) == 1, (text, answer)
            assert metric.value(f"{before}{text}", str(rng.choice(FORMS)(n + 1))) == 0
            for other in negative:
                assert metric.value(f"{before}{other}", answer) == 0, (other, answer)
                assert metric.value(other, f"= {rng.choice(negative)}") == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10-5", "5"), ("pages 3–4", "4"), ("B-52", "52"), ("(1)-2", "2"), ("2 - 5", "5"),
        ("2019-05-03", "3"), ("1/2/2020", "2020"), ("km/2", "2"), ("3/0", "0"), ("3, 4", "4"),
        ("10,20", "20"),
        ("1,00,000", "100000"), ("100,200", "100200"), ("2eggs", "2"), ("1e99999", "99999"), ("5%", "5"),
    ],
)  # fmt: skip
def test_dashes_slashes_and_commas_between_numbers_belong_to_none(text, value):
    assert headspec.Generated("number").value(text, value) == 1


def test_long_integers_are_the_same_to_the_last_digit():
    n = 10 ** int(np.random.default_rng(0).integers(10, 6000)) + 7
    digits = str(Decimal(n).quantize(1, context=Context(prec=7000)))
    metric = headspec.Generated("number")
    assert metric.value(digits, digits) == 1 and metric.value(digits[:-1] + "8", digits) == 0
    assert metric.value("0.3", str(0.1 + 0.2)) == 1


def test_a_pattern_says_what_is_compared():
    metric = headspec.Generated("exact_match", pattern=r"answer is \(?([A-D])")
    assert metric.value("The answer is (B). No, the answer is C.", "C") == 1
    assert metric.value("The answer is C", "so the answer is D") == 0
    assert metric.value("C", "C") == 0  # the text has no match
    assert headspec.Generated("number", pattern=r"#### .*").value("10 20\n#### 30, 4", "4") == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"score": "exact"}, "score: got 'exact', expected exact_match, f1, .* Did you mean 'exact_match'"),
        ({"stop": "\n"}, r"stop: got '\\n', expected a list of texts"),
        ({"stop": None}, "stop: got None, expected a list of texts"),
        ({"stop": ["one", 2]}, r"stop: got \['one', 2\], expected a list of texts"),
        ({"stop": ["one", ""]}, r"stop: got \['one', ''\], expected a list of texts"),
        ({"samples": 3}, "temperature: got 0, expected a value above 0 for several samples"),
        ({"max_new_tokens": 0}, "max_new_tokens: got 0, expected at least 1"),
        ({"pattern": "(a"}, r"pattern: got '\(a', not a regular expression: missing"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        headspec.Generated(**given)


def test_arguments_that_do_not_fit_are_refused(decoder):
    model, tokenizer = decoder
    usual = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" one"] * N, "scores": np.ones((3, 4))}
    batches = [*read(model, None, tokenizer, {"prompts": PROMPTS, "answers": [" one"] * N})]
    for metric, given, message in (
        (headspec.Generated(), {"batches": batches, "scores": np.ones((3, 4))},
         "metric: got Generated, which needs tokenizer, prompts and answers"),
        (headspec.Generated(references=["a"]), usual, "references: got 1, expected 10"),
        (headspec.Generated(references=[1] * N), usual, "references: got 1 for example 0, expected a text"),
        (headspec.Generated("number"), usual, "references: no number in ' one', of example 0; expected one"),
        (headspec.Generated(max_new_tokens=10**6), usual,
         "max_new_tokens: got 1000000 after a prompt of .* tokens; the model takes at most"),
        (headspec.Generated(), {**usual, "ablation": "resample"},
         "ablation: got 'resample' for generated answers, .*; expected zero or mean"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}"):
            headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, **given)


def test_stop_strings_that_never_come_are_told(decoder, caplog):
    model, tokenizer = decoder
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": [" one"] * N, "scores": np.ones((3, 4))}
    metric = headspec.Generated(max_new_tokens=2, stop=["\n", "<end>"])
    headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, ablation="mean", **given)
    assert r"metric: none of 90 texts has '\n', '<end>'; they end by the model's own end or after 2" in (
        caplog.text
    )


def test_encoder_decoders_write_from_their_sources(tmp_path):
    kind, write_tokenizer, settings = TRANSLATORS["bart"]
    (tmp_path / "config.json").write_text(f'{{"model_type": "{kind}"}}')
    write_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    torch.manual_seed(0)
    own = config(kind, **settings, vocab_size=len(tokenizer))
    model = AutoModelForSeq2SeqLM.from_config(own).eval()
    alone = []
    for prompt in PROMPTS:
        ids = model.generate(**tokenizer(prompt, return_tensors="pt"), max_new_tokens=4, do_sample=False)
        alone += tokenizer.batch_decode(ids, skip_special_tokens=True)
    seen = []
    metric = headspec.Generated(lambda text, _: seen.append(text) or 1.0, max_new_tokens=4)
    given = {"tokenizer": tokenizer, "prompts": PROMPTS, "answers": ["one"] * N, "score": "magnitude"}
    headspec.head_curve(model, metric=metric, fractions=[0.5], draws=5, **given)
    assert seen[1 : N + 1] == alone
