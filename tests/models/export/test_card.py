"""The card that `headspec.save` writes."""

import logging

import pandas as pd
import pytest
from huggingface_hub import ModelCard

import headspec
from headspec.models.export import structure
from support.model_types import any_model

FIRST = {0: [1, 3], 1: [0]}


def lines(folder) -> list[str]:
    return (folder / "README.md").read_text(encoding="utf-8").splitlines()


def test_what_is_missing_by_which_score_and_what_loads_it(tmp_path):
    model = any_model.model("roberta")
    model.config.name_or_path = "FacebookAI/roberta-base"
    curve = pd.DataFrame(
        {"order": ["none", "bottom"], "fraction": [0.0, 0.25], "heads": [0, 2], "value": [0.9, 0.875],
         "low": [0.85, 0.8], "high": [0.95, 0.94]}
    )  # fmt: skip
    curve.attrs = {"metric": "accuracy", "n": 40}
    pruned = headspec.remove_heads(headspec.remove_heads(model, {0: [1]}), {0: [2], 1: [0]})
    headspec.save(pruned, tmp_path / "small", score="gradient", curve=curve)
    card = ModelCard.load(tmp_path / "small" / "README.md")
    assert card.data.library_name == "headspec" and card.data.base_model == "FacebookAI/roberta-base"
    assert "roberta" in card.data.tags
    said = lines(tmp_path / "small")
    assert 'model = headspec.load("small")' in said
    assert any("without 3 of its 8 attention heads" in line for line in said)
    names = list(structure.of(pruned.config)["kept_heads"])
    assert f"- `{names[0]}`: 1, 3" in said and f"- `{names[1]}`: 0" in said  # numbered as in the whole model
    assert any(line.startswith("Chosen by the score `gradient`") for line in said)
    assert "| no heads | 0 | 0.900 [0.850, 0.950] |" in said
    assert "| the least important | 2 | 0.875 [0.800, 0.940] |" in said and "40 examples" in "".join(said)
    assert any("transformers alone cannot read it" in line for line in said)


@pytest.mark.parametrize(("kind", "heads", "said"), [
    ("mixtral", {0: [2, 3], 1: [0, 1]}, "`from_pretrained` of transformers reads it, too."),
    ("roberta", {}, "with all of its attention heads."),
    ("roberta", {0: [0, 1, 2, 3]}, ": 0, 1, 2, 3 (all)"),
])  # fmt: skip
def test_other_cases(kind, heads, said, tmp_path):
    """A model of a folder names no base, whose path would be that of a machine."""
    model = any_model.model(kind)
    model.config.name_or_path = str(tmp_path)
    headspec.save(headspec.remove_heads(model, heads) if heads else model, tmp_path / "kept")
    assert any(said in line for line in lines(tmp_path / "kept"))
    assert ModelCard.load(tmp_path / "kept" / "README.md").data.base_model is None
    assert str(tmp_path) not in "\n".join(lines(tmp_path / "kept"))


def test_a_model_of_1_0_says_which_heads_are_left(tmp_path):
    """Whose config does not count those that there were, also if more are removed."""
    pruned = headspec.remove_heads(any_model.model("roberta"), FIRST)
    del structure.of(pruned.config)["heads"]
    headspec.save(headspec.remove_heads(pruned, {1: [0]}), tmp_path)
    said, (first, second) = lines(tmp_path), structure.of(pruned.config)["kept_heads"]
    assert f"- `{first}`: 0, 2" in said and f"- `{second}`: 2, 3" in said
    assert "## Heads that are left" in said and any("with 4 of its attention heads" in line for line in said)


def test_a_card_of_ones_own_is_kept(tmp_path, caplog):
    pruned = headspec.remove_heads(any_model.model("roberta"), FIRST)
    headspec.save(pruned, tmp_path)
    other = headspec.remove_heads(pruned, {0: [0]})
    headspec.save(other, tmp_path)  # which nobody has edited
    assert any("without 4 of its 8" in line for line in lines(tmp_path))
    card, told = tmp_path / "README.md", f"{tmp_path / 'README.md'}: kept unchanged"
    for text in ("Mine.\n", card.read_text().replace("attention heads", "heads, by me")):
        card.write_text(text)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "headspec"):
            headspec.save(pruned, tmp_path)
        assert card.read_text() == text and any(each.message.startswith(told) for each in caplog.records)
