"""The edge of a graph: dtypes and dimensions of its inputs, and outputs that differ from their declarations."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from rillet.errors import CompileError, UnsupportedError, UnsupportedNode, advice
from rillet.frontends.dimension_names import is_placeholder, own_name
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.frontend import InputSpec, Shapes
from rillet.frontends.onnx.node import dtype_name
from rillet.frontends.pinned_dimensions import given_dims, listed
from rillet.frontends.tensor_size import check_size
from rillet.frontends.verification import Arrays
from rillet.ir import dtypes

if TYPE_CHECKING:
    import onnx

_STRING = 8  # onnx.TensorProto.STRING
_SHOWN = 3  # contradictions, or names, that a warning spells out
_WEIGHTS = 1 << 16  # bytes of defaults that are rather weights than settings


def graph_inputs(
    graph: onnx.GraphProto, held: Collection[str], defaults: Arrays, overrides: Shapes, opset: int
) -> list[InputSpec]:
    """The inputs of a graph that are not initializers (``held``), with their dtypes and dimensions.

    An input of strings becomes two: see ``string_parts``. ``overrides`` replaces the shapes of inputs by name. A size
    that it gives to a named dimension also holds for the inputs that it leaves out. Inputs with ``defaults`` come last
    and have their dtypes and shapes. Raises CompileError, and UnsupportedError for a dtype.
    """
    declared = [i for i in graph.input if i.name not in held and i.name not in defaults]
    known = {i.name for i in declared}
    for name in overrides:
        if name not in known:
            raise CompileError(f"the model has no input '{name}'; its inputs are: {', '.join(sorted(known)) or 'none'}")
    result: list[InputSpec] = []
    pinned, dims_of = shared_sizes(graph, overrides), declared_dims(graph)
    for info in declared:
        if not info.type.HasField("tensor_type"):
            kind = info.type.WhichOneof("value")
            maps = (
                "; leave the step that reads dicts (a DictVectorizer) out of the export" if kind == "map_type" else ""
            )
            raise CompileError(f"input '{info.name}' is a {kind}; only tensors can be inputs{maps}")
        dims = _dims(info, dims_of[info.name], overrides, pinned)
        if info.type.tensor_type.elem_type == _STRING:
            check_size(dims, 8, f"input '{info.name}'")
            parts = string_parts(info.name)
            result.append(InputSpec(parts[0], "int64", dims))
            result.append(InputSpec(parts[1], "uint8", (f"{parts[1]}_0",)))
            continue
        try:
            dtype = dtype_name(info.type.tensor_type.elem_type)
        except UnsupportedFeature as error:
            refused = UnsupportedNode(info.name, "input", opset, f"{error.reason} is not supported")
            raise UnsupportedError([refused]) from error
        check_size(dims, dtypes.by_name[dtype].bits // 8, f"input '{info.name}'")
        result.append(InputSpec(info.name, dtype, dims))
    return result + [InputSpec(name, a.dtype.name, a.shape, has_default=True) for name, a in defaults.items()]


def string_inputs(graph: onnx.GraphProto, held: Collection[str]) -> list[str]:
    """The names of the inputs that are tensors of strings."""
    return [i.name for i in graph.input if i.name not in held and i.type.tensor_type.elem_type == _STRING]


def string_parts(name: str) -> tuple[str, str]:
    """The names of the two tensors that stand for a tensor of strings at the model's edge: ends and bytes."""
    return f"{name}[ends]", f"{name}[bytes]"


def _dims(
    info: onnx.ValueInfoProto, declared: Sequence[int | str], overrides: Shapes, pinned: Mapping[str, int]
) -> tuple[int | str, ...]:
    tensor = info.type.tensor_type
    if not tensor.HasField("shape") and info.name not in overrides:
        how = advice(f"inputs={{'{info.name}': (...)}}", f"--shape {info.name}=...")
        raise CompileError(f"input '{info.name}' has no shape in the model; give one with {how}")
    if info.name not in overrides:
        return tuple(pinned.get(d, d) if isinstance(d, str) else d for d in declared)
    return given_dims(info.name, declared if tensor.HasField("shape") else None, overrides[info.name])


def declared_dims(graph: onnx.GraphProto) -> dict[str, tuple[int | str, ...]]:
    """The dimensions that the model has for each input: sizes, and names of those without one.

    Dimensions that the model gives no name, or a placeholder, have one of their own.
    """
    written = {name for info in graph.input for name in _written_names(info)}
    return {
        info.name: tuple(
            # Exporters write 0 for a dimension that they do not know.
            d.dim_value if d.dim_value > 0 else name or own_name(info.name, axis, written)
            for axis, (d, name) in enumerate(zip(info.type.tensor_type.shape.dim, _written_names(info), strict=True))
        )
        for info in graph.input
    }


def _written_names(info: onnx.ValueInfoProto) -> list[str]:
    """The names that the model has for dimensions of a value, "" where it has none that means anything."""
    return ["" if is_placeholder(d.dim_param) else d.dim_param for d in info.type.tensor_type.shape.dim]


def shared_sizes(graph: onnx.GraphProto, overrides: Shapes) -> dict[str, int]:
    """The sizes that shapes of inputs give to named dimensions, wherever else these occur."""
    return {name: given[0][1] for name, given in _given_sizes(graph, overrides).items() if _equal(given)}


def unequal_sizes(graph: onnx.GraphProto, overrides: Shapes) -> str:
    """A sentence that names inputs with different sizes given for a dimension of one name; "" if there are none."""
    for dimension, given in _given_sizes(graph, overrides).items():
        if not _equal(given):
            name, size = given[0]
            other, other_size = next(g for g in given if g[1] != size)
            return (
                f"inputs '{name}' and '{other}' share the dimension '{dimension}' in the model, but are "
                f"given {size} and {other_size} for it: give them the same size"
            )
    return ""


def _given_sizes(graph: onnx.GraphProto, overrides: Shapes) -> dict[str, list[tuple[str, int]]]:
    """(input, size) of every size that the caller gives for a dimension of a name, by that name."""
    result: dict[str, list[tuple[str, int]]] = {}
    for info in graph.input:
        for name, size in zip(_written_names(info), overrides.get(info.name, ()), strict=False):
            if name and isinstance(size, int) and size >= 0:
                result.setdefault(name, []).append((info.name, size))
    return result


def _equal(given: Sequence[tuple[str, int]]) -> bool:
    return len({size for _, size in given}) == 1


def check_type(info: onnx.ValueInfoProto, dtype: str) -> None:
    """Raise CompileError when an output is declared with another element type than what the graph computes."""
    if wrong := _other_type(info, dtype):
        raise CompileError(f"output '{info.name}' is {wrong}: correct the declaration, or add a Cast")


def contradiction(info: onnx.ValueInfoProto, dtype: str, shape: Sequence[object]) -> str:
    """How a value's declaration differs from what the graph computes: "declared as ..."; "" where they agree.

    Dimensions that are not known (declared without a size, or no number in ``shape``) may be anything.
    """
    return _other_shape(info, shape) or _other_type(info, dtype)


def _other_shape(info: onnx.ValueInfoProto, shape: Sequence[object]) -> str:
    tensor = info.type.tensor_type
    # Exporters write 0 for a dimension that they do not know.
    sizes = [d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim]
    agree = len(sizes) == len(shape) and not any(
        d and isinstance(n, int) and d != n for d, n in zip(sizes, shape, strict=True)
    )
    if agree or not tensor.HasField("shape"):
        return ""
    declared = listed([d.dim_value or d.dim_param for d in tensor.shape.dim])
    return f"declared as {declared}, but the graph computes {listed([n if isinstance(n, int) else '?' for n in shape])}"


def _other_type(info: onnx.ValueInfoProto, dtype: str) -> str:
    code = info.type.tensor_type.elem_type
    if not code or code == dtypes.by_name[dtype].code:
        return ""
    name = dtypes.by_code[code].name if code in dtypes.by_code else f"type {code}"
    return f"declared as {name}, but the graph computes {dtype}"


def warn_of_contradictions(values: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Warn of values and outputs whose declarations contradict what is computed, by name.

    Nothing is computed from such a declaration, so it is no error; tools that edit a model often leave them behind.
    """
    advice = "Delete value_info from the model, or let onnx.shape_inference write it anew"
    if values:
        _warn("the model's value_info is wrong, and not used", values, advice)
    if outputs:
        _warn("outputs have other shapes than the model declares", outputs, "They are given as computed")


def _warn(what: str, found: Mapping[str, str], advice: str) -> None:
    shown = [f"'{name}' is {wrong}" for name, wrong in list(found.items())[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    warnings.warn(f"{what}: {'; '.join(shown)}{more}. {advice}", RuntimeWarning, stacklevel=2)


def warn_of_defaults(defaults: Arrays, constant: Sequence[str]) -> None:
    """Warn of inputs whose default nodes need to know (``constant``), and where replaceable weights cost time."""
    if constant:
        warnings.warn(
            f"calls cannot replace the defaults of {_quoted(constant)}, whose values nodes need to know: take them out "
            "of the graph's inputs",
            RuntimeWarning,
            stacklevel=2,
        )
    if sum(array.nbytes for array in defaults.values()) >= _WEIGHTS:
        warnings.warn(
            f"the initializers {_quoted(list(defaults))} are inputs too: calls may replace them, so that code cannot "
            "rely on their values and is slower; take them out of the graph's inputs where no call does",
            RuntimeWarning,
            stacklevel=2,
        )


def _quoted(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more


def declared_names(info: onnx.ValueInfoProto, name: str) -> list[str]:
    """The names that the model has for the dimensions of an output's tensor ``name``; "" where it has none."""
    is_bytes = name == string_parts(info.name)[1]
    return [] if is_bytes else _written_names(info)
