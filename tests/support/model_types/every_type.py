"""A tiny random model of every text type of transformers."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from headspec.models.architectures import continues, refused, types, writes

#: of more parameters, a config has a size that is not here
MOST = 8_000_000
LAYERS, HEADS, VOCABULARY = 2, 4, 120

#: sizes, under all names that configs have for them
SIZES: dict[str, Any] = dict(
    vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=HEADS, intermediate_size=48, max_position_embeddings=64, d_model=32, n_embd=32,
    n_head=HEADS, n_layer=LAYERS, n_positions=64, encoder_layers=LAYERS, decoder_layers=LAYERS,
    encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=48, decoder_ffn_dim=48,
    num_layers=LAYERS, num_heads=HEADS, d_kv=8, d_ff=48, head_dim=8, num_decoder_layers=LAYERS,
    n_layers=LAYERS, n_heads=HEADS, dim=32, hidden_dim=48, ffn_dim=48, word_embed_proj_dim=32,
    embedding_size=32, qk_nope_head_dim=8, qk_rope_head_dim=8, qk_head_dim=16, v_head_dim=8, kv_lora_rank=16,
    q_lora_rank=16, rotary_dim=8, vocab_size_per_layer_input=100, hidden_size_per_layer_input=8,
    num_kv_shared_layers=0, partial_rotary_factor=1.0, index_n_heads=4, index_head_dim=8, index_topk=16,
    attention_chunk_size=16, sliding_window=8, global_head_dim=8, num_global_key_value_heads=4,
    num_experts=4, num_local_experts=4, num_experts_per_tok=2, n_routed_experts=4, moe_intermediate_size=16,
    audio_hidden_size=32,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip
#: of these, the ones that are set where a config has none
NULLABLE = ("head_dim", "num_key_value_heads", "hidden_size", "num_attention_heads")
_T5_GEMMA = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8,
}  # fmt: skip
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "hidden_size": 32}
_GEMMA4 = {
    "num_hidden_layers": LAYERS,
    "layer_types": ["sliding_attention", "full_attention"],
    "global_head_dim": 8,
}
_LATENT = {
    "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
}  # fmt: skip
_HYBRID = ["linear_attention", "full_attention"]
_LAYERS = {
    "hidden_size": 32, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
    "num_hidden_layers": LAYERS, "intermediate_size": 48,
}  # fmt: skip
_NEMOTRON = {
    "layers_block_type": _HYBRID, "num_hidden_layers": LAYERS, "mamba_num_heads": 4, "mamba_head_dim": 16,
    "ssm_state_size": 8, "n_groups": 2, "chunk_size": 16,
}  # fmt: skip
_DOTS3_NOTE = {
    "num_hidden_layers": LAYERS, "layer_types": ["sliding_attention", "full_attention"], "use_dsa": False,
    "head_dim": 16, "index_head_dim": 16, "n_routed_experts": 4, "shared_experts_intermediate_size": 16,
    **{prefix + name: size for prefix in ("", "swa_") for name, size in _LATENT.items()},
    "swa_head_dim": 16,
}  # fmt: skip
_QWEN4 = {
    "layer_types": _HYBRID, "num_hidden_layers": LAYERS, "head_dim": 8, "hc_lowrank": 8,
    "shared_expert_intermediate_size": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_num_key_heads": 4, "linear_num_value_heads": 4, "indexer_n_heads": 4, "indexer_kv_heads": 1,
    "indexer_head_dim": 8, "indexer_budget": 16, "indexer_compress_ratio": 4,
}  # fmt: skip
_ADAPTED = _LAYERS | {"adapter_out_dim": 32}
_ROTATED = {"rope_type": "default", "rope_theta": 1e4}
_SOUND = {"num_filters": 4, "depths": [1, 1], "downsampling_ratios": [2], "hidden_size": 8}
#: what the config of a type is made with, before sizes are set
OWN: dict[str, dict[str, Any]] = dict.fromkeys(
    ("gemma2", "gemma3_text", "gpt_oss", "llama", "mixtral", "olmo2", "qwen3", "qwen3_moe"),
    {"num_key_value_heads": 2},
) | {
    "axk1": {"n_group": 1, "topk_group": 1},
    "bamba": _MAMBA | {"num_hidden_layers": LAYERS, "attn_layer_indices": [1]},
    "blt": {
        "vocab_size": VOCABULARY, "cross_attn_k": 1, "encoder_hash_byte_group_vocab": 50,
        "encoder_hash_byte_group_size": [3], "global_config": _LAYERS,
        "patcher_config": _LAYERS | {"vocab_size": VOCABULARY},
        **dict.fromkeys(
            ("encoder_config", "decoder_config"),
            _LAYERS | {"vocab_size": VOCABULARY, "hidden_size_global": 32, "cross_attn_k": 1},
        ),
    },
    "cohere_compass_text": {
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": 32,
        "layer_types": ["full_attention"] * LAYERS, "rope_parameters": {"full_attention": _ROTATED},
    },
    "dbrx": {"attn_config": {"kv_n_heads": 4, "rope_theta": 1e4, "clip_qkv": 8.0},
             "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2}, "max_seq_len": 64},
    "deepseek_v2": {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1,
              "topk_group": 1},
    "dots3_note": {
        "text_config": _DOTS3_NOTE | {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48},
        "vision_config": _ADAPTED | {"adapter_in_dim": 32, "mlp_layer_types": ["dense"] * LAYERS},
        "audio_config": _ADAPTED | {"adapter_input_size": 32, "downsample_hidden_size": 8},
    },
    "dots3_note_text": _DOTS3_NOTE,
    "emu3": {
        "text_config": _LAYERS | {"vocab_size": VOCABULARY, "pad_token_id": 0},
        "vq_config": {"base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1,
                      "codebook_size": 64, "hidden_size": 32, "attn_resolutions": []},
        "vocabulary_map": {"<image>": 5},
    },
    "esm": {"vocab_size": VOCABULARY, "mask_token_id": 4, "pad_token_id": 1},
    "falcon_h1": _MAMBA | {"mamba_d_ssm": 64},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1], "d_head": 8, "d_inner": 48,
               "architectures": ["FunnelModel"]},
    "gemma3n_text": {"intermediate_size": [48] * 4, "activation_sparsity_pattern": [0.0] * 4,
                     "num_hidden_layers": 4, "num_kv_shared_layers": 2, "laurel_rank": 8,
                     "layer_types": ["sliding_attention", "full_attention"] * 2},
    **dict.fromkeys(
        ("gemma4_text", "gemma4_unified_text"), _GEMMA4
    ),
    **dict.fromkeys(("gemma4", "gemma4_unified"), {"text_config": _GEMMA4}),
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": LAYERS},
    "granitemoehybrid": _MAMBA | {"layer_types": _HYBRID, "num_hidden_layers": LAYERS,
                                  "shared_intermediate_size": 48},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "use_mamba_kernels": False},
    "laguna": {"num_hidden_layers": LAYERS, "num_attention_heads_per_layer": [HEADS] * LAYERS,
               "layer_types": ["full_attention", "sliding_attention"]},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1,
                 "num_hidden_layers": LAYERS},
    "led": {"attention_window": 16},
    "lilt": {"hidden_size": 48, "type_vocab_size": 2},
    "longformer": {"attention_window": 16},
    "longt5": {"local_radius": 15},
    "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
    "mistral4": {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "head_dim": 16},
    "nemo_speechlm": {
        "text_config": _LAYERS | _NEMOTRON | {"vocab_size": VOCABULARY, "head_dim": 8},
        "word_timestamp_config": {"blank_token_id": 7},
    },
    "nemotron_h": _NEMOTRON,
    "neomme": {
        "head_dim": 16, "embedding_rank": 16, "patch_size": 4, "num_hidden_layers": LAYERS,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": _ROTATED | {"partial_rotary_factor": 1.0},
                            "full_attention": _ROTATED | {"partial_rotary_factor": 0.25}},
    },
    "pegasus_x": {"block_size": 16, "num_global_tokens": 4},
    "qwen4_exp": {
        "text_config": _QWEN4 | {"vocab_size": VOCABULARY},
        "vision_config": {"depth": LAYERS, "hidden_size": 32, "num_heads": HEADS, "intermediate_size": 48,
                          "out_hidden_size": 32, "num_position_embeddings": 16,
                          "deepstack_visual_indexes": [0]},
    },
    "qwen4_exp_text": _QWEN4,
    "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 32, "hidden_size": 32,
                        "attention_window_size": 8},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8], "attn_layers": ["local", "lsh"],
                 "attention_head_size": 8, "feed_forward_size": 48, "hidden_size": 32, "is_decoder": True},
    "roc_bert": {"pronunciation_vocab_size": 120, "shape_vocab_size": 120, "pronunciation_embed_dim": 16,
                 "shape_embed_dim": 16},
    "t5gemma": dict.fromkeys(("encoder", "decoder"), _T5_GEMMA),
    "vibevoice_asr": {
        "text_config": _LAYERS | {"vocab_size": VOCABULARY, "layer_types": ["full_attention"] * LAYERS},
        "acoustic_tokenizer_encoder_config": _SOUND, "semantic_tokenizer_encoder_config": _SOUND,
        "acoustic_tokenizer_chunk_size": 128,
    },
    "xmod": {"languages": ["en"], "default_language": "en"},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2,
              "mamba_d_state": 8, "use_mamba_kernels": False, "hidden_size": 32,
              "attention_head_dim": 16, "attention_hidden_size": 64},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"], "n_mamba_heads": 4, "mamba_d_state": 8,
               "hidden_size": 32, "attention_head_dim": 16, "attention_hidden_size": 64, "adapter_rank": 8,
               "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "mamba_headdim": 16,
               "use_mamba_kernels": False},
}  # fmt: skip


def config(kind: str, **settings: Any) -> PreTrainedConfig:
    """A small config of a type, and of the models inside it, with other settings."""
    own = OWN.get(kind, {}) | settings
    made = AutoConfig.for_model(kind, **own)
    for each, named in _all(made, own):
        _shrink(each, named)
    if made.is_encoder_decoder:  # which the files of models say
        made.pad_token_id, made.decoder_start_token_id = 0, 1
    return made


def _all(config: PreTrainedConfig, own: Any) -> Iterator[tuple[PreTrainedConfig, dict[str, Any]]]:
    """A config and those of the models inside it, with what each is made with."""
    yield config, own
    for name in config.sub_configs:
        inner = getattr(config, name, None)
        if isinstance(inner, PreTrainedConfig):
            yield from _all(inner, own.get(name) or {})


def _shrink(config: PreTrainedConfig, own: dict[str, Any]) -> None:
    """Set every size that a config has and `own` does not name, and cut lists of layers."""
    for name, value in SIZES.items():
        with contextlib.suppress(Exception):  # of some layers alone, or computed from others
            old = getattr(config, name, None)
            known = hasattr(config, name) and (old is not None or name in NULLABLE)
            if known and name not in own and not isinstance(old, (list, dict)):
                setattr(config, name, value)
    for name in ("layer_types", "mlp_layer_types"):
        kinds = getattr(config, name, None)
        name = config.attribute_map.get(name, name)
        if (
            not isinstance(kinds, list)
            or name in own
            or isinstance(getattr(type(config), name, None), property)
        ):
            continue
        attention = [kind for kind in kinds if "attention" in kind and "linear" not in kind] or kinds
        setattr(config, name, [attention[0], attention[-1]] if name == "layer_types" else kinds[:LAYERS])


def model(kind: str) -> PreTrainedModel:
    """A random model of a type, as a study loads it."""
    loading: Any = AutoModelForSeq2SeqLM if writes({"model_type": kind}) else AutoModel
    made = config(kind)
    with torch.device("meta"):
        size = sum(p.numel() for p in loading.from_config(made).parameters())
    if size > MOST:
        raise ValueError(f"{size} parameters")
    torch.manual_seed(0)
    built = loading.from_config(made).float().eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() == 2 and not parameter.any():  # through which nothing would pass
                parameter.normal_(std=0.02)
    return built


#: types that are built, and whose heads are not gated
UNGATED = (
    "blt", "convbert", "falcon_mamba", "fnet", "fsmt", "funnel", "lilt", "mamba", "mra", "reformer", "rwkv",
    "squeezebert", "xlnet",
)  # fmt: skip
#: types that are not tested, and why
NOT_BUILT = dict.fromkeys(
    ("gemma4_assistant", "gemma4_unified_assistant"), "reads keys of another model"
) | dict.fromkeys(("musicgen", "musicgen_melody", "trocr"), "not loaded by AutoModel") | {
    "gemma3n": "needs timm", "layoutlmv2": "needs detectron2",
    "perceiver": "AutoModel loads it without its embedding of texts",
    "voxtral_realtime": "reads sound beside text",
}  # fmt: skip


def pooling(built: PreTrainedModel) -> str:
    """The pooling of a type in tests."""
    return "last" if continues(built.config.to_dict()) else "mean"


def taken() -> list[str]:
    """The types that studies take, and that are tested."""
    return [kind for kind in types() if not refused({"model_type": kind}) and kind not in NOT_BUILT]
