"""The heads of one model that one table needs, as text and as a page."""

import json
from random import Random

import pytest
from transformers import BertForSequenceClassification

from headspec.errors import HeadspecError
from headspec.pipeline.commands.quick.heads import examples, write_page
from support import tiny
from support.data import good_tables as good
from support.data.sources import written
from support.models import word_pieces


def test_a_table_gives_a_ranking_and_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tiny.config("bert", num_labels=3)
    BertForSequenceClassification(config).save_pretrained("model")
    word_pieces(tmp_path / "model")
    written(tmp_path, {"t.jsonl": good.as_lines(good.classes(Random(1), n=24, names=["0", "1", "2"]).frame)})
    said = write_page("model", "t.jsonl", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 2 and page.count("<tr") == 1 + tiny.LAYERS * tiny.HEADS
    assert "24 examples" in said and len(said.splitlines()) > 10
    with pytest.raises(HeadspecError, match="already exists"):
        write_page("model", "t.jsonl", tmp_path / "page.html")
    written(
        tmp_path,
        {
            "other.jsonl": "".join(
                json.dumps({"text": f"a b {i}", "label": "cd"[i % 2]}) + "\n" for i in range(20)
            )
        },
    )
    with pytest.raises(HeadspecError, match=r"model on other.jsonl: labels: got 'c'"):
        write_page("model", "other.jsonl", tmp_path / "other.html")


def test_a_table_of_prompts_and_answers_is_read(tmp_path):
    rows = [{"prompt": f"one {i}", "answer": f" two {i}"} for i in range(4)]
    written(tmp_path, {"p.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    given = examples(str(tmp_path / "p.jsonl"))
    assert given == {"prompts": [f"one {i}" for i in range(4)], "answers": [f" two {i}" for i in range(4)]}
