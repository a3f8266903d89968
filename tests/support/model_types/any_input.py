"""Models whose inputs are unusual, and what works for them: the table of docs/code/architectures.md."""

import re
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import peft
import torch
import transformers as hub
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headspec import HeadGates, head_importance, load, remove_heads, save
from headspec.errors import ModelError
from headspec.head_arrays import CROSS, DECODER, ENCODER, SELF
from headspec.heads.any_model.user_model import gated
from headspec.models.attention.gate_checks import first
from support.model_types import any_model
from support.paths import ROOT

Batch = dict[str, torch.Tensor]
SIZES = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 32}
WORDS = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
STACKS = WORDS | {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    "max_position_embeddings": 64, "decoder_start_token_id": 2, "num_labels": 3,
}  # fmt: skip
SOUND = SIZES | {
    "conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16,
    "output_hidden_size": 32, "layerdrop": 0.0, "num_labels": 3, "vocab_size": 32,
}  # fmt: skip
LABELS = {"labels": torch.tensor([0, 2, 1])}
LORA = {"init_lora_weights": False, "r": 4, "task_type": "SEQ_CLS"}


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def ended() -> Batch:
    """Texts of different lengths with one end each, padded."""
    batch = any_model.classified()
    ids = (batch["input_ids"] % 60 + 3).where(batch["attention_mask"].bool(), 0)
    ids[torch.arange(3), batch["attention_mask"].sum(1) - 1] = 1
    return batch | {"input_ids": ids}


def continued() -> Batch:
    batch = ended()
    return batch | {"labels": batch["input_ids"].where(batch["attention_mask"].bool(), -100)}


def t5() -> PreTrainedModel:
    sizes = {"d_model": 32, "d_kv": 8, "num_heads": 4, "num_layers": 2, "d_ff": 32, "num_labels": 3}
    return hub.T5ForSequenceClassification(hub.T5Config(**WORDS, **sizes, decoder_start_token_id=0))


def gpt2() -> PreTrainedModel:
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "num_labels": 3}
    config = hub.GPT2Config(**WORDS | {"pad_token_id": None}, **sizes)
    return hub.GPT2ForSequenceClassification(config)


def trocr() -> PreTrainedModel:
    reader = hub.ViTConfig(**SIZES, image_size=8, patch_size=4)
    writer = hub.TrOCRConfig(**STACKS, cross_attention_hidden_size=32)
    config = hub.VisionEncoderDecoderConfig.from_encoder_decoder_configs(reader, writer)
    config.decoder_start_token_id, config.pad_token_id = 2, 0
    return hub.VisionEncoderDecoderModel(config)


def informer() -> PreTrainedModel:
    sizes = {name: value for name, value in STACKS.items() if name not in WORDS and name != "num_labels"}
    given = {"context_length": 8, "prediction_length": 4, "lags_sequence": [1, 2], "num_time_features": 1}
    return hub.InformerForPrediction(hub.InformerConfig(**given, **sizes, distil=False))


def future() -> Batch:
    past = {"past_values": normal(3, 10), "past_time_features": normal(3, 10, 1)}
    later = {"future_values": normal(3, 4), "future_time_features": normal(3, 4, 1)}
    return past | later | {"past_observed_mask": torch.ones(3, 10)}


def deberta() -> PreTrainedModel:
    """Adapters on queries, values and W_O of attention that is not at the interface."""
    relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "num_labels": 3}
    config = hub.DebertaV2Config(**SIZES, **relative, vocab_size=64, pad_token_id=0)
    layers = ["query_proj", "value_proj", "dense"]
    made = peft.get_peft_model(
        hub.DebertaV2ForSequenceClassification(config), peft.LoraConfig(target_modules=layers, **LORA)
    )
    return made  # type: ignore[return-value]


def sam() -> PreTrainedModel:
    seen = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "window_size": 3}
    vision = {"global_attn_indexes": [1], "mlp_dim": 16, "num_pos_feats": 4, "output_channels": 8}
    sizes = {"image_size": 32, "patch_size": 4, "initializer_range": 0.2}
    mask = {"hidden_size": 8, "mlp_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = hub.SamConfig(
        vision_config=seen | vision | sizes,
        prompt_encoder_config={"hidden_size": 8, "mask_input_channels": 4} | sizes,
        mask_decoder_config=mask | {"iou_head_hidden_dim": 8},
        initializer_range=0.2,
    )
    return hub.SamModel(config)


def windows() -> PreTrainedModel:
    sizes = {"image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4]}
    return hub.SwinForImageClassification(hub.SwinConfig(**sizes, window_size=4, num_labels=3))


def series(**others: Any) -> PreTrainedModel:
    sizes = {"d_model": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "ffn_dim": 16}
    patches = {"num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4}
    config = hub.PatchTSTConfig(**sizes, **patches, **others, num_targets=3, use_cls_token=True)
    return hub.PatchTSTForClassification(config)


class Kind(NamedTuple):
    """A model and a batch for it; W_O, as in names of modules; and the loss, if it is not the model's."""

    model: Callable[[], Any]
    batch: Callable[[], Batch]
    output: str = r"(attn\.out_proj|attention\.output\.dense|o_proj)$"
    loss: Callable[[Any, Any], torch.Tensor] | None = None
    note: str = ""


KINDS = {
    "BartForSequenceClassification": Kind(
        lambda: hub.BartForSequenceClassification(hub.BartConfig(**STACKS)), ended
    ),
    "BertForMultipleChoice": Kind(
        lambda: hub.BertForMultipleChoice(hub.BertConfig(**SIZES, vocab_size=64)),
        lambda: {"input_ids": (any_model.ids(9) % 60).view(3, 3, 7), **LABELS},
    ),
    "DebertaV2ForSequenceClassification with LoRA": Kind(deberta, ended),
    "GPT2ForSequenceClassification without a padding token": Kind(
        gpt2, ended, r"attn\.c_proj$", note="batches of one text: the model takes no others"
    ),
    "InformerForPrediction": Kind(
        informer, future, loss=lambda outputs, batch: outputs.params[1].flatten(1).sum(1)
    ),
    "MvpForConditionalGeneration with prompts": Kind(
        lambda: hub.MvpForConditionalGeneration(
            hub.MvpConfig(**STACKS, use_prompt=True, prompt_length=6, prompt_mid_dim=16)
        ),
        continued,
    ),
    "MvpForSequenceClassification": Kind(
        lambda: hub.MvpForSequenceClassification(hub.MvpConfig(**STACKS)), ended
    ),
    "PatchTSTForClassification": Kind(
        series,
        lambda: {"past_values": normal(3, 16, 2), "target_values": LABELS["labels"]},
        loss=lambda outputs, batch: cross_entropy(
            outputs.prediction_logits, batch["target_values"], reduction="none"
        ),
    ),
    "Phi3ForCausalLM with grouped keys": Kind(
        lambda: hub.Phi3ForCausalLM(hub.Phi3Config(**SIZES, **WORDS, num_key_value_heads=2)), continued
    ),
    "SamModel": Kind(
        sam,
        lambda: {"pixel_values": normal(3, 3, 32, 32), "input_points": normal(3, 1, 2, 2).abs() * 9},
        r"attn\w*\.(out_)?proj$",
        lambda outputs, batch: outputs.pred_masks.flatten(1).square().mean(1),
    ),
    "SwinForImageClassification": Kind(windows, lambda: {"pixel_values": normal(3, 3, 16, 16), **LABELS}),
    "T5ForSequenceClassification": Kind(t5, ended, r"(SelfAttention|EncDecAttention)\.o$"),
    "TimesformerForVideoClassification": Kind(
        lambda: hub.TimesformerForVideoClassification(
            hub.TimesformerConfig(**SIZES, image_size=8, patch_size=4, num_frames=3, num_labels=3)
        ),
        lambda: {"pixel_values": normal(3, 3, 3, 8, 8), **LABELS},
    ),
    "VisionEncoderDecoderModel of ViT and TrOCR": Kind(
        trocr, lambda: {"pixel_values": normal(3, 3, 8, 8), "labels": any_model.ids(3, 5) % 60}
    ),
    "Wav2Vec2BertForSequenceClassification": Kind(
        lambda: hub.Wav2Vec2BertForSequenceClassification(
            hub.Wav2Vec2BertConfig(**SOUND, feature_projection_input_dim=16)
        ),
        lambda: {"input_features": normal(3, 20, 16), **LABELS},
        r"self_attn\.linear_out$",
    ),
    "Wav2Vec2ConformerForSequenceClassification": Kind(
        lambda: hub.Wav2Vec2ConformerForSequenceClassification(
            hub.Wav2Vec2ConformerConfig(**SOUND, position_embeddings_type="relative")
        ),
        lambda: {"input_values": normal(3, 900), **LABELS},
        r"self_attn\.linear_out$",
    ),
}
#: kinds whose windows, frames or channels are in the batch
FOLDED = (
    "PatchTSTForClassification", "SamModel", "SwinForImageClassification",
    "TimesformerForVideoClassification",
)  # fmt: skip


def made(kind: str) -> tuple[Any, list[Batch]]:
    """A model whose heads matter, and its batches."""
    torch.manual_seed(0)
    model, batch = KINDS[kind].model(), KINDS[kind].batch()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    one = KINDS[kind].note.startswith("batches of one")
    parts = [slice(i, i + 1) for i in range(3)] if one else [slice(3)]
    return model.eval(), [{name: value[part] for name, value in batch.items()} for part in parts]


def kind_of(model: Any, name: str) -> str:
    """The kind of attention of a module, by its name."""
    if not model.config.is_encoder_decoder:
        return SELF
    across = re.search("cross|EncDec|encoder_attn", name)
    return CROSS if across else DECODER if re.search(r"(^|\.)decoder\.", name) else ENCODER


def by_hooks(kind: str, model: Any, gates: HeadGates, batches: list[Batch]) -> np.ndarray:
    """Derivatives of the loss by factors on the parts of W_O's input, an example at a time; by plain hooks.

    Rows are in the order of calls, one kind of attention after the other.
    """
    order, called = [ENCODER, DECODER, CROSS, SELF], []
    watched = [
        model.get_submodule(name).register_forward_pre_hook(lambda *_, name=name: called.append(name))
        for name, _ in model.named_modules()
        if re.search(KINDS[kind].output, name)
    ]
    model(**batches[0])
    for handle in watched:
        handle.remove()
    names = sorted(called, key=lambda name: order.index(kind_of(model, name)))
    factors = [torch.ones(int(heads), requires_grad=True) for heads in gates.exists.sum(1)]

    def hook(factor: torch.Tensor) -> Callable[..., Any]:
        def scaled(module: Any, args: Any) -> Any:
            by_head = args[0].unflatten(-1, (len(factor), -1))
            return (by_head * factor[:, None]).flatten(-2), *args[1:]

        return scaled

    handles = [
        model.get_submodule(name).register_forward_pre_hook(hook(factor))
        for name, factor in zip(names, factors, strict=True)
    ]
    values = []
    for batch in batches:
        for i in range(len(next(iter(batch.values())))):
            one = {name: value[i : i + 1] for name, value in batch.items()}
            outputs, loss = model(**one), KINDS[kind].loss
            total = outputs.loss if loss is None else loss(outputs, one).sum()
            derivatives = torch.autograd.grad(total, factors)
            row = np.full(gates.exists.shape, np.nan)
            row[gates.exists] = torch.cat(derivatives).numpy()
            values.append(row)
    for handle in handles:
        handle.remove()
    return np.stack(values)


def check_scored(kind: str) -> None:
    """Scores of examples are derivatives by plain hooks; rows are of the kinds that names say."""
    model, batches = made(kind)
    gates = gated(model, batches[0])
    rows = gates.rows
    assert [kind_of(model, name) for name in rows["module"]] == rows["kind"].tolist()
    expected = by_hooks(kind, model, gates, batches)
    scores = head_importance(model, batches, KINDS[kind].loss, per_example=True)
    np.testing.assert_allclose(scores, expected, rtol=1e-2, atol=1e-3 * np.nanmax(np.abs(expected)))
    assert (np.nanmax(np.abs(expected), (0, 2)) > 0).all()


def check_removed(kind: str) -> None:
    """A model without some heads, of another number in each layer, computes what it does with them closed."""
    model, batches = made(kind)
    inputs = {name: value[:2] for name, value in batches[0].items()}
    gates = HeadGates(model, inputs)
    heads = np.zeros_like(gates.exists)
    heads[0, 0] = heads[-1, 1] = True
    small = remove_heads(model, heads, inputs)
    with torch.no_grad():
        with gates.closed(heads):
            expected = first(model(**batches[0]))
        torch.testing.assert_close(first(small(**batches[0])), expected, rtol=1e-3, atol=1e-4)
        if not isinstance(model, peft.PeftModel):
            with tempfile.TemporaryDirectory() as folder:
                save(small, folder)
                torch.testing.assert_close(first(load(folder)(**batches[0])), expected, rtol=1e-3, atol=1e-4)


def why_not(check: Callable[[str], Any], kind: str) -> str:
    """Return why something is refused; empty if it works."""
    try:
        check(kind)
    except ModelError as error:
        return str(error).split(": ", 1)[1]
    return ""


def found(kind: str) -> list[str]:
    """A row of the table."""
    alone = why_not(lambda kind: HeadGates(made(kind)[0]), kind)
    scored = why_not(check_scored, kind)
    removed = scored or why_not(check_removed, kind)
    works = ["no" if reason else "yes" for reason in (alone, scored, removed)]
    return [kind, *works, KINDS[kind].note or scored or removed]


BEGIN, END = (
    "<!-- inputs: written by python -m support.model_types.any_input -->",
    "<!-- end of inputs -->",
)
PAGE = ROOT / "docs/code/architectures.md"


def table(rows: list[list[str]]) -> str:
    head = ["model", "`HeadGates(model)`", "with a batch", "`remove_heads`", "why not"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def stated() -> dict[str, list[str]]:
    """The rows of the page, by model."""
    part = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()]
    return {row[0]: row for row in rows[2:]}


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    written = table([found(kind) for kind in KINDS])
    PAGE.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}", encoding="utf-8")
