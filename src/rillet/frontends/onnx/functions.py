"""ONNX functions: local ones of the model, and the bodies that onnx defines for many ops.

Function bodies are imported in place, in a scope of their own with their own opset imports; an attribute reference
is replaced by the calling node's attribute before the node is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.sequences import Absent, MapSequence, Structured, TensorSequence
from rillet.frontends.onnx.strings.tensor import STRING
from rillet.ir import dtypes

if TYPE_CHECKING:
    import onnx

    Attributes: TypeAlias = Mapping[str, onnx.AttributeProto]


def domain_of(proto: onnx.NodeProto) -> str:
    """The domain of a node's op, "" for ONNX's own."""
    return "" if proto.domain == "ai.onnx" else proto.domain


def has_body(proto: onnx.NodeProto, opset: int) -> bool:
    """Whether onnx defines an op by a function body, or builds one for it from the types of its inputs."""
    schema = _schema(proto, opset)
    return schema is not None and bool(_latest(schema.function_opset_versions, opset) or _built(schema, opset))


def body_of(
    proto: onnx.NodeProto, opset: int, inputs: Sequence[Structured | None]
) -> tuple[onnx.FunctionProto, dict[str, onnx.AttributeProto]] | None:
    """The function body that onnx defines for an op, with the schema's default attributes, or None.

    Raises InvalidNode when the body is built from the types of inputs that the node lacks.
    """
    import onnx

    schema = _schema(proto, opset)
    if schema is None:
        return None
    data = _context_dependent(schema, proto, opset, inputs)
    version = _latest(schema.function_opset_versions, opset)
    if data is None and version is not None:
        data = schema.get_function_with_opset_version(version)
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    defaults = {
        name: a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.type != onnx.AttributeProto.UNDEFINED
    }
    return function, defaults


def _schema(proto: onnx.NodeProto, opset: int) -> onnx.defs.OpSchema | None:
    import onnx

    try:
        return onnx.defs.get_schema(proto.op_type, opset, proto.domain)
    except onnx.defs.SchemaError:
        return None


def _latest(versions: Sequence[int], opset: int) -> int | None:
    return max((v for v in versions if v <= opset), default=None)


def _built(schema: onnx.defs.OpSchema, opset: int) -> int | None:
    """The version of the body that onnx builds from the types of a node's inputs, if it does."""
    return _latest(schema.context_dependent_function_opset_versions, opset)


def _context_dependent(
    schema: onnx.defs.OpSchema, proto: onnx.NodeProto, opset: int, inputs: Sequence[Structured | None]
) -> bytes | None:
    version = _built(schema, opset)
    if version is None:
        return None
    types = [type_proto(tensor) for tensor in inputs]
    _check_types(schema, proto, types)
    try:
        return schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), [t.SerializeToString() for t in types]
        )
    except Exception:  # onnx reports a body that it cannot build for these types in several ways
        return None


def _check_types(schema: onnx.defs.OpSchema, proto: onnx.NodeProto, types: Sequence[onnx.TypeProto]) -> None:
    """Raise InvalidNode where a type is missing that onnx builds a body from: it reads it through a null pointer."""
    import onnx

    if len(proto.input) < schema.min_input:
        raise InvalidNode(f"it has {len(proto.input)} inputs; the op takes at least {schema.min_input}")
    for number, name in enumerate(proto.input):
        formal = schema.inputs[min(number, len(schema.inputs) - 1)]
        known = number < len(types) and types[number].WhichOneof("value") is not None
        if not known and formal.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
            raise InvalidNode(
                f"input '{formal.name}' ('{name}') has no type, and ONNX builds the body of {proto.op_type} from it"
            )


def type_proto(tensor: Structured | None) -> onnx.TypeProto:
    """The ONNX type of a tensor or sequence; an empty one for an absent input."""
    import onnx

    if tensor is None or isinstance(tensor, Absent | MapSequence):
        return onnx.TypeProto()
    if isinstance(tensor, TensorSequence):
        element = onnx.helper.make_tensor_type_proto(_code(tensor.dtype), None)
        return onnx.helper.make_sequence_type_proto(element)
    dims = [d if isinstance(d, int) else None for d in tensor.shape]
    return onnx.helper.make_tensor_type_proto(_code(tensor.dtype), dims)


def _code(dtype: str) -> int:
    return 8 if dtype == STRING else dtypes.by_name[dtype].code


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """An attribute as a Python value: int, float, str, numpy array, GraphProto, or a list of these."""
    import onnx

    kinds = onnx.AttributeProto
    if attribute.type == kinds.TENSOR:
        return onnx.numpy_helper.to_array(attribute.t)
    if attribute.type == kinds.TENSORS:
        return [onnx.numpy_helper.to_array(t) for t in attribute.tensors]
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == kinds.STRINGS:
        return [v.decode("utf-8", "replace") for v in value]
    return list(value) if attribute.type in (kinds.INTS, kinds.FLOATS, kinds.GRAPHS) else value


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """All attributes of a node as Python values. Raises InvalidNode for one that cannot be read."""
    values: dict[str, Any] = {}
    for attribute in proto.attribute:
        try:
            values[attribute.name] = attribute_value(attribute)
        except (TypeError, ValueError, KeyError) as error:  # of a tensor whose data do not fit, or of no known type
            raise InvalidNode(f"attribute '{attribute.name}' is damaged: {error}") from error
    return values


def resolve(proto: onnx.NodeProto, enclosing: Attributes) -> onnx.NodeProto:
    """The node with attribute references replaced by the enclosing call's attributes, or left out when absent there."""
    import onnx

    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    del result.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            result.attribute.append(attribute)
        elif attribute.ref_attr_name in enclosing:
            added = result.attribute.add()
            added.CopyFrom(enclosing[attribute.ref_attr_name])
            added.name = attribute.name
    return result
