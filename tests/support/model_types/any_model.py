"""Tiny random models with task heads, of text, images and sound, and batches for them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from transformers import PreTrainedModel

from support.model_types import every_type
from support.model_types.every_type import HEADS, LAYERS, VOCABULARY


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def ids(n: int = 3, tokens: int = 7) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (n, tokens), generator=_generator())


def continued() -> dict[str, torch.Tensor]:
    """Texts of different lengths, whose tokens are their own labels."""
    mask = torch.arange(7) < torch.tensor([[7], [5], [6]])
    return {"input_ids": ids(), "attention_mask": mask.long(), "labels": ids().where(mask, -100)}


def classified() -> dict[str, torch.Tensor]:
    return {**continued(), "labels": torch.tensor([0, 2, 1])}


def scored() -> dict[str, torch.Tensor]:
    return {**continued(), "labels": torch.tensor([0.5, -1.0, 2.0])}


def several() -> dict[str, torch.Tensor]:
    return {**continued(), "labels": torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 1]])}


def written() -> dict[str, torch.Tensor]:
    return {**continued(), "labels": ids(tokens=4)}


def seen() -> dict[str, torch.Tensor]:
    return {
        "pixel_values": torch.randn(3, 3, 8, 8, generator=_generator()),
        "labels": torch.tensor([0, 2, 1]),
    }


def heard() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(3, 900, generator=_generator()), "labels": torch.tensor([0, 2, 1])}


def transcribed() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(3, 8, 24, generator=_generator()), "labels": ids(tokens=5)}


class Kind(NamedTuple):
    """A type, the class of transformers for its task, a batch, and what its small config needs besides."""

    model_type: str
    loader: str
    batch: Callable[[], dict[str, torch.Tensor]]
    settings: dict[str, Any] = {}


CAUSAL, CLASSES = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
WHISPER = {"num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 64}
THREE = {"num_labels": 3}
KINDS = {
    "pythia": Kind("gpt_neox", CAUSAL, continued),
    "gemma2": Kind("gemma2", CAUSAL, continued, {"sliding_window": 4}),
    "opt": Kind("opt", CAUSAL, continued),
    "mixtral": Kind("mixtral", CAUSAL, continued),
    "gpt-oss": Kind("gpt_oss", CAUSAL, continued, {"sliding_window": 4}),
    "deepseek-v3": Kind(
        "deepseek_v3", CAUSAL, continued, {"n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
    ),
    "olmo2": Kind("olmo2", CAUSAL, continued),
    "bloom": Kind("bloom", CAUSAL, continued),
    "falcon": Kind("falcon", CAUSAL, continued),
    "falcon-grouped": Kind(
        "falcon", CAUSAL, continued, {"new_decoder_architecture": True, "num_kv_heads": 2}
    ),
    "falcon-alibi": Kind(
        "falcon", CAUSAL, continued, {"alibi": True, "multi_query": False, "num_kv_heads": HEADS}
    ),
    "t5": Kind("t5", "AutoModelForSeq2SeqLM", written),
    "whisper": Kind("whisper", "AutoModelForSpeechSeq2Seq", transcribed, WHISPER),
    "whisper-decoder": Kind("whisper", "WhisperForCausalLM", continued, WHISPER),
    "ragged": Kind(
        "lfm2", CAUSAL, continued,
        {"layer_types": ["conv", "full_attention"], "num_hidden_layers": LAYERS, "num_key_value_heads": 2,
         "block_auto_adjust_ff_dim": False},
    ),
    "roberta": Kind("roberta", CLASSES, classified, THREE),
    "gpt2-classes": Kind("gpt2", CLASSES, classified, THREE | {"pad_token_id": 0}),
    "roberta-scores": Kind("roberta", CLASSES, scored, {"num_labels": 1}),
    "roberta-labels": Kind("roberta", CLASSES, several, THREE),
    "roberta-masked": Kind("roberta", "AutoModelForMaskedLM", continued),
    "roberta-tokens": Kind(
        "roberta", "AutoModelForTokenClassification", continued, {"num_labels": VOCABULARY}
    ),
    "albert": Kind("albert", CLASSES, classified, THREE | {"embedding_size": 16}),
    "mpnet": Kind("mpnet", CLASSES, classified, THREE),
    "vit": Kind("vit", "AutoModelForImageClassification", seen, THREE | {"image_size": 8, "patch_size": 4}),
    "wav2vec2": Kind(
        "wav2vec2", "AutoModelForAudioClassification", heard,
        THREE | {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8),
                 "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
                 "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16},
    ),
}  # fmt: skip
#: kinds of quick tests, one of each family
QUICK = {
    "albert", "falcon-grouped", "mixtral", "mpnet", "pythia", "ragged", "roberta", "t5", "vit", "wav2vec2",
}  # fmt: skip


def model(kind: str, seed: int = 0, **others: Any) -> PreTrainedModel:
    """A model in training mode, with larger weights than usual, so that heads matter."""
    model_type, loader, _, settings = KINDS[kind]
    torch.manual_seed(seed)
    loading = getattr(transformers, loader)
    config = every_type.config(model_type, **(settings | others))
    made = loading.from_config(config) if loader.startswith("Auto") else loading(config)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    return made.train()


def batches(kind: str) -> list[dict[str, torch.Tensor]]:
    """Three examples in two batches."""
    whole = KINDS[kind].batch()
    return [{name: value[part] for name, value in whole.items()} for part in (slice(2), slice(2, 3))]
