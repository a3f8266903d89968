"""How many heads a model has by its config, and settings that do not fit them."""

import json
from pathlib import Path

import pytest

from headspec.config.sections.model import Model
from headspec.errors import HeadspecError, ModelError
from headspec.heads import head_settings
from support.running.studies import CONFIG, study

BART = {"model_type": "bart", "encoder_layers": 2, "encoder_attention_heads": 4, "decoder_layers": 1}
LFM2 = {"model_type": "lfm2", "num_hidden_layers": 4, "num_attention_heads": 3}
CONFIGS = {
    "bert": ({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 5}, [5, 5]),
    "gpt2": ({"model_type": "gpt2", "n_layer": 3, "n_head": 4}, [4, 4, 4]),
    "distilbert": ({"model_type": "distilbert", "n_layers": 6, "n_heads": 12}, [12] * 6),
    "bart": (BART | {"decoder_attention_heads": 2}, [4, 4, 2, 2]),
    "lfm2": (LFM2 | {"layer_types": ["conv", "full_attention", "sliding_attention", "conv"]}, [0, 3, 3]),
    "lfm2 of before": (LFM2 | {"full_attn_idxs": [1, 3]}, [0, 3, 0, 3]),
    "no attention": (LFM2 | {"layer_types": ["conv"] * 4}, []),
    "nemotron_h": (
        {"model_type": "nemotron_h", "num_attention_heads": 2, "hybrid_override_pattern": "M-M*E*M"},
        [0, 0, 0, 2, 0, 2],
    ),
    "no heads": ({"model_type": "bert", "num_hidden_layers": 2}, None),
    "no layers": ({"model_type": "bert", "num_attention_heads": 2}, None),
}


def write(folder: Path, name: str) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS[name][0]))
    return str(folder)


@pytest.mark.parametrize("name", CONFIGS)
def test_heads_by_the_names_of_every_architecture(tmp_path, name):
    expected = CONFIGS[name][1]
    exists = head_settings.exists(Model(source=write(tmp_path / "model", name)), "models.m")
    if expected is None:
        assert exists is None
    else:
        assert exists.tolist() == [[head < n for head in range(max(expected))] for n in expected]


def test_models_that_were_not_fetched_have_no_size_yet_and_those_that_cannot_be_read_are_named(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert head_settings.exists(Model(source="hub:nobody/none"), "models.m") is None
    with pytest.raises(ModelError, match=f"^models.m.source: .*/{tmp_path.name}' has no readable config"):
        head_settings.exists(Model(source=str(tmp_path)), "models.m")


@pytest.fixture
def check(tmp_path):
    """A function of sections that returns the lines of the error, or none."""
    sources = {name: write(tmp_path / name, name) for name in ("no heads", "bert", "gpt2", "distilbert")}
    sources = {"missing": str(tmp_path / "missing")} | sources  # first: those after it are still checked
    models = {
        name.replace(" ", "-"): {"source": str(source), "max_length": 16} for name, source in sources.items()
    }

    def lines(**sections) -> list[str]:
        pruning = {"fraction": 0.1} | sections.pop("pruning", {})
        try:
            head_settings.check_head_counts(study(models=models, pruning=pruning, **sections))
        except ModelError as error:
            return str(error).split("\n")
        return []

    return lines


def test_every_fraction_and_number_that_prunes_no_head_or_all_is_listed(check):
    """Models without a size, or that others report, are passed over; the others are still checked."""
    iat = {"mixtures": ["tone+topic"], "alpha": 0.2, "alphas": [0.095, 0.3]}
    assert check(pruning={"fraction": 0.08}, iat=iat) == [
        f"{key}: got {got}, less than one of the {size} heads of models.{name}; expected at least {least}"
        for key, got, size, name, least in (
            ("pruning.fraction", 0.08, 10, "bert", 0.1),
            ("iat.alphas.0", 0.095, 10, "bert", 0.1),
            ("pruning.fraction", 0.08, 12, "gpt2", 0.0833),
        )
    ]
    assert check(pruning={"heads": [10]}, iat=iat | {"alphas": []}) == []
    assert check(pruning={"heads": [1, 11]}) == [
        "pruning.heads.1: got 11, more than the 10 heads of models.bert"
    ]
    assert check(iat=iat | {"alpha": 0.05, "alphas": []})[0].startswith(
        "iat.alpha: got 0.05, less than one of"
    )
    gates = {"mixtures": ["tone+topic"], "kept": [0.9, 0.91]}
    assert check(gates=gates) == [
        "gates.kept.1: got 0.91, all of the 10 heads of models.bert; expected at most 0.9"
    ]


def test_every_list_of_a_study_is_checked(tmp_path):
    """Those of models whose heads are known are compared with them."""
    texts = {"odd": "0,x\n", "far": "0,4\n1,5\n", "fine": "1,4\n"}
    lists = {"gone": "nowhere.csv"}
    for name, text in texts.items():
        lists[name] = str(tmp_path / f"{name}.csv")
        Path(lists[name]).write_text("layer,head\n" + text)
    models = {
        name: CONFIG["models"]["bert"] | {"source": source, "heads": lists}
        for name, source in {"bert": write(tmp_path / "bert", "bert"), "missing": "nowhere"}.items()
    }
    with pytest.raises(HeadspecError) as caught:
        head_settings.check_head_lists(study(models=models))
    starts = {
        "models.bert.heads.gone: no file or folder 'nowhere.csv'",
        "models.bert.heads.odd: odd.csv has layer 0, head x",
        "models.bert.heads.far: got layer 1, head 5; the model has layers 0 to 1 with heads 0 to 4",
        "models.missing.heads.gone: no file or folder 'nowhere.csv'",
        "models.missing.heads.odd: odd.csv has layer 0, head x",
    }
    found = str(caught.value).split("\n")
    assert len(found) == len(starts)
    assert all(any(line.startswith(start) for line in found) for start in starts)
