"""Tiny random models with task heads, of text, images and sound, and batches for them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from transformers import AutoConfig, PreTrainedModel

LAYERS, HEADS, VOCABULARY = 2, 4, 120
TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
WHISPER = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip


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
    """A type, the class of transformers for its task, what its config needs, and a batch."""

    model_type: str
    loader: str
    settings: dict[str, Any]
    batch: Callable[[], dict[str, torch.Tensor]]


CAUSAL, CLASSES = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
KINDS = {
    "pythia": Kind("gpt_neox", CAUSAL, TEXT, continued),
    "gemma2": Kind("gemma2", CAUSAL, GROUPED | {"sliding_window": 4}, continued),
    "opt": Kind("opt", CAUSAL, TEXT | {"ffn_dim": 48, "word_embed_proj_dim": 32}, continued),
    "mixtral": Kind("mixtral", CAUSAL, GROUPED | EXPERTS, continued),
    "gpt-oss": Kind("gpt_oss", CAUSAL, GROUPED | EXPERTS | {"sliding_window": 4}, continued),
    "deepseek-v3": Kind(
        "deepseek_v3", CAUSAL,
        TEXT | {"num_key_value_heads": HEADS, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
         "qk_rope_head_dim": 8, "v_head_dim": 8, "head_dim": 8, "n_routed_experts": 4, "n_group": 2,
         "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1},
        continued,
    ),
    "olmo2": Kind("olmo2", CAUSAL, TEXT, continued),
    "bloom": Kind("bloom", CAUSAL, TEXT | {"n_head": HEADS, "n_layer": LAYERS}, continued),
    "falcon": Kind("falcon", CAUSAL, TEXT, continued),
    "falcon-grouped": Kind(
        "falcon", CAUSAL, TEXT | {"new_decoder_architecture": True, "num_kv_heads": 2}, continued
    ),
    "falcon-alibi": Kind("falcon", CAUSAL, TEXT | {"alibi": True, "multi_query": False}, continued),
    "t5": Kind(
        "t5", "AutoModelForSeq2SeqLM",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS,
         "num_heads": HEADS, "decoder_start_token_id": 0}, written,
    ),
    "whisper": Kind("whisper", "AutoModelForSpeechSeq2Seq", WHISPER, transcribed),
    "whisper-decoder": Kind("whisper", "WhisperForCausalLM", WHISPER, continued),
    "ragged": Kind(
        "lfm2", CAUSAL,
        GROUPED | {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}, continued,
    ),
    "roberta": Kind("roberta", CLASSES, TEXT | {"num_labels": 3}, classified),
    "roberta-scores": Kind("roberta", CLASSES, TEXT | {"num_labels": 1}, scored),
    "roberta-labels": Kind("roberta", CLASSES, TEXT | {"num_labels": 3}, several),
    "roberta-masked": Kind("roberta", "AutoModelForMaskedLM", TEXT, continued),
    "roberta-tokens": Kind("roberta", "AutoModelForTokenClassification", TEXT | {"num_labels": VOCABULARY},
                           continued),
    "albert": Kind("albert", CLASSES, TEXT | {"embedding_size": 16, "num_labels": 3}, classified),
    "mpnet": Kind("mpnet", CLASSES, TEXT | {"num_labels": 3}, classified),
    "vit": Kind("vit", "AutoModelForImageClassification",
                TEXT | {"image_size": 8, "patch_size": 4, "num_labels": 3}, seen),
    "wav2vec2": Kind(
        "wav2vec2", "AutoModelForAudioClassification",
        TEXT | {"num_labels": 3, "conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8),
                "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
                "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16}, heard,
    ),
}  # fmt: skip
#: kinds of quick tests, one of each family
QUICK = {
    "albert", "falcon-grouped", "mixtral", "mpnet", "pythia", "ragged", "roberta", "t5", "vit", "wav2vec2",
}  # fmt: skip


def model(kind: str, **others: Any) -> PreTrainedModel:
    """A model in training mode, with larger weights than usual, so that heads matter."""
    model_type, loader, settings, _ = KINDS[kind]
    torch.manual_seed(0)
    loading = getattr(transformers, loader)
    config = AutoConfig.for_model(model_type, **(settings | others))
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
