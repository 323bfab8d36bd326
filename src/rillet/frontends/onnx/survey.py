"""Describes an ONNX model: ops and their types, control flow, functions, weights."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rillet.frontends.frontend import OpUse, Survey
from rillet.frontends.onnx.verification.submodel import value_types

if TYPE_CHECKING:
    import onnx

_STRING = 8  # onnx.TensorProto.STRING
_CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")


def survey(model: onnx.ModelProto) -> Survey:
    """The model's ops, opsets, control flow, functions, and the bytes of its initializers."""
    opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
    types = {name: type_name(t) for name, t in value_types(model).items()}
    types.update({t.name: tensor_type_name(t.data_type) for t in model.graph.initializer})
    nodes = list(_nodes(model))
    return Survey(
        ops=tuple(_uses(nodes, types, opsets)),
        outputs=tuple(o.name for o in model.graph.output),
        weight_bytes=sum(_bytes(t) for t in model.graph.initializer),
        versions=opsets,
        control_flow={op: n for op in _CONTROL_FLOW if (n := sum(node.op_type == op for node in nodes))},
        functions=tuple(f"{f.domain}.{f.name}" for f in model.functions),
    )


def _uses(nodes: Sequence[onnx.NodeProto], types: Mapping[str, str], opsets: Mapping[str, int]) -> Iterator[OpUse]:
    used: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        used[_op_name(node.domain, node.op_type)].append(node)
    for op, members in sorted(used.items()):
        named = {types[n] for node in members for n in (*node.input, *node.output) if n in types}
        domain = members[0].domain
        version = opsets.get("" if domain == "ai.onnx" else domain, 0)
        yield OpUse(op, version, len(members), tuple(sorted(named)))


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node of the graph, its subgraphs and the model's functions."""
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop()
        for node in graph.node:
            yield node
            for attribute in node.attribute:
                pending += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _op_name(domain: str, op_type: str) -> str:
    return f"{domain}.{op_type}" if domain and domain != "ai.onnx" else op_type


def type_name(type_: onnx.TypeProto) -> str:
    """The element type of a tensor, as numpy or ml_dtypes name it; "string" for strings."""
    return tensor_type_name(type_.tensor_type.elem_type)


def tensor_type_name(code: int) -> str:
    """``type_name`` of ONNX's code of an element type."""
    from rillet.ir import dtypes

    if code == _STRING:
        return "string"
    return dtypes.by_code[code].name if code in dtypes.by_code else f"type {code}"


def _bytes(tensor: onnx.TensorProto) -> int:
    from rillet.ir import dtypes

    if tensor.data_type not in dtypes.by_code:
        return sum(map(len, tensor.string_data))
    return math.prod(tensor.dims) * dtypes.by_code[tensor.data_type].bits // 8
