"""Sizes of tasks equal those of their tables, and numbers of tokens those in a sample of their texts."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from transformers import AutoTokenizer

from headspec.config.study import Study
from headspec.cost import translated, workload
from headspec.cost.workload import Extent
from headspec.data import prepare, tasks_read
from headspec.models import tokenization
from headspec.models.batching import Examples
from headspec.tasks.kinds.continuations.prompts import AnswerPairs, Pairs
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.data import treebanks
from support.models import TEXTS, make
from support.running import studies
from support.running.studies import CONFIG

TONE, TOPIC = CONFIG["tasks"]["tone"], CONFIG["tasks"]["topic"]


def study(**tasks: dict[str, Any]) -> Study:
    return studies.study(tasks=CONFIG["tasks"] | tasks)


def sizes(extent: Extent) -> dict[str, tuple[int, int]]:
    return {name: (size.train, size.validation) for name, size in extent.sizes.items()}


def test_rows_that_other_tasks_are_evaluated_on_are_not_counted(here):
    """They are not trained on where an encoder learns both tasks."""
    evaluated = pd.read_parquet("texts/tone/validation.parquet")["sentence"].head(7)
    rows = [pd.read_csv("texts/topic.tsv", sep="\t"), pd.DataFrame({"text": evaluated, "label": "sea"})]
    pd.concat(rows).to_csv("more.tsv", sep="\t", index=False)
    mixed = study(topic=TOPIC | {"source": "more.tsv"})
    alone = prepare.prepare("topic", mixed.tasks["topic"], 0).train
    left_out = alone["text_a"].isin(evaluated).sum()  # of seven, some are held out
    assert left_out and workload.study_extent(mixed).sizes["topic"].train == len(alone) - left_out


def test_tasks_that_were_read_are_not_prepared_again(here, monkeypatch):
    plan, read_here = tasks_read.prepare_tasks(study()), sizes(workload.study_extent(study()))
    monkeypatch.delattr(prepare, "prepare")
    extent = workload.study_extent(study(), plan)
    assert sizes(extent) == read_here and all(n.counted for n in extent.lengths.values())


def test_tokens_are_those_of_the_training_texts(here):
    """Of short texts, in files of every form, and of words; filtered rows and empty texts do not count."""
    treebanks.write(Path("texts/bank"))
    rows = pd.read_csv("texts/topic.tsv", sep="\t").assign(kept="yes")
    junk = pd.DataFrame({"text": ["sea " * 40] * 300, "label": "sea", "kept": "no"})
    empty = pd.DataFrame({"text": [" "] * 300, "label": "sea", "kept": "yes"})
    pd.concat([junk, empty, rows]).to_parquet("mixed.parquet")
    odd = study(
        topic=TOPIC | {"source": "mixed.parquet", "filter": {"kept": "yes"}},
        pairs={"pairs_of": "tone"},
        pos={"source": "texts/bank/trees", "type": "tags"},
    )
    extent = workload.study_extent(odd)
    tokenizer = tokenization.tokenizer(odd.models["bert"], "models.bert")
    parents: dict[str, prepare.Prepared] = {}
    for name, task in odd.tasks.items():
        whole = parents[name] = prepare.prepare(name, task, 0, parents.get(task.pairs_of or ""))
        if name == "pos":
            assert extent.sizes[name].train == len(whole.train)
            lengths = whole.train["text_a"].str.split().str.len() + 2
        else:
            frame, _ = tokenization.encode(tokenizer, whole.train, 16, whole.classes)
            lengths = frame["input_ids"].str.len()
        found = extent.lengths["bert", name]
        assert found.counted and found.example == pytest.approx(lengths.mean(), abs=1), name


def test_a_damaged_task_leaves_the_others_known(here):
    extent = workload.study_extent(study(topic={"source": "texts/gone.csv"}))
    assert {*extent.sizes} == {"tone", "match"} and "no file or folder 'gone.csv'" in extent.problems[0]
    job = {"model": "bert", "mixture": "tone+topic", "method": "tuned", "seed": "0"}
    assert extent.knows(job | {"mixture": "tone"}) and not extent.knows(job)
    assert not extent.knows({"model": "far", "task": "tone"}) and extent.knows({"task": "tone"})


def prompted(source: Path, tasks: dict[str, dict[str, Any]]) -> tuple[Study, Extent]:
    """A study in which a model is prompted with tasks, and what is known of it."""
    models = {"llama": {"source": str(source), "max_length": 60}}
    config = studies.study(models=models, tasks=tasks, mixtures={"pairs": [*tasks]}, methods=["prompted"])
    return config, workload.study_extent(config)


def test_tokens_of_prompts_are_those_of_what_the_model_reads(here):
    """With demonstrations, as the job that makes prompts writes them; cut to what the model takes."""
    llama = language.make("llama", Path("llama"))
    words, tokenizer = language.answers(llama).values(), language.talking(llama)
    answers = dict(zip(["good", "bad"], words, strict=True))
    task = TONE | {"prompt": language.PROMPT, "answers": answers}
    shots = {"shown": 2, "bare": 0, "talk": 1}
    study, extent = prompted(llama, {n: task | {"shots": k, "chat": n == "talk"} for n, k in shots.items()})
    found = {name: extent.lengths["llama", name] for name in shots}
    for name, k in shots.items():
        train = prepare.prepare(name, study.tasks[name], 0).train
        wording = Wording(language.PROMPT, tuple(words), name == "talk")
        wording = Prompts.showing(wording, train.head(k), [*answers])
        prompts = Prompts(tokenizer, wording, 60, name).encode(train, [*answers])[0]["input_ids"]
        assert found[name].prompt == pytest.approx(prompts.str.len().mean(), abs=3 if k else 1.5)
        if name != "talk":
            begun = len(os.path.commonprefix([list(ids) for ids in prompts]))
            assert found[name].shared == (pytest.approx(begun, abs=5) if k else 0)
    assert found["shown"].prompt > 2 * found["bare"].prompt > 2 * found["bare"].example


def test_tokens_of_continuations_are_those_that_the_model_reads(here):
    """Answers of several tokens beside each other, and of minimal pairs what they do not share, once more."""
    llama = language.make("llama", Path("scoring"))
    tokenizer = AutoTokenizer.from_pretrained(llama)
    rows = pd.read_parquet("texts/tone/train.parquet")
    pairs = {"sentence_good": rows["sentence"], "sentence_bad": rows["sentence"] + " was very old"}
    rows.assign(**pairs, right=" the", wrong=" our").to_parquet("scored.parquet")
    answers, source = {"good": " really lovely", "bad": " really awful"}, {"source": "scored.parquet"}
    study, extent = prompted(
        llama,
        {
            "whole": TONE | {"prompt": language.PROMPT, "answers": answers},
            "texts": source | {"type": "minimal_pairs"},
            "mine": source | {"type": "answer_pairs", "text_a": "sentence", "prompt": "{text_a}"},
        },
    )
    encoders = {
        "whole": Prompts(tokenizer, Wording(language.PROMPT, tuple(answers.values())), 60, "whole"),
        "texts": Pairs(tokenizer, Wording("", ()), 60, "texts"),
        "mine": AnswerPairs(tokenizer, Wording("{text_a}", ()), 60, "mine"),
    }
    found = {name: extent.lengths["llama", name] for name in encoders}
    for name, encoder in encoders.items():
        train = prepare.prepare(name, study.tasks[name], 0).train
        read = Examples(encoder.encode(train, [*answers] if name == "whole" else [])[0]).lengths
        assert found[name].prompt == pytest.approx(read.mean(), abs=3), name
    assert found["mine"].scored == 2 and found["whole"].scored > 4
    bare, config = extent.forward("llama", "whole", True), extent.configs["llama"]
    extent.lengths["llama", "whole"] = found["whole"]._replace(scored=found["whole"].scored + 1)
    assert extent.forward("llama", "whole", True) - bare == 2 * config.hidden_size * config.vocab_size


def translating(model: dict[str, Any], **task: Any) -> Extent:
    """What is known of a study that learns to translate; texts are half as long as their translations."""
    texts = list(dict.fromkeys(TEXTS))
    longer = [f"{text} , and {text}" for text in texts]
    pd.DataFrame({"en": texts, "de": longer}).to_csv("pairs.tsv", sep="\t", index=False)
    de = {"source": "pairs.tsv", "text_a": "en", "label": "de", "type": "translation", **task}
    models, mixtures = {"m": model | {"max_length": 16}}, {"single": ["de"]}
    return workload.study_extent(
        studies.study(models=models, tasks={"de": de}, mixtures=mixtures, methods=["tuned"])
    )


def test_tokens_of_translations_are_counted_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("t5", Path("t5"))
    extent = translating({"source": "t5"})
    assert not extent.problems and extent.lengths["m", "de"].counted
    assert extent.lengths["m", "de"].example < extent.lengths["m", "de"].target == 16  # cut


def test_words_stand_for_the_pieces_of_a_vocabulary_that_is_still_to_be_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = {"layers": 1, "heads": 4, "hidden": 32, "vocabulary": 45}
    extent = translating({"transformer": sizes}, target_language="de", beams=3)
    words = np.array([len(text.split()) for text in dict.fromkeys(TEXTS)])
    found, longer = extent.lengths["m", "de"], (2 * words + 2).clip(max=15)  # cut
    assert found.example == pytest.approx(words.mean() + 2, abs=0.6)
    assert found.target == pytest.approx(longer.mean() + 1, abs=0.6)
    config, lengths = extent.configs["m"], (found.example, found.target)
    assert extent.forward("m", "de", False) == translated.teacher_forced(config, *lengths, 16)
    assert extent.forward("m", "de", False, True) == translated.written(config, *lengths, 16, 3)
