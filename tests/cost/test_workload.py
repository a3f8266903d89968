"""The sizes of tasks are those of their tables, and tokens those of a sample of their texts."""

import os
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoTokenizer

from headspec.config import loading
from headspec.config.study import Study
from headspec.cost import workload
from headspec.data import planned, prepare
from headspec.models.batching import Examples
from headspec.models.tokens import tokenization
from headspec.tasks.answer_pairs.prompts import AnswerPairs
from headspec.tasks.minimal_pairs.prompts import Pairs
from headspec.tasks.texts.prompts import Prompts
from headspec.tasks.texts.wording import Wording
from support import language
from support.data import treebanks
from support.running.studies import CONFIG


def study(**tasks) -> Study:
    return loading.load(CONFIG | {"tasks": CONFIG["tasks"] | tasks})


def test_rows_that_other_tasks_are_evaluated_on_are_not_counted(here):
    """They are not trained on where an encoder learns both tasks."""
    rows = pd.read_csv("texts/topic.tsv", sep="\t")
    evaluated = pd.read_parquet("texts/tone/validation.parquet")["sentence"].head(7)
    pd.concat([rows, pd.DataFrame({"text": evaluated, "label": "sea"})]).to_csv(
        "more.tsv", sep="\t", index=False
    )
    mixed = study(topic=CONFIG["tasks"]["topic"] | {"source": "more.tsv"})
    alone = prepare.prepare("topic", mixed.tasks["topic"], 0).train
    left_out = alone["text_a"].isin(evaluated).sum()  # of seven, some are held out
    assert left_out and workload.study_extent(mixed).sizes["topic"].train == len(alone) - left_out


def test_tasks_that_were_read_are_not_prepared_again(here, monkeypatch):
    plan = planned.prepare_tasks(study())
    sizes = {
        name: (size.train, size.validation) for name, size in workload.study_extent(study()).sizes.items()
    }

    def again(*_: object) -> None:
        raise AssertionError("prepared again")

    monkeypatch.setattr(prepare, "prepare", again)
    extent = workload.study_extent(study(), plan)
    assert {name: (size.train, size.validation) for name, size in extent.sizes.items()} == sizes
    assert all(n.counted for n in extent.lengths.values())


def test_tokens_of_words_are_counted(here):
    """As the job of the same sentences counts them."""
    if not Path("texts/bank").exists():
        treebanks.write(Path("texts/bank"))
    words = study(pos={"source": "texts/bank/trees", "type": "tags"})
    extent = workload.study_extent(words)
    train = prepare.prepare("pos", words.tasks["pos"], 0).train
    assert extent.sizes["pos"].train == len(train) and all(n.counted for n in extent.lengths.values())
    lengths = train["text_a"].str.split().str.len() + 2
    assert extent.lengths["bert", "pos"].example == pytest.approx(lengths.mean(), abs=1)


def test_tokens_are_those_of_the_training_texts(here):
    """Of short texts, in files of every form; filtered rows and empty texts do not count."""
    rows = pd.read_csv("texts/topic.tsv", sep="\t").assign(kept="yes")
    junk = pd.DataFrame({"text": ["sea " * 40] * 300, "label": "sea", "kept": "no"})
    empty = pd.DataFrame({"text": [" "] * 300, "label": "sea", "kept": "yes"})
    pd.concat([junk, empty, rows]).to_parquet("mixed.parquet")
    odd = study(
        topic=CONFIG["tasks"]["topic"] | {"source": "mixed.parquet", "filter": {"kept": "yes"}},
        pairs={"pairs_of": "tone"},
    )
    extent = workload.study_extent(odd)
    tokenizer = tokenization.tokenizer(odd.models["bert"], "models.bert")
    parents: dict[str, prepare.Prepared] = {}
    for name, task in odd.tasks.items():
        whole = parents[name] = prepare.prepare(name, task, 0, parents.get(task.pairs_of or ""))
        frame, _ = tokenization.encode(tokenizer, whole.train, 16, whole.classes)
        assert extent.lengths["bert", name].example == pytest.approx(
            frame["input_ids"].str.len().mean(), abs=0.8
        ), name


def test_a_damaged_task_leaves_the_others_known(here):
    extent = workload.study_extent(study(topic={"source": "texts/gone.csv"}))
    assert {*extent.sizes} == {"tone", "match"} and "no file or folder 'gone.csv'" in extent.problems[0]
    job = {"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": "0"}
    assert extent.knows(job | {"mixture": "tone"}) and not extent.knows(job)
    assert not extent.knows({"model": "far", "task": "tone"}) and extent.knows({"task": "tone"})


def test_tokens_of_prompts_are_those_of_what_the_model_reads(here):
    """With demonstrations, as the job that makes prompts writes them; cut to what the model takes."""
    words = language.answers(language.make("llama", Path("llama"))).values()
    language.talking(Path("llama"))
    answers = dict(zip(["good", "bad"], words, strict=True))
    task = CONFIG["tasks"]["tone"] | {"prompt": language.PROMPT, "answers": answers}
    config = CONFIG | {
        "models": {"llama": {"source": "llama", "max_length": 60}},
        "tasks": {"shown": task | {"shots": 2}, "bare": task, "talk": task | {"shots": 1, "chat": True}},
        "mixtures": {"pairs": ["shown", "bare", "talk"]},
        "methods": ["prompted"],
    }
    prompted = loading.load(config)
    extent, tokenizer = workload.study_extent(prompted), AutoTokenizer.from_pretrained("llama")
    found = {name: extent.lengths["llama", name] for name in prompted.tasks}
    for name, shots in {"shown": 2, "bare": 0, "talk": 1}.items():
        train = prepare.prepare(name, prompted.tasks[name], 0).train
        wording = Wording(language.PROMPT, tuple(words), prompted.tasks[name].chat)
        wording = wording.showing(train.head(shots), list(answers))
        prompts = Prompts(tokenizer, wording, 60, name).encode(train, list(answers))[0]["input_ids"]
        assert found[name].prompt == pytest.approx(prompts.str.len().mean(), abs=3 if shots else 1.5)
        if name != "talk":
            begun = len(os.path.commonprefix([list(ids) for ids in prompts]))
            assert found[name].shared == (pytest.approx(begun, abs=5) if shots else 0)
    assert found["shown"].prompt > 2 * found["bare"].prompt > 2 * found["bare"].example


def test_tokens_of_continuations_are_those_that_the_model_reads(here):
    """Answers of several tokens beside each other, and of minimal pairs what they do not share, once more."""
    language.make("llama", Path("scoring"))
    tone = CONFIG["tasks"]["tone"]
    rows = pd.read_parquet("texts/tone/train.parquet").assign(
        sentence_good=lambda rows: rows["sentence"],
        sentence_bad=lambda rows: rows["sentence"] + " was very old",
    )
    rows.assign(right=" the", wrong=" our").to_parquet("scored.parquet")
    answers = {"good": " really lovely", "bad": " really awful"}
    tasks = {
        "whole": tone | {"prompt": language.PROMPT, "answers": answers},
        "texts": {"source": "scored.parquet", "type": "minimal_pairs"},
        "mine": {"source": "scored.parquet", "type": "answer_pairs", "text_a": "sentence",
                 "prompt": "{text_a}"},
    }  # fmt: skip
    config = CONFIG | {
        "models": {"llama": {"source": "scoring", "max_length": 60}},
        "tasks": tasks, "mixtures": {"pairs": [*tasks]}, "methods": ["prompted"],
    }  # fmt: skip
    study = loading.load(config)
    extent, tokenizer = workload.study_extent(study), AutoTokenizer.from_pretrained("scoring")
    whole = Prompts(tokenizer, Wording(language.PROMPT, tuple(answers.values())), 60, "whole")
    encoders = {"whole": whole, "texts": Pairs(tokenizer, Wording("", ()), 60, "texts")}
    encoders["mine"] = AnswerPairs(tokenizer, Wording("{text_a}", ()), 60, "mine")
    for name, encoder in encoders.items():
        train = prepare.prepare(name, study.tasks[name], 0).train
        classes = [*answers] if name == "whole" else []
        examples = Examples(encoder.encode(train, classes)[0])
        assert extent.lengths["llama", name].prompt == pytest.approx(examples.lengths.mean(), abs=3), name
    assert extent.lengths["llama", "mine"].scored == 2 and extent.lengths["llama", "whole"].scored > 4
    bare = extent.forward("llama", "whole", True)
    lengths = extent.lengths["llama", "whole"]
    extent.lengths["llama", "whole"] = lengths._replace(scored=lengths.scored + 1)
    config = extent.configs["llama"]
    assert extent.forward("llama", "whole", True) - bare == 2 * config.hidden_size * config.vocab_size
