"""Cuts a model into a smaller one: from values that become inputs to values that become outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.frontends.onnx.node_order import reads

if TYPE_CHECKING:
    import onnx

    Types = Mapping[str, onnx.TypeProto]


def submodel(
    model: onnx.ModelProto, outputs: Sequence[str], cut: Sequence[str] = (), types: Types | None = None
) -> onnx.ModelProto:
    """The part of ``model`` that computes ``outputs``, in which the values named ``cut`` are inputs.

    Only what is needed is kept: nodes, initializers, graph inputs, functions. ``types`` gives types of values that the
    model does not declare; a value of unknown type becomes an input or output without one.
    """
    import onnx

    graph = model.graph
    declared = {i.name: i for i in [*graph.value_info, *graph.output, *graph.input]}
    wanted, nodes = set(outputs) - set(cut), []
    for node in reversed(graph.node):
        if wanted.isdisjoint(o for o in node.output if o):
            continue
        nodes.append(node)
        wanted.update(n for n in reads(node) if n not in cut)
    made = {o for n in nodes for o in n.output}
    read = {n for node in nodes for n in reads(node)} | set(outputs)

    def info(name: str) -> onnx.ValueInfoProto:
        if types is not None and name in types:
            return onnx.helper.make_value_info(name, types[name])
        return declared.get(name) or onnx.helper.make_empty_tensor_value_info(name)

    result = onnx.ModelProto()
    result.CopyFrom(model)
    held = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    _refill(result.graph.node, [n for n in graph.node if any(n is k for k in nodes)])
    _refill(result.graph.initializer, [t for t in graph.initializer if t.name in read and t.name not in cut])
    kept_inputs = [i for i in graph.input if i.name in read and i.name not in cut and i.name not in made]
    added = [info(n) for n in dict.fromkeys(cut) if n in read and n not in made]
    _refill(result.graph.input, [*kept_inputs, *added])
    _refill(result.graph.output, [info(n) for n in dict.fromkeys(outputs)])
    _refill(result.graph.value_info, [v for v in graph.value_info if v.name in made])
    if not held & read:
        del result.graph.sparse_initializer[:]
    return result


def value_types(model: onnx.ModelProto, arrays: Mapping[str, Any] | None = None) -> dict[str, onnx.TypeProto]:
    """Types of the graph's values by name: declared or inferred, else those of ``arrays`` (observed values)."""
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # inference of an invalid model fails in several ways; declared types remain
        inferred = model
    types = {
        i.name: i.type
        for i in [*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input]
        if i.type.HasField("tensor_type") and i.type.tensor_type.elem_type and i.type.tensor_type.HasField("shape")
    }
    for name, array in (arrays or {}).items():
        if name not in types and isinstance(array, np.ndarray):
            code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            types[name] = onnx.helper.make_tensor_type_proto(code, array.shape)
    return types


def _refill(field: Any, items: Sequence[Any]) -> None:
    copies = [type(item)() for item in items]
    for copy, item in zip(copies, items, strict=True):
        copy.CopyFrom(item)
    del field[:]
    field.extend(copies)
