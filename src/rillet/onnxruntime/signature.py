"""What a model takes and gives, in ONNX Runtime's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.runtime.specs import TensorSpec

if TYPE_CHECKING:
    import onnx

# Names of element types that differ from numpy's.
_NAMES = {"float32": "float", "float64": "double", "object": "string", "float8_e4m3fn": "float8e4m3fn"} | {
    "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2": "float8e5m2",
    "float8_e5m2fnuz": "float8e5m2fnuz",
}


@dataclass(frozen=True)
class NodeArg:
    """An input or output. ``shape``: sizes, names of dynamic dimensions, None for those without a name."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


def tensor_type(dtype: np.dtype) -> str:
    """A tensor's type, ``tensor(float)`` say."""
    return f"tensor({_NAMES.get(dtype.name, dtype.name)})"


def numpy_type(element_type: Any) -> np.dtype:
    """The numpy type of what ONNX Runtime takes for one: a numpy type, or ONNX's number."""
    if isinstance(element_type, int):
        import onnx

        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    return np.dtype(element_type)


def element_code(dtype: np.dtype) -> int:
    """ONNX's number for an element type."""
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def argument(spec: TensorSpec) -> NodeArg:
    """The argument that a compiled module declares."""
    return NodeArg(spec.name, tensor_type(spec.dtype), [None if dim == -1 else dim for dim in spec.shape])


def declared(info: onnx.ValueInfoProto) -> NodeArg:
    """The argument that a model declares; one without a shape has an empty one, as ONNX Runtime gives it."""
    return NodeArg(info.name, _type_name(info.type), _shape(info.type))


def metadata(model: onnx.ModelProto) -> ModelMetadata:
    """What the model says of itself."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
        custom_metadata_map={entry.key: entry.value for entry in model.metadata_props},
    )


def _type_name(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({_type_name(type_.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_type_name(type_.optional_type.elem_type)})"
    if kind == "map_type":
        key = _element_name(type_.map_type.key_type)
        return f"map({key},{_type_name(type_.map_type.value_type)})"
    if kind is None:
        return ""
    return f"tensor({_element_name(type_.tensor_type.elem_type)})"


def _element_name(code: int) -> str:
    import onnx

    return onnx.TensorProto.DataType.Name(code).lower()


def _shape(type_: onnx.TypeProto) -> list[int | str | None]:
    if type_.WhichOneof("value") != "tensor_type":
        return []
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in type_.tensor_type.shape.dim]
