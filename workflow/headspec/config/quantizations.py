"""Quantisations of the weights of prompted models, which transformers applies while it loads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Quantization:
    """Linear layers with packed weights; embeddings, normalisation and the head stay as they are."""

    package: str  #: that packs them
    bits: float  #: per weight, with its share of the scales
    #: of the package's config in transformers (`headspec.models.pretrained.quantized.config`)
    settings: Mapping[str, Any] = field(default_factory=dict)


#: 4-bit normal floats with scales of 8 bits for each 64 weights (Dettmers et al. 2023), LLM.int8 (Dettmers et
#: al. 2022), and torchao's types of weights with a scale for each row
QUANTIZATIONS = {
    "nf4": Quantization(
        "bitsandbytes",
        4.13,
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    ),
    "int8": Quantization("bitsandbytes", 8, {"load_in_8bit": True}),
    "torchao-int8": Quantization("torchao", 8, {"quant_type": "Int8WeightOnlyConfig"}),
    "torchao-float8": Quantization("torchao", 8, {"quant_type": "Float8WeightOnlyConfig"}),
}
