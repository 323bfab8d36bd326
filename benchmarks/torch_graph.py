"""ONNX graphs as PyTorch modules, for the peer that takes PyTorch programs: `TorchGraph`.

Nodes become PyTorch's own functions one by one, in the float32 semantics of ONNX's default domain, opset 13 and later.
What does not depend on the inputs' values is computed while importing. Only what the benchmarks' models need is here;
another op, or another form of one, is a `NotImplementedError` that names it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.reference
import torch
import torch.nn.functional as F

Value: TypeAlias = torch.Tensor | np.ndarray | None
"""What a node takes: a tensor that depends on the inputs, or an array that is known while importing."""


@dataclass(frozen=True)
class Op:
    """``apply(attributes, *operands)`` gives the first result; operands at the positions ``known`` are arrays, and with
    ``scalars`` known ones without axes are numbers, as programs for PyTorch are written.
    """

    apply: Callable[..., Any]
    known: tuple[int, ...] = ()
    scalars: bool = False


class TorchGraph(torch.nn.Module):
    """The main graph of an ONNX file for inputs of these shapes; called with tensors in the graph's order."""

    def __init__(self, path: Path, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        model = onnx.load(path)
        self._opsets, self._nodes = model.opset_import, list(model.graph.node)
        self._inputs, self._outputs = list(inputs), [output.name for output in model.graph.output]
        self._arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        self._buffer_names: dict[str, str] = {}
        with torch.no_grad():
            self(*inputs.values())

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The graph's results, in order."""
        values: dict[str, Value] = {**self._arrays, **dict(zip(self._inputs, inputs, strict=True)), "": None}
        for node in self._nodes:
            if node.output[0] in values:  # known since the first call
                continue
            operands: list[Any] = [values[name] for name in node.input]
            if not any(isinstance(operand, torch.Tensor) for operand in operands):
                self._fold(node, values)
                continue
            op = OPS.get(node.op_type)
            if op is None or node.domain:
                raise NotImplementedError(f"node '{node.name}': {node.op_type} has no translation to PyTorch")
            for position, (name, operand) in enumerate(zip(node.input, operands, strict=True)):
                if position in op.known:
                    self._check_known(node, operand)
                elif isinstance(operand, np.ndarray):
                    is_number = op.scalars and operand.ndim == 0
                    operands[position] = operand.item() if is_number else self._buffer(name, operand)
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            values[node.output[0]] = op.apply(attributes, *operands)
            if isinstance(values[node.output[0]], np.ndarray):
                self._arrays[node.output[0]] = values[node.output[0]]
        return tuple(self._result(name, values[name]) for name in self._outputs)

    def _fold(self, node: onnx.NodeProto, values: dict[str, Value]) -> None:
        """Compute a node whose operands are known."""
        operands = {name: values[name] for name in node.input if name}
        graph = onnx.helper.make_graph(
            [node],
            "fold",
            [onnx.helper.make_empty_tensor_value_info(name) for name in operands],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output],
        )
        model = onnx.helper.make_model(graph, opset_imports=self._opsets)
        for name, array in zip(node.output, onnx.reference.ReferenceEvaluator(model).run(None, operands), strict=True):
            values[name] = self._arrays[name] = np.asarray(array)

    def _buffer(self, name: str, array: np.ndarray) -> torch.Tensor:
        if name not in self._buffer_names:
            self._buffer_names[name] = f"constant_{len(self._buffer_names)}"
            self.register_buffer(self._buffer_names[name], torch.from_numpy(np.array(array)))
        return getattr(self, self._buffer_names[name])

    def _result(self, name: str, value: Value) -> torch.Tensor:
        assert value is not None
        return self._buffer(name, value) if isinstance(value, np.ndarray) else value

    @staticmethod
    def _check_known(node: onnx.NodeProto, operand: Value) -> None:
        if isinstance(operand, torch.Tensor):
            raise NotImplementedError(f"node '{node.name}': {node.op_type} whose shape or bounds are computed")


def _convolution(a: dict[str, Any], x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
    rank = x.dim() - 2
    x, padding = _padded(a, x, rank, 0.0)
    stride, dilation = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    return torch.convolution(x, w, b, stride, padding, dilation, False, [0] * rank, a.get("group", 1))


def _max_pool(a: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    _expect(a, {"dilations": {(1, 1)}, "storage_order": {0}})
    x, padding = _padded(a, x, 2, -torch.inf)
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", [1, 1]), padding, ceil_mode=bool(a.get("ceil_mode", 0)))


def _average_pool(a: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    _expect(a, {"dilations": {(1, 1)}, "pads": {(0, 0, 0, 0)}, "ceil_mode": {0}})
    return F.avg_pool2d(x, a["kernel_shape"], a.get("strides", [1, 1]))


def _padded(a: dict[str, Any], x: torch.Tensor, rank: int, value: float) -> tuple[torch.Tensor, list[int]]:
    """The padding where it is the same on both sides; else the padded tensor."""
    _expect(a, {"auto_pad": {b"NOTSET"}})
    pads = a.get("pads", [0] * (2 * rank))
    if pads[:rank] == pads[rank:]:
        return x, pads[:rank]
    pairs = [pads[axis + side * rank] for axis in reversed(range(rank)) for side in (0, 1)]
    return F.pad(x, pairs, value=value), [0] * rank


def _expect(a: dict[str, Any], allowed: dict[str, set[Any]]) -> None:
    for name, values in allowed.items():
        value = a.get(name)
        value = tuple(value) if isinstance(value, list) else value
        if value is not None and value not in values:
            raise NotImplementedError(f"attribute {name} = {value}")


def _batch_norm(a: dict[str, Any], x: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
    scale, bias, mean, variance = operands
    return F.batch_norm(x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


def _gemm(a: dict[str, Any], x: torch.Tensor, y: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
    product = (x.T if a.get("transA") else x) @ (y.T if a.get("transB") else y)
    product = product if a.get("alpha", 1.0) == 1 else a["alpha"] * product
    return product if c is None else product + (c if a.get("beta", 1.0) == 1 else a["beta"] * c)


def _layer_norm(a: dict[str, Any], x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
    axis = a.get("axis", -1)
    return F.layer_norm(x, x.shape[axis:], w, b, a.get("epsilon", 1e-5))


def _reshape(a: dict[str, Any], x: torch.Tensor, shape: np.ndarray) -> torch.Tensor:
    keeps = not a.get("allowzero", 0)
    return x.reshape([x.shape[n] if d == 0 and keeps else int(d) for n, d in enumerate(shape)])


def _flatten(a: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    axis = a.get("axis", 1)
    return x.reshape(x.shape[:axis].numel(), -1)


def _squeeze(a: dict[str, Any], x: torch.Tensor, axes: np.ndarray | None = None) -> torch.Tensor:
    return x.squeeze() if axes is None else x.squeeze([int(axis) for axis in axes])


def _unsqueeze(a: dict[str, Any], x: torch.Tensor, axes: np.ndarray) -> torch.Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(int(axis) % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(a: dict[str, Any], x: torch.Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    ranges = [slice(None)] * x.dim()
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        ranges[int(axis)] = slice(*map(int, bounds))
    return x[tuple(ranges)]


def _expand(a: dict[str, Any], x: torch.Tensor, shape: np.ndarray) -> torch.Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(map(int, shape))))


def _gather(a: dict[str, Any], x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    axis = a.get("axis", 0) % x.dim()
    return x[(slice(None),) * axis + (indices,)]


def _gather_nd(a: dict[str, Any], x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    _expect(a, {"batch_dims": {0}})
    return x[tuple(indices.unbind(-1))]


def _transpose(a: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    """Where the last axis moves, the swap of the last two apart: Inductor takes one permutation of the key of an
    attention for that swap and would fuse it wrongly (PyTorch 2.13 and 2.14).
    """
    axes = a.get("perm", list(reversed(range(x.dim()))))
    if axes[-1] == x.dim() - 1:
        return x.permute(axes)
    return x.permute([*axes[:-2], axes[-1], axes[-2]]).transpose(-2, -1)


def _cast(a: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(a["to"])
    return x.to(torch.from_numpy(np.empty(0, numpy_type)).dtype)


def _clip(a: dict[str, Any], x: torch.Tensor, low: Any = None, high: Any = None) -> torch.Tensor:
    return torch.clamp(x, *(None if bound is None else float(bound) for bound in (low, high)))


def _elementwise(function: Callable[..., torch.Tensor]) -> Op:
    return Op(lambda a, *operands: function(*operands), scalars=True)


OPS: dict[str, Op] = {
    "Add": _elementwise(torch.add),
    "And": _elementwise(torch.logical_and),
    "AveragePool": Op(_average_pool),
    "BatchNormalization": Op(_batch_norm),
    "Cast": Op(_cast),
    "Clip": Op(_clip, known=(1, 2)),
    "Concat": Op(lambda a, *operands: torch.cat(operands, a["axis"])),
    "Conv": Op(_convolution),
    "Div": _elementwise(torch.div),
    "Erf": _elementwise(torch.erf),
    "Expand": Op(_expand, known=(1,)),
    "Flatten": Op(_flatten),
    "Gather": Op(_gather),
    "GatherND": Op(_gather_nd),
    "Gemm": Op(_gemm),
    "GlobalAveragePool": Op(lambda a, x: x.mean(list(range(2, x.dim())), keepdim=True)),
    "GreaterOrEqual": _elementwise(torch.ge),
    "IsNaN": _elementwise(torch.isnan),
    "LayerNormalization": Op(_layer_norm),
    "MatMul": _elementwise(torch.matmul),
    "Max": Op(lambda a, *operands: functools.reduce(torch.maximum, operands)),
    "MaxPool": Op(_max_pool),
    "Mul": _elementwise(torch.mul),
    "Relu": _elementwise(torch.relu),
    "Reshape": Op(_reshape, known=(1,)),
    "Shape": Op(lambda a, x: np.array(x.shape[a.get("start", 0) : a.get("end")], np.int64)),
    "Slice": Op(_slice, known=(1, 2, 3, 4)),
    "Softmax": Op(lambda a, x: torch.softmax(x, a.get("axis", -1))),
    "Squeeze": Op(_squeeze, known=(1,)),
    "Sub": _elementwise(torch.sub),
    "Transpose": Op(_transpose),
    "Unsqueeze": Op(_unsqueeze, known=(1,)),
    "Where": _elementwise(torch.where),
}
