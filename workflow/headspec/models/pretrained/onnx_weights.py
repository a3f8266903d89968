"""The weights in an ONNX file; quantised ones as the float32 values that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headspec.errors import EncoderError

#: operators that are computed where all their inputs are constants
FOLDED = ("Constant", "Identity", "Transpose", "QuantizeLinear", "DequantizeLinear")
#: positions of an operand, its scale and its zero point among the inputs of operators on quantised operands
OPERANDS = {
    "QLinearMatMul": [(3, 4, 5)],
    "QLinearAdd": [(0, 1, 2), (3, 4, 5)],
    "QLinearMul": [(0, 1, 2), (3, 4, 5)],
    "QGemm": [(3, 4, 5)],
    "DynamicQuantizeMatMul": [(1, 2, 3)],
    "MatMulIntegerToFloat": [(1, 3, 5)],
}
#: position of the weight matrix among the inputs of operators that multiply by one
MATRIX = {
    "MatMul": 1, "Gemm": 1, "MatMulInteger": 1, "DynamicQuantizeMatMul": 1, "MatMulIntegerToFloat": 1,
    "QLinearMatMul": 3, "QGemm": 3,
}  # fmt: skip

NOT_QUANTISED = ("FLOAT", "INT32", "INT64", "BOOL")  # weights, and indices


@dataclass(frozen=True)
class Stored:
    """A tensor in an ONNX file.

    Attributes
    ----------
    value : float32
    rows : {"in", "out", None}
        What the rows of a weight matrix stand for: inputs or outputs. None for other tensors.
    """

    value: np.ndarray
    rows: str | None


@dataclass(frozen=True)
class Export:
    """The tensors of an ONNX file.

    Attributes
    ----------
    path : the file
    named : tensors by their names in the file
    used : weight matrices by the module that uses them, because exporters often drop their names
    quantised : types of matrices that were quantised, such as INT8
    unread : types, such as FLOAT16, of matrices that are neither float32, quantised nor indices
    """

    path: Path
    named: dict[str, Stored]
    used: dict[str, Stored]
    quantised: list[str]
    unread: list[str]


def read(path: Path) -> Export:
    """The tensors of an ONNX file; EncoderError if it is not one, or onnx is not installed."""
    try:
        import onnx
    except ImportError:
        raise EncoderError(
            "reading ONNX files needs the package onnx, which is not installed: pip install onnx onnxruntime"
        ) from None
    try:
        graph = onnx.load(path).graph
    except Exception as error:
        raise EncoderError(f"'{path}' is not a readable ONNX file: {error}") from None
    if not graph.node:
        raise EncoderError(f"'{path}' is not a readable ONNX file: it has no graph")
    weights = _Weights(graph)
    for node in graph.node:
        try:
            weights.visit(node)
        except Exception as error:
            raise EncoderError(f"'{path}' is not a readable ONNX file: {node.name}: {error}") from None
    kinds = onnx.TensorProto
    others = {
        tensor.name: kinds.DataType.Name(tensor.data_type)
        for tensor in graph.initializer
        if len(tensor.dims) > 1
        and tensor.data_type not in (kinds.FLOAT, kinds.INT32, kinds.INT64, kinds.BOOL)
    }
    read = weights.dequantised & others.keys()
    return Export(
        path,
        *weights.tensors(),
        quantised=sorted({others[name] for name in read}),
        unread=sorted({others[name] for name in others.keys() - read}),
    )


@dataclass
class _Weights:
    """Collects weights while it visits the nodes of a graph in their order, inputs before uses.

    Attributes
    ----------
    graph : onnx.GraphProto
    constants : value of every tensor that depends on no input of the graph
    floats : the float32 ones among them, and what quantised ones stand for
    rows : `Stored.rows` of tensors in `floats`
    users : the tensor in `floats` that each module multiplies by
    dequantised : names of quantised tensors whose values are in `floats`
    """

    graph: Any
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    floats: dict[str, np.ndarray] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    dequantised: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        from onnx.numpy_helper import to_array

        for tensor in self.graph.initializer:
            self._set(tensor.name, to_array(tensor))
        self.gathered: dict[str, str] = {}  # rows of a quantised table: the table
        self.original: dict[str, str] = {}  # a dequantised tensor: its name before it was quantised
        self.producers = {name: node for node in self.graph.node for name in node.output}
        self.consumers = {name: node for node in self.graph.node for name in node.input}

    def tensors(self) -> tuple[dict[str, Stored], dict[str, Stored]]:
        """`Export.named` and `Export.used`."""
        named = {name: Stored(value, self.rows.get(name)) for name, value in self.floats.items()}
        return named, {module: named[name] for module, name in self.users.items()}

    def visit(self, node: Any) -> None:
        """Compute the node if it is constant, and note the weights that it uses."""
        settings = {each.name: each for each in node.attribute}
        if node.op_type in FOLDED and all(name in self.constants for name in node.input if name):
            self._fold(node)
        elif node.op_type == "Gather" and node.input[0] in self.constants:
            self.gathered[node.output[0]] = node.input[0]
        elif node.op_type == "DequantizeLinear" and node.input[0] in self.gathered:
            self._dequantise(self.gathered[node.input[0]], *node.input[1:3], axis=-1)
        transposed = "transB" in settings and settings["transB"].i
        for operand in self._operands(node):
            self._dequantise(*operand, axis=0 if transposed else -1)
        if node.op_type in MATRIX:
            name = node.input[MATRIX[node.op_type]]
            original = self.original.get(name, name)
            if original in self.floats:
                self.rows[name] = self.rows[original] = "out" if transposed else "in"
                *module, _ = node.name.strip("/").split("/")  # the last part is the operator
                self.users[".".join([*module, "weight"])] = original

    def _set(self, name: str, value: np.ndarray) -> None:
        self.constants[name] = value
        if value.dtype == np.float32:
            self.floats[name] = value

    def _fold(self, node: Any) -> None:
        from onnx.reference import ReferenceEvaluator

        given = {name: self.constants[name] for name in node.input if name}
        (value,) = ReferenceEvaluator(node).run(None, given)
        self._set(node.output[0], value)
        if node.op_type == "DequantizeLinear":
            self._dequantised(node.input[0], node.output[0], value)

    def _operands(self, node: Any) -> Iterator[tuple[str, ...]]:
        """Constant operand, scale and zero point (perhaps empty) of an operator on quantised operands."""
        inputs = [*node.input, *[""] * 9]
        if node.op_type == "MatMulInteger":
            found = [(inputs[1], self._factor(node), inputs[3])]
        else:
            found = [tuple(inputs[at] for at in positions) for positions in OPERANDS.get(node.op_type, [])]
        if node.op_type == "QGemm" and {inputs[1], inputs[4]} <= self.constants.keys():
            product = f"{inputs[1]} * {inputs[4]}"
            self.constants[product] = self.constants[inputs[1]] * self.constants[inputs[4]]
            found.append((inputs[6], product, ""))  # the bias
        for name, scale, zero in found:
            name = self.gathered.get(name, name)
            if name in self.constants and scale in self.constants:
                yield name, scale, zero

    def _factor(self, node: Any) -> str:
        """The scale of the weights of a MatMulInteger: the constant by which its result is multiplied.

        The result is multiplied by both operands' scales at once, or by one after the other.
        """
        output = node.output[0]
        while (user := self.consumers.get(output)) and user.op_type in ("Cast", "Mul"):
            for name in user.input:
                product = self.producers.get(name)
                inputs = product.input if product and product.op_type == "Mul" else []
                for factor in (name, *inputs):
                    if factor in self.constants:
                        return str(factor)
            output = user.output[0]
        return ""

    def _dequantise(self, name: str, scale: str, zero: str = "", *, axis: int) -> None:
        """Note (tensor - zero point) * scale, with scale and zero point of the tensor or along `axis`."""
        from onnx import helper

        inputs = [name, scale, zero] if zero else [name, scale]
        output = f"{name}_DequantizeLinear"
        self._fold(helper.make_node("DequantizeLinear", inputs, [output], axis=axis))
        self.original[name] = self.original[output]

    def _dequantised(self, name: str, output: str, value: np.ndarray) -> None:
        original = name.removesuffix("_quantized")  # as onnxruntime calls what it quantises
        self.floats[original] = value.astype(np.float32)
        self.original[output] = original
        self.dequantised.add(name)
