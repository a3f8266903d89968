"""How many heads a model has by its config, and fractions that come to none of them."""

import json
from pathlib import Path

import pytest

from headspec.config.loading import load
from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.heads import head_settings
from support.running.studies import CONFIG

CONFIGS = {
    "bert": ({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 5}, [5, 5]),
    "gpt2": ({"model_type": "gpt2", "n_layer": 3, "n_head": 4}, [4, 4, 4]),
    "distilbert": ({"model_type": "distilbert", "n_layers": 6, "n_heads": 12}, [12] * 6),
    "bart": (
        {
            "model_type": "bart",
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_layers": 1,
            "decoder_attention_heads": 2,
        },
        [4, 4, 2, 2],
    ),
    "lfm2": (
        {
            "model_type": "lfm2",
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "layer_types": ["conv", "full_attention", "sliding_attention", "conv"],
        },
        [0, 3, 3],
    ),
    "lfm2 of before": (
        {"model_type": "lfm2", "num_hidden_layers": 4, "num_attention_heads": 3, "full_attn_idxs": [1, 3]},
        [0, 3, 0, 3],
    ),
    "nemotron_h": (
        {"model_type": "nemotron_h", "num_attention_heads": 2, "hybrid_override_pattern": "M-M*E*M"},
        [0, 0, 0, 2, 0, 2],
    ),
    "no heads": ({"model_type": "bert", "num_hidden_layers": 2}, None),
    "no layers": ({"model_type": "bert", "num_attention_heads": 2}, None),
}


def write(folder: Path, config: object) -> Model:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return Model(source=str(folder))


@pytest.mark.parametrize("name", CONFIGS)
def test_heads_by_the_names_of_every_architecture(tmp_path, name):
    config, expected = CONFIGS[name]
    exists = head_settings.exists(write(tmp_path / "model", config), "models.m")
    if expected is None:
        assert exists is None
    else:
        assert exists.tolist() == [[head < n for head in range(max(expected))] for n in expected]


def test_a_model_of_the_hub_that_was_not_fetched_has_no_size_yet(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert head_settings.exists(Model(source="hub:nobody/none"), "models.m") is None


def test_a_model_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(EncoderError, match="^models.m.source: .*/empty' has no readable config.json"):
        head_settings.exists(Model(source=str(tmp_path / "empty")), "models.m")


def test_every_fraction_below_one_head_is_listed(tmp_path):
    """Models without a size, or that others report, are passed over; the others are still checked."""
    sources = {name: write(tmp_path / name, config).source for name, (config, _) in CONFIGS.items()}
    order = ("no heads", "missing", "bert", "gpt2", "distilbert")
    sources["missing"] = str(tmp_path / "missing")
    models = {name.replace(" ", "-"): {"source": sources[name], "max_length": 16} for name in order}
    pruning, iat = {"fraction": 0.08}, {"mixtures": ["tone+topic"], "alpha": 0.2, "alphas": [0.095, 0.3]}
    with pytest.raises(EncoderError) as caught:
        head_settings.check_head_counts(load(CONFIG | {"models": models, "pruning": pruning, "iat": iat}))
    assert str(caught.value).split("\n") == [
        f"{key}: got {got}, less than one of the {size} heads of models.{name}; expected at least {least}"
        for key, got, size, name, least in (
            ("pruning.fraction", 0.08, 10, "bert", 0.1),
            ("iat.alphas.0", 0.095, 10, "bert", 0.1),
            ("pruning.fraction", 0.08, 12, "gpt2", 0.0833),
        )
    ]
    pruning, iat = {"fraction": 0.1, "heads": [10]}, iat | {"alphas": []}
    head_settings.check_head_counts(load(CONFIG | {"models": models, "pruning": pruning, "iat": iat}))
    with pytest.raises(EncoderError, match="^pruning.heads.1: got 11, more than the 10 heads"):
        pruning = {"fraction": 0.1, "heads": [1, 11]}
        head_settings.check_head_counts(load(CONFIG | {"models": models, "pruning": pruning, "iat": iat}))
    pruning = {"fraction": 0.1}
    with pytest.raises(EncoderError, match="^iat.alpha: got 0.05, .* 10 heads"):
        head_settings.check_head_counts(
            load(CONFIG | {"models": models, "pruning": pruning, "iat": iat | {"alpha": 0.05}})
        )
