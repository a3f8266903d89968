"""Loading a whole language model, with the head that gives tokens their logits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headspec.errors import EncoderError
from headspec.models.language.head import check
from headspec.models.pretrained.from_pretrained import location, silence
from headspec.models.pretrained.half import DTYPES, keep_half

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def language_model(path: Path, where: str, causal: bool = True, dtype: str = "fp32") -> PreTrainedModel:
    """The causal or masked language model at `path`.

    Parameters
    ----------
    where : config key of its source, and the source, for errors
    dtype : of its weights, {"fp32", "bf16"}; the latter as by `keep_half`

    Raises
    ------
    EncoderError
        It cannot be loaded, its weights have no language-model head, or `LanguageHead` is not its head.
    """
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    silence()
    try:
        model, info = (AutoModelForCausalLM if causal else AutoModelForMaskedLM).from_pretrained(
            **location(path),
            dtype=DTYPES[dtype],
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise EncoderError(f"{where} cannot be loaded as a language model: {error}") from None
    if missing := info["missing_keys"]:
        raise EncoderError(f"{where} has no language-model head: its weights lack {min(missing)}")
    if dtype == "bf16":
        keep_half(model)
    check(model.eval(), where)
    return model
