"""ONNX models whose inputs or outputs are sequences or optionals, as models on tensors.

A sequence becomes one tensor input for each of its items; an absent optional becomes none. A model is rewritten for the
structure of the values that it is called with, and its outputs are put together again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import CompileError, RunError

if TYPE_CHECKING:
    import onnx


def structured_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """The names of the inputs that are sequences or optionals. Raises CompileError for maps and sparse tensors."""
    found = []
    for info in model.graph.input:
        kind = info.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            found.append(info.name)
        elif kind not in ("tensor_type", None):
            raise CompileError(f"input '{info.name}' is a {kind}; inputs are tensors, sequences and optionals")
    return tuple(found)


def has_structured_outputs(model: onnx.ModelProto) -> bool:
    """Whether some output is a sequence or an optional."""
    return any(o.type.WhichOneof("value") in ("sequence_type", "optional_type") for o in model.graph.output)


def structure_of(value: Any) -> Any:
    """The structure that the rewritten model depends on: None, or element types and shapes."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return tuple(structure_of(v) for v in value)
    array = np.asarray(value)
    return array.dtype.name, array.shape


def unpack(model: onnx.ModelProto, values: Mapping[str, Any]) -> onnx.ModelProto:
    """The model with each input in ``values`` replaced by tensor inputs ``name[0]``, ``name[1]``, … of its shapes.

    Raises RunError when one is missing.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    inputs, nodes = [], []
    for info in graph.input:
        if info.name not in values:
            inputs.append(info)
            continue
        value = values[info.name]
        type_ = info.type
        if type_.HasField("optional_type"):
            type_ = type_.optional_type.elem_type
        if value is None:
            if not info.type.HasField("optional_type"):
                raise RunError(f"input '{info.name}' is missing")
            nodes.append(onnx.helper.make_node("Optional", [], [info.name], type=type_))
            continue
        tensors = pack(value)
        if type_.HasField("tensor_type"):
            name = f"{info.name}[0]"
            inputs.append(_declare(name, tensors[0]))
            nodes.append(onnx.helper.make_node("Identity", [name], [info.name]))
            continue
        names = [f"{info.name}[{i}]" for i in range(len(tensors))]
        inputs.extend(_declare(n, t) for n, t in zip(names, tensors, strict=True))
        if names:
            nodes.append(onnx.helper.make_node("SequenceConstruct", names, [info.name]))
        else:
            code = type_.sequence_type.elem_type.tensor_type.elem_type
            nodes.append(onnx.helper.make_node("SequenceEmpty", [], [info.name], dtype=code))
    nodes.extend(graph.node)
    for field, items in ((graph.input, inputs), (graph.node, nodes)):
        copies = [type(item).FromString(item.SerializeToString()) for item in items]
        del field[:]
        field.extend(copies)
    return result


def pack(value: Any) -> list[np.ndarray]:
    """The tensors of a sequence, an optional or a tensor."""
    if value is None:
        return []
    return [np.asarray(v) for v in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def _declare(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def assemble(model: onnx.ModelProto, names: Sequence[str], arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """The model's outputs from the tensors that it returned; a sequence is a list, an absent optional None."""
    by_name = dict(zip(names, arrays, strict=True))
    outputs: list[Any] = []
    for info in model.graph.output:
        if info.name in by_name:
            outputs.append(by_name[info.name])
            continue
        items: list[Any] = []
        while f"{info.name}[{len(items)}]" in by_name:
            items.append(by_name[f"{info.name}[{len(items)}]"])
        outputs.append(None if not items and info.type.HasField("optional_type") else items)
    return tuple(outputs)
