"""Ops that move, choose or repeat elements: on strings they are the same op on the numbers of table entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value
from rillet.frontends.onnx.sequences import Structured, TensorSequence
from rillet.frontends.onnx.strings.tensor import STRING, StringTensor, from_array, merged

if TYPE_CHECKING:
    import onnx

_MOVES = {
    "ArrayFeatureExtractor",
    "Compress",
    "Concat",
    "ConcatFromSequence",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "OneHot",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "TensorScatter",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
}
# Ops that hand values on as they are, whatever these are.
_STRUCTURAL = {
    "Identity",
    "If",
    "Loop",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "Scan",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
}
_FROM_STRINGS = {"ConcatFromSequence", "SplitToSequence"}  # their results are strings though the schema names no type


def holds_strings(value: object) -> bool:
    """Whether a value is a tensor of strings or a sequence of such."""
    if isinstance(value, TensorSequence):
        return value.dtype == STRING or any(isinstance(item, StringTensor) for item in value.items)
    return isinstance(value, StringTensor)


def touches_strings(op_type: str, attributes: dict[str, Any], inputs: Sequence[object]) -> bool:
    """Whether a node takes or gives strings as elements of tensors."""
    if any(holds_strings(value) for value in inputs):
        return True
    if op_type in ("Cast", "SequenceEmpty"):
        return attributes.get("to", attributes.get("dtype")) in (8, "STRING")
    return any(
        str(name).endswith(("_strings", "_string")) or (isinstance(value, np.ndarray) and value.dtype == object)
        for name, value in attributes.items()
    )


def hands_on(op_type: str) -> bool:
    """Whether the op's ordinary importer takes strings as well."""
    return op_type in _STRUCTURAL


def moves(proto: onnx.NodeProto, opset: int) -> bool:
    """Whether ``move`` imports the op on strings."""
    import onnx

    return proto.op_type in _MOVES and onnx.defs.has(proto.op_type, opset, proto.domain)


def move(use: NodeUse) -> list[Any]:
    """Import a moving op on strings: the same node on the numbers of the entries.

    Raises UnsupportedFeature where it would compute with them. Raises InvalidNode for a sequence that is empty or holds
    numbers too.
    """
    import onnx

    b, proto, attributes = use.b, use.proto, use.attributes
    if attributes.get("reduction", "none") != "none":
        raise UnsupportedFeature(
            f"reduction '{attributes['reduction']}' is not supported on tensors of strings", "use reduction 'none'"
        )
    operands = list(use.inputs)
    if proto.op_type == "Pad" and attributes.get("mode", "constant") == "constant":
        operands += [None] * (3 - len(operands))
        operands[2] = operands[2] or from_array(b, np.array("", dtype=object))
    schema = onnx.defs.get_schema(proto.op_type, use.opset, proto.domain)
    holders = [
        item for v in operands for item in (v.items if isinstance(v, TensorSequence) else (v,)) if holds_strings(item)
    ]
    if not holders:
        raise InvalidNode("the sequence is empty")
    if any(isinstance(v, TensorSequence) and not all(map(holds_strings, v.items)) for v in operands):
        raise InvalidNode("the sequence holds strings and numbers")
    table = merged(b, holders)  # type: ignore[arg-type]
    numbers = iter(table)
    results = use.walk.lower(use.with_inputs([_on_numbers(value, numbers) for value in operands]))
    kinds = {_formal(schema.inputs, i).type_str for i, v in enumerate(operands) if holds_strings(v)}

    def give_back(index: int, result: Value | None) -> Value | None:
        is_string = proto.op_type in _FROM_STRINGS or _formal(schema.outputs, index).type_str in kinds
        if not is_string or result is None:
            return result
        if isinstance(result, TensorSequence):
            return TensorSequence(STRING, tuple(table[0].with_ids(item) for item in result.items))  # type: ignore[arg-type]
        assert isinstance(result, Tensor)
        return table[0].with_ids(result)

    return [give_back(i, result) for i, result in enumerate(results)]


def _on_numbers(value: Structured | None, numbers: Any) -> Structured | None:
    if isinstance(value, TensorSequence):
        return TensorSequence("int64", tuple(next(numbers).ids for _ in value.items))
    return next(numbers).ids if isinstance(value, StringTensor) else value


def _formal(formals: Sequence[Any], index: int) -> Any:
    return formals[min(index, len(formals) - 1)]
