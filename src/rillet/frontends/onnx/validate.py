"""Checks a node against ONNX's schema before it is imported: number of operands, their types, attributes.

Importers may then rely on what the schema promises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.functions import type_proto
from rillet.frontends.onnx.sequences import TensorSequence
from rillet.frontends.onnx.strings.tensor import StringTensor

if TYPE_CHECKING:
    import onnx

_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn": "float4e2m1",
}


def check_node(proto: onnx.NodeProto, domain: str, opset: int, inputs: Sequence[Any]) -> None:
    """Raise InvalidNode when a node contradicts the schema of its op; ops without one are not checked.

    ``inputs`` holds a Tensor, None where an input is absent, or anything else for a value that is not a tensor.
    """
    schema = schema_of(proto.op_type, domain, opset)
    if schema is None:
        return
    count = len(proto.input)
    if not schema.min_input <= count <= schema.max_input:
        raise InvalidNode(f"it has {count} inputs; the op takes {_range(schema.min_input, schema.max_input)}")
    if not schema.min_output <= len(proto.output) <= schema.max_output:
        wanted = _range(schema.min_output, schema.max_output)
        raise InvalidNode(f"it has {len(proto.output)} outputs; the op has {wanted}")
    _check_types(schema, _newest(proto.op_type, domain), inputs)
    _check_attributes(schema, proto)


def check_operands(importer: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Raise InvalidNode when an op that no schema describes has other inputs than its importer takes: too many, too
    few, or none where its annotation says Tensor.
    """
    every = list(inspect.signature(importer).parameters.values())[1:]
    parameters = [p for p in every if p.kind is not p.VAR_POSITIONAL]
    needed = sum(p.default is p.empty for p in parameters)
    if len(parameters) < len(every):
        if len(inputs) < needed:
            raise InvalidNode(f"it has {len(inputs)} inputs; the op takes {needed} or more")
    elif not needed <= len(inputs) <= len(parameters):
        raise InvalidNode(f"it has {len(inputs)} inputs; the op takes {_range(needed, len(parameters))}")
    for parameter, value in zip(parameters, inputs, strict=False):
        if value is None and parameter.annotation == "Tensor":
            raise InvalidNode(f"input '{parameter.name}' is missing")


def check_expanded(proto: onnx.NodeProto, domain: str, opset: int, inputs: Sequence[Any]) -> None:
    """Raise InvalidNode for a node that its function body would accept although its op does not.

    That is an attribute that the op does not know, or shapes that the op's own rules refuse but that broadcast in the
    body.
    """
    import onnx

    schema = schema_of(proto.op_type, domain, opset)
    if schema is None:
        return
    if unknown := [a.name for a in proto.attribute if a.name not in schema.attributes]:
        raise InvalidNode(f"attribute '{unknown[0]}' is none of the op's")
    types = {n: type_proto(t) for n, t in zip(proto.input, inputs, strict=False) if n and t is not None}
    try:
        onnx.shape_inference.infer_node_outputs(schema, proto, types)
    except onnx.shape_inference.InferenceError as error:
        raise InvalidNode(str(error).rsplit("] ", 1)[-1]) from error


def _check_types(schema: onnx.defs.OpSchema, newest: onnx.defs.OpSchema, inputs: Sequence[Any]) -> None:
    import onnx

    formals = schema.inputs
    bound: dict[str, tuple[str, str]] = {}
    for number, value in enumerate(inputs):
        formal = formals[min(number, len(formals) - 1)]
        optional = formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional
        if value is None:
            if not optional:
                raise InvalidNode(f"input '{formal.name}' is missing")
            continue
        if isinstance(value, TensorSequence) and not any("seq(" in t for t in formal.types | _types(newest, number)):
            raise InvalidNode(f"input '{formal.name}' is a sequence, which the op does not take")
        if not isinstance(value, Tensor | StringTensor):
            continue
        type_ = f"tensor({_TYPE_NAMES.get(value.dtype, value.dtype)})"
        # Types that a later version of the op adds are harmless; models converted to float16 have them.
        if type_ not in formal.types and type_ not in _types(newest, number):
            raise InvalidNode(f"input '{formal.name}' is {value.dtype}, which the op does not take")
        if not formal.is_homogeneous:
            continue
        name, dtype = bound.setdefault(formal.type_str, (formal.name, value.dtype))
        if dtype != value.dtype and "(" not in formal.type_str:
            raise InvalidNode(f"input '{formal.name}' is {value.dtype}, but input '{name}' is {dtype}")


def _check_attributes(schema: onnx.defs.OpSchema, proto: onnx.NodeProto) -> None:
    given: Mapping[str, onnx.AttributeProto] = {a.name: a for a in proto.attribute}
    if len(given) != len(proto.attribute):
        raise InvalidNode("an attribute is given twice")
    for name, formal in schema.attributes.items():
        if name not in given:
            if formal.required:
                raise InvalidNode(f"attribute '{name}' is missing")
            continue
        if int(given[name].type) != int(formal.type):
            raise InvalidNode(f"attribute '{name}' is not of the type that the op wants ({formal.type.name.lower()})")


def _types(schema: onnx.defs.OpSchema, number: int) -> set[str]:
    formals = schema.inputs
    return formals[min(number, len(formals) - 1)].types if formals else set()


@cache
def schema_of(op_type: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """ONNX's schema of an op at an opset, or None."""
    import onnx

    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def _newest(op_type: str, domain: str) -> onnx.defs.OpSchema:
    import onnx

    return onnx.defs.get_schema(op_type, domain)


def _range(low: int, high: int) -> str:
    if high > 1000:
        return f"at least {low}"
    return str(low) if low == high else f"{low} to {high}"
