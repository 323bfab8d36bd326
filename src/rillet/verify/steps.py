"""Judges differences of quantized models: one step where the rounding is a tie, and what follows from such.

A quantized value is a quotient rounded to an integer. The quotient is computed in floats, by each implementation in its
own order, so that two right ones may round it to neighbouring integers where it lies halfway between: no further from
there than floats may differ at all (``difference.TOLERANCES``). A step is therefore explained where the quotient, taken
from the node's inputs as Rillet has them, rounds to Rillet's integer when it is moved by that tolerance, and to nothing
more than one step away.

What is computed from such values departs from the oracles by more. It is judged by its node alone: by what an oracle
makes of the node's inputs as Rillet has them. A value that departs with no such step before it is never excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from rillet.verify.difference import TOLERANCES, Difference, difference
from rillet.verify.oracles import ORACLES, OracleError, run_reference
from rillet.verify.submodel import reads, submodel, value_types

if TYPE_CHECKING:
    import onnx

Values = Mapping[str, np.ndarray]

FOLLOWS = "its node computes from its inputs what the oracle does; the inputs differ by a step of quantization before"

# Operator → the same on floats; the places of integers, scale and zero point of its operands, of an int32 bias, and of
# the result's scale and zero point.
_PAIRS = ((0, 1, 2), (3, 4, 5))
_FLOAT_FORMS: dict[str, tuple[str, tuple[tuple[int, int, int], ...], int | None, tuple[int, int]]] = {
    "QLinearConv": ("Conv", _PAIRS, 8, (6, 7)),
    "QLinearMatMul": ("MatMul", _PAIRS, None, (6, 7)),
    "QGemm": ("Gemm", _PAIRS, 6, (7, 8)),
    "QLinearAdd": ("Add", _PAIRS, None, (6, 7)),
    "QLinearMul": ("Mul", _PAIRS, None, (6, 7)),
    "QLinearSigmoid": ("Sigmoid", _PAIRS[:1], None, (3, 4)),
    "QLinearLeakyRelu": ("LeakyRelu", _PAIRS[:1], None, (3, 4)),
    "QLinearSoftmax": ("Softmax", _PAIRS[:1], None, (3, 4)),
    "QLinearAveragePool": ("AveragePool", _PAIRS[:1], None, (3, 4)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", _PAIRS[:1], None, (3, 4)),
}
_NOT_OF_FLOATS = ("channels_last", "opset")  # attributes


class Judge:
    """Judges values of one model, in the order of its nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._nodes = {o: node for node in model.graph.node for o in node.output if o}
        self._constants = {t.name: t for t in model.graph.initializer}
        self._stepped: set[str] = set()

    @property
    def found_steps(self) -> bool:
        """Whether a value has been explained."""
        return bool(self._stepped)

    def explanation(self, name: str, actual: np.ndarray, values: Values, far: Mapping[str, Difference]) -> str:
        """Why ``actual``, which differs from the oracles by ``far``, is right nonetheless; empty if it is not.

        ``values``: the node's inputs as Rillet has them, as far as known.
        """
        node = self._nodes.get(name)
        if node is None or any(n not in values and n not in self._constants for n in reads(node)):
            return ""
        follows = self._follows_a_step(node)
        if not follows and not any(d.max_abs <= 1 for d in far.values()):
            return ""
        expected = self._alone(node, name, values)
        found = ""
        if expected is not None and follows and difference(actual, expected).agrees:
            found = FOLLOWS
        elif expected is not None and self._rounds_either_way(node, name, actual, expected, values):
            count = int(np.sum(actual != expected))
            found = f"{count} of {actual.size} elements differ by one step, at a tie of the rounding"
            if not count:
                found = "its input, which differs as floats may, is nearly a tie of the rounding"
        if found:
            self._stepped.add(name)
        return found

    def _follows_a_step(self, node: onnx.NodeProto) -> bool:
        pending, seen = list(reads(node)), set()
        while pending:
            name = pending.pop()
            if name in self._stepped:
                return True
            if name not in seen and name in self._nodes:
                pending.extend(reads(self._nodes[name]))
            seen.add(name)
        return False

    def _alone(self, node: onnx.NodeProto, name: str, values: Values) -> np.ndarray | None:
        """What the first oracle that can makes of the node's inputs."""
        cut = sorted({n for n in reads(node) if n in self._nodes})
        part = submodel(self._model, [name], cut, value_types(self._model, values))
        feeds = {i.name: values[i.name] for i in part.graph.input}
        for run in ORACLES.values():
            try:
                return np.asarray(run(part, feeds, [name])[name])
            except OracleError:
                continue
        return None

    def _rounds_either_way(
        self, node: onnx.NodeProto, name: str, actual: np.ndarray, expected: np.ndarray, values: Values
    ) -> bool:
        """Whether each element is what its quotient rounds to, moved by the tolerance of floats."""
        if actual.dtype != expected.dtype or actual.shape != expected.shape or not _is_integer(actual.dtype):
            return False
        wide = actual.astype(np.int64)
        if np.abs(wide - expected.astype(np.int64)).max(initial=0) > 1:
            return False
        found = self._quotient(node, name, values)
        if found is None:
            return False
        quotient, tolerance = found
        limits = ml_dtypes.iinfo(actual.dtype)
        low, high = (np.clip(np.rint(quotient + t), int(limits.min), int(limits.max)) for t in (-tolerance, tolerance))
        return bool(np.all((wide >= low) & (wide <= high)))

    def _quotient(self, node: onnx.NodeProto, name: str, values: Values) -> tuple[np.ndarray, np.ndarray] | None:
        """What the node rounds, zero point included, and how far it may be off; None for other nodes."""
        inputs = [self._value(n, values) for n in node.input]
        attributes = {a.name: a.i for a in node.attribute}
        if node.op_type == "QuantizeLinear" and not attributes.get("block_size"):
            x, scale = inputs[0].astype(np.float64), inputs[1].astype(np.float64)
            zero = inputs[2].astype(np.float64) if len(inputs) > 2 else np.zeros(())
            axis = attributes.get("axis", 1)
            return _off(x, *(_along(p, axis, x.ndim) for p in (scale, zero)))
        if node.op_type == "DynamicQuantizeLinear" and name != node.output[1]:
            x = inputs[0].astype(np.float64)
            low, high = min(x.min(initial=0), 0.0), max(x.max(initial=0), 0.0)
            scale = np.asarray((high - low) / 255 or 1.0)
            if name == node.output[2]:
                return _off(np.asarray(-low), scale, np.zeros(()))
            return _off(x, scale, np.clip(np.rint(-low / scale), 0, 255))
        if node.op_type not in _FLOAT_FORMS or attributes.get("channels_last") or attributes.get("opset", 13) < 13:
            return None
        real = _in_floats(node, inputs)
        scale_at, zero_at = _FLOAT_FORMS[node.op_type][3]
        if real is None or len(inputs) <= scale_at:
            return None
        zero = inputs[zero_at] if len(inputs) > zero_at and inputs[zero_at].size else np.zeros(())
        return _off(real, inputs[scale_at].astype(np.float64), zero.astype(np.float64))

    def _value(self, name: str, values: Values) -> np.ndarray:
        """An input; empty where it is absent."""
        import onnx

        if not name:
            return np.zeros(0)
        return values[name] if name in values else onnx.numpy_helper.to_array(self._constants[name])


def _off(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    relative, absolute = TOLERANCES["float32"]
    finite = np.abs(x[np.isfinite(x)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        return x / scale + zero, (relative * finite + absolute) / np.abs(scale)


def _along(parameter: np.ndarray, axis: int, rank: int) -> np.ndarray:
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * rank
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def _in_floats(node: onnx.NodeProto, inputs: list[np.ndarray]) -> np.ndarray | None:
    """The result of a node on quantized tensors before it is quantized, by onnx's evaluator."""
    import onnx

    op, operands, bias, _ = _FLOAT_FORMS[node.op_type]
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    arrays, scales = [], []
    for number, (at, scale_at, zero_at) in enumerate(operands):
        value, scale = inputs[at], inputs[scale_at].astype(np.float64)
        axis = {"Conv": 0, "Gemm": 0 if transposed else 1}.get(op, value.ndim - 2 if number == 0 else value.ndim - 1)
        zero = inputs[zero_at].astype(np.float64) if inputs[zero_at].size else np.zeros(())
        real = (value.astype(np.float64) - _along(zero, axis, value.ndim)) * _along(scale, axis, value.ndim)
        arrays.append(real.astype(np.float32))
        scales.append(scale)
    if bias is not None and len(inputs) > bias and inputs[bias].size:
        alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
        arrays.append((inputs[bias] * (scales[0] * scales[1] * alpha)).astype(np.float32))
    names = [f"i{n}" for n in range(len(arrays))]
    attributes = [a for a in node.attribute if a.name not in _NOT_OF_FLOATS]
    float_node = onnx.helper.make_node(op, names, ["y"])
    float_node.attribute.extend(attributes)
    graph = onnx.helper.make_graph(
        [float_node],
        "floats",
        [onnx.helper.make_tensor_value_info(n, 1, a.shape) for n, a in zip(names, arrays, strict=True)],
        [onnx.helper.make_empty_tensor_value_info("y")],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    try:
        return np.asarray(run_reference(made, dict(zip(names, arrays, strict=True)))["y"], np.float64)
    except OracleError:
        return None


def _is_integer(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu" or np.dtype(dtype).name in ("int4", "uint4", "int2", "uint2")
