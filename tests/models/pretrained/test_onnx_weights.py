"""Quantised weights in ONNX files of every style are the matrices that onnxruntime multiplies by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from headspec.errors import EncoderError
from headspec.models.pretrained.onnx_weights import Export, read

INPUTS, OUTPUTS = 6, 4
OPSETS = {"": 21, "com.microsoft": 1}
#: of activations between 0 and 1, whose zero and one are then exact
SCALE, ZERO = np.float32(1 / 255), np.uint8(0)
#: of results between -32 and 32
RESULT, MIDDLE = np.float32(0.25), np.uint8(128)


def node(kind: str, inputs: str, output: str, name: str = "", domain: str = "", **settings: Any) -> Any:
    return onnx.helper.make_node(
        kind, inputs.replace("-", " ").split(" "), [output], name=name, domain=domain, **settings
    )


def saved(path: Path, nodes: list[Any], ids: bool = False, **constants: np.ndarray) -> Path:
    """A model of the nodes from `x` to `y`, and of tensors by name."""
    kinds = onnx.TensorProto
    x = onnx.helper.make_tensor_value_info("x", kinds.INT64 if ids else kinds.FLOAT, None)
    y = onnx.helper.make_tensor_value_info("y", kinds.FLOAT, None)
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = onnx.helper.make_graph(nodes, "graph", [x], [y], tensors)
    opsets = [onnx.helper.make_opsetid(*each) for each in OPSETS.items()]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def matrix(path: Path, x: np.ndarray) -> np.ndarray:
    """The output of onnxruntime; of the identity matrix it is the matrix that is multiplied by."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


QUANTISE = node("DynamicQuantizeLinear", "x", "xq")
QUANTISE.output.extend(["xs", "xz"])
STATIC = node("QuantizeLinear", "x xs xz", "xq")
RESULTS = node("DequantizeLinear", "yq ys yz", "y")
CAST = node("Cast", "p", "f", to=1)
PRODUCT = node("MatMulInteger", "xq W_quantized xz z", "p", "/m/MatMul_quant")
STYLES = {
    "QDQ": [
        node("DequantizeLinear", "W_quantized s z", "W", axis=1),
        node("MatMul", "x W", "y", "/m/MatMul"),
    ],
    "QDQ-transposed": [
        node("DequantizeLinear", "W_quantized s z", "D", axis=0),
        node("Transpose", "D", "W", perm=[1, 0]),
        node("MatMul", "x W", "y", "/m/MatMul"),
    ],
    "QDQ-Gemm": [
        node("DequantizeLinear", "W_quantized s z", "W", axis=0),
        node("Gemm", "x W", "y", "/m/Gemm", transB=1),
    ],
    "dynamic": [QUANTISE, node("Mul", "xs s", "t"), PRODUCT, CAST, node("Mul", "f t", "y")],
    "dynamic-by-turns": [QUANTISE, PRODUCT, CAST, node("Mul", "f xs", "g"), node("Mul", "g s", "y")],
    "dynamic-fused": [
        node("DynamicQuantizeMatMul", "x W_quantized s z", "y", "/m/MatMul", "com.microsoft"),
    ],
    "dynamic-to-float": [
        QUANTISE,
        node("MatMulIntegerToFloat", "xq W_quantized xs s xz z", "y", "/m/MatMul", "com.microsoft"),
    ],
    "QOperator": [
        STATIC, node("QLinearMatMul", "xq xs xz W_quantized s z ys yz", "yq", "/m/MatMul_quant"), RESULTS,
    ],
    "QOperator-Gemm": [
        STATIC,
        node(
            "QGemm", "xq xs xz W_quantized s z b_quantized ys yz", "yq", "/m/Gemm", "com.microsoft", transB=1
        ),
        RESULTS,
    ],
}  # fmt: skip
OUTPUTS_FIRST = ("QDQ-transposed", "QDQ-Gemm", "QOperator-Gemm")


@pytest.mark.parametrize("zero", [0, 3, -5], ids=lambda zero: f"zero{zero}")
@pytest.mark.parametrize("by", ["tensor", "channel"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8], ids=["int8", "uint8"])
@pytest.mark.parametrize("style", STYLES)
def test_a_quantised_matrix_is_the_one_onnxruntime_multiplies_by(style, kind, by, zero, tmp_path):
    rng = np.random.default_rng(0)
    shape = (OUTPUTS, INPUTS) if style in OUTPUTS_FIRST else (INPUTS, OUTPUTS)
    info = np.iinfo(kind)
    quantised = rng.integers(info.min, info.max + 1, shape).astype(kind)
    middle = zero + (128 if kind is np.uint8 else 0)
    scale, zeros = np.float32(0.03), np.asarray(middle, kind)
    if by == "channel":
        scale = rng.uniform(0.01, 0.05, OUTPUTS).astype(np.float32)
        zeros = (middle + np.arange(OUTPUTS)).astype(kind)
    constants = {"W_quantized": quantised, "s": scale, "z": zeros}
    if style.startswith("QOperator"):
        constants |= {"xs": SCALE, "xz": ZERO, "ys": RESULT, "yz": MIDDLE}
    if style == "QOperator-Gemm":
        constants["b_quantized"] = np.zeros(OUTPUTS, np.int32)
    path = saved(tmp_path / "m.onnx", STYLES[style], **constants)
    export = read(path)
    stored = export.used["m.weight"]
    axis = 0 if style in OUTPUTS_FIRST else 1
    along = [-1, 1] if axis == 0 else [1, -1]
    wide = quantised.astype(np.float32) - zeros.astype(np.float32).reshape(along if by == "channel" else ())
    wanted = wide * np.reshape(scale, along if by == "channel" else ())
    ours = stored.value.T if stored.rows == "out" else stored.value
    np.testing.assert_array_equal(ours, wanted.T if axis == 0 else wanted)
    theirs = matrix(path, np.eye(INPUTS, dtype=np.float32))
    rounding = RESULT / 2 + 1e-6 if style.startswith("QOperator") else 1e-5
    np.testing.assert_allclose(ours, theirs, atol=rounding, rtol=0)
    assert export.quantised == ["INT8" if kind is np.int8 else "UINT8"] and not export.unread
    assert np.array_equal(export.named["W"].value, wanted) or style == "QDQ-transposed"


@pytest.mark.parametrize("style", [style for style in STYLES if not style.startswith("QOperator")])
def test_a_zero_point_may_be_missing(style, tmp_path):
    """It is 0 then; where it stands between other inputs, its name is empty."""
    nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in STYLES[style]]
    for each in nodes:
        each.input[:] = ["" if name == "z" else name for name in each.input]
        while each.input[-1] == "":
            del each.input[-1]
    shape = (OUTPUTS, INPUTS) if style in OUTPUTS_FIRST else (INPUTS, OUTPUTS)
    quantised = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    path = saved(tmp_path / "m.onnx", nodes, W_quantized=quantised, s=np.float32(0.5))
    stored = read(path).used["m.weight"]
    ours = stored.value.T if stored.rows == "out" else stored.value
    np.testing.assert_allclose(ours, matrix(path, np.eye(INPUTS, dtype=np.float32)), atol=1e-4, rtol=0)


def test_a_bias_of_integers_has_the_scales_of_both_factors(tmp_path):
    scale = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    path = saved(
        tmp_path / "m.onnx", STYLES["QOperator-Gemm"],
        W_quantized=np.zeros((OUTPUTS, INPUTS), np.int8), s=scale, z=np.zeros(OUTPUTS, np.int8),
        b_quantized=np.array([10000, -5000, 3000, 2000], np.int32),
        xs=SCALE, xz=ZERO, ys=RESULT, yz=MIDDLE,
    )  # fmt: skip
    bias = read(path).named["b"].value
    np.testing.assert_allclose(bias, matrix(path, np.zeros((1, INPUTS), np.float32))[0], atol=RESULT / 2)
    assert np.abs(bias).min() > 2


def test_a_term_of_a_sum_of_integers_is_read(tmp_path):
    term = np.array([0, 100, 200, 255], np.uint8)
    add = node("QLinearAdd", "b_quantized s z xq xs xz ys yz", "yq", "/m/Add", "com.microsoft")
    path = saved(
        tmp_path / "m.onnx", [STATIC, add, RESULTS],
        b_quantized=term, s=np.float32(0.1), z=np.uint8(90), xs=SCALE, xz=ZERO, ys=RESULT, yz=MIDDLE,
    )  # fmt: skip
    bias = read(path).named["b"].value
    np.testing.assert_allclose(bias, matrix(path, np.zeros((1, 4), np.float32))[0], atol=RESULT / 2)


@pytest.mark.parametrize("kind", [np.int8, np.uint8], ids=["int8", "uint8"])
@pytest.mark.parametrize("by", ["tensor", "channel"])
def test_a_table_is_dequantised_before_or_after_rows_are_taken(kind, by, tmp_path):
    rng = np.random.default_rng(0)
    table = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (9, 4)).astype(kind)
    scale, zero = np.float32(0.1), np.asarray(7, kind)
    if by == "channel":
        scale, zero = rng.uniform(0.1, 0.2, 4).astype(np.float32), np.arange(4).astype(kind)
    orders = {
        "before": [node("DequantizeLinear", "E_quantized s z", "E", axis=1), node("Gather", "E x", "y")],
        "after": [node("Gather", "E_quantized x", "g"), node("DequantizeLinear", "g s z", "y", axis=2)],
    }
    for order, nodes in orders.items():
        path = saved(tmp_path / f"{order}.onnx", nodes, ids=True, E_quantized=table, s=scale, z=zero)
        stored = read(path).named["E"]
        assert stored.rows is None
        np.testing.assert_allclose(stored.value, matrix(path, np.arange(9)[None])[0], rtol=1e-6)


def test_scales_may_be_nodes(tmp_path):
    """As torch exports them."""
    tensors = {"s": np.float32(0.5), "z": np.int8(2)}
    values = {name: onnx.numpy_helper.from_array(np.asarray(value)) for name, value in tensors.items()}
    scales = [onnx.helper.make_node("Constant", [], [name], value=value) for name, value in values.items()]
    quantised = np.arange(24, dtype=np.int8).reshape(INPUTS, OUTPUTS)
    path = saved(tmp_path / "m.onnx", scales + STYLES["QDQ"], W_quantized=quantised)
    np.testing.assert_array_equal(read(path).used["m.weight"].value, (quantised - np.float32(2)) * 0.5)


def test_weights_that_are_quantised_when_the_model_runs(tmp_path):
    nodes = [node("QuantizeLinear", "m.weight s z", "W_quantized"), *STYLES["QDQ"]]
    weight = np.linspace(-1, 1, 24, dtype=np.float32).reshape(INPUTS, OUTPUTS)
    path = saved(tmp_path / "m.onnx", nodes, **{"m.weight": weight}, s=np.float32(0.1), z=np.int8(0))
    stored = read(path).used["m.weight"]
    assert stored.rows == "in"
    np.testing.assert_allclose(stored.value, matrix(path, np.eye(INPUTS, dtype=np.float32)), atol=1e-6)


def unread(export: Export) -> bool:
    return export.unread == ["INT8"] and not export.used and "W" not in export.named


def test_a_matrix_without_a_constant_scale_is_not_guessed(tmp_path):
    quantised = np.ones((INPUTS, OUTPUTS), np.int8)
    nodes = [QUANTISE, PRODUCT, CAST, node("Mul", "f xs", "y")]
    assert unread(read(saved(tmp_path / "m.onnx", nodes, W_quantized=quantised, z=np.int8(0))))


def test_a_scale_of_another_size_is_an_error(tmp_path):
    quantised, scale = np.ones((INPUTS, OUTPUTS), np.int8), np.ones(OUTPUTS + 1, np.float32)
    path = saved(
        tmp_path / "m.onnx", STYLES["QDQ"], W_quantized=quantised, s=scale, z=np.zeros(OUTPUTS + 1, np.int8)
    )
    with pytest.raises(EncoderError, match="is not a readable ONNX file"):
        read(path)
