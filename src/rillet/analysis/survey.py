"""What a model says about itself: ops, types, dynamic dimensions, control flow, weights."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rillet.analysis import _CONTROL_FLOW, OpCoverage
from rillet.errors import UnsupportedNode

if TYPE_CHECKING:
    import onnx

_STRING = 8  # onnx.TensorProto.STRING


def survey(
    model: onnx.ModelProto, unsupported: Sequence[UnsupportedNode], overrides: Mapping[str, Sequence[int | str]]
) -> dict[str, Any]:
    """The fields of a ``Report`` that need no compilation."""
    from rillet.verify.submodel import value_types

    opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
    held = {t.name for t in model.graph.initializer}
    inputs = {
        i.name: list(overrides.get(i.name, _dims(i.type)))
        for i in model.graph.input
        if i.name not in held or i.name in overrides
    }
    types = {name: _type_name(t) for name, t in value_types(model).items()}
    types.update({t.name: _tensor_type_name(t.data_type) for t in model.graph.initializer})
    nodes = list(_nodes(model))
    return {
        "ops": tuple(_coverage(nodes, types, unsupported, opsets)),
        "unsupported": tuple(unsupported),
        "opsets": opsets,
        "inputs": inputs,
        "outputs": [o.name for o in model.graph.output],
        "dynamic_dimensions": tuple(dict.fromkeys(str(d) for dims in inputs.values() for d in dims if _is_dynamic(d))),
        "control_flow": {op: n for op in _CONTROL_FLOW if (n := sum(node.op_type == op for node in nodes))},
        "functions": tuple(f"{f.domain}.{f.name}" for f in model.functions),
        "weight_bytes": sum(_bytes(t) for t in model.graph.initializer),
    }


def _coverage(
    nodes: Sequence[onnx.NodeProto],
    types: Mapping[str, str],
    unsupported: Sequence[UnsupportedNode],
    opsets: Mapping[str, int],
) -> Iterator[OpCoverage]:
    used: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        used[_op_name(node.domain, node.op_type)].append(node)
    refused: dict[str, list[UnsupportedNode]] = defaultdict(list)
    for item in unsupported:
        refused[item.op].append(item)
    for op in sorted({*used, *refused}):
        named = [types[n] for node in used[op] for n in (*node.input, *node.output) if n in types]
        domain = used[op][0].domain if used[op] else ""
        version = opsets.get("" if domain == "ai.onnx" else domain, 0)
        opset = refused[op][0].opset if refused[op] else version
        reasons = tuple(dict.fromkeys(item.reason for item in refused[op]))
        yield OpCoverage(op, opset, len(used[op]), tuple(sorted(set(named))), len(refused[op]), reasons)


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


def _dims(type_: onnx.TypeProto) -> list[int | str]:
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param or "?"
        for d in type_.tensor_type.shape.dim
    ]


def _is_dynamic(extent: int | str) -> bool:
    return isinstance(extent, str) or extent < 0


def _type_name(type_: onnx.TypeProto) -> str:
    return _tensor_type_name(type_.tensor_type.elem_type)


def _tensor_type_name(code: int) -> str:
    from rillet.ir import dtypes

    if code == _STRING:
        return "string"
    return dtypes.by_code[code].name if code in dtypes.by_code else f"type {code}"


def _bytes(tensor: onnx.TensorProto) -> int:
    from rillet.ir import dtypes

    if tensor.data_type not in dtypes.by_code:
        return sum(map(len, tensor.string_data))
    return math.prod(tensor.dims) * dtypes.by_code[tensor.data_type].bits // 8
