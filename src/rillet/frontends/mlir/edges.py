"""Records the names, dtypes and names of dimensions of the entry's arguments and results for the module file.

This is read before any conversion, for afterwards integers no longer say whether they are signed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.frontends.dimension_names import is_placeholder, own_name
from rillet.ir import dtypes
from rillet.ir.attributes import DIMS, DTYPE, NAME

_ADVICE = "convert it inside the function"


def annotate(main: ir.Operation) -> None:
    """Put ``rillet.name``, ``rillet.dtype`` and ``rillet.dims`` on each argument and result; other attributes go.

    A dynamic dimension without a name, or with a placeholder for one, gets a name of its own.

    Raises CompileError for a value that is not a ranked tensor, an element type that numpy and ml_dtypes lack, names
    that occur twice, and given attributes that contradict the types.
    """
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for kind, key, types in (("argument", "arg_attrs", type_.inputs), ("result", "res_attrs", type_.results)):
        given = main.attributes[key] if key in main.attributes else [()] * len(types)
        edges = [
            _edge(kind, ordinal, tensor, {named.name: named.attr for named in attributes})
            for ordinal, (tensor, attributes) in enumerate(zip(types, given, strict=True))
        ]
        written = {name for edge in edges for name in dimension_names(edge.get(DIMS))}
        for edge, tensor in zip(edges, types, strict=True):
            if not tensor.has_static_shape:
                edge[DIMS] = _dims(ir.StringAttr(edge[NAME]).value, tensor, dimension_names(edge.get(DIMS)), written)
        _check_names(kind, [ir.StringAttr(edge[NAME]).value for edge in edges])
        if edges:
            main.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(edge) for edge in edges])


def dtype_name(element: ir.Type) -> str:
    """The dtype of an element type; "" for one that no dtype has."""
    text = str(element)
    unsigned = text.startswith("ui")
    for candidate in dtypes.by_code.values():
        # Signless integers are read as signed: MLIR does not say, and int8/int64 are what numpy users expect.
        if candidate.mlir == text.removeprefix("u") and candidate.name.startswith("uint") == unsigned:
            return candidate.name
    return ""


def _edge(kind: str, ordinal: int, tensor: ir.Type, given: Mapping[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    what = f"{kind} {ordinal} of @main"
    if not isinstance(tensor, ir.RankedTensorType):
        raise CompileError(f"{what} is {tensor}; only ranked tensors can cross a module's edge")
    dtype = dtype_name(tensor.element_type)
    if not dtype or tensor.encoding is not None:
        raise CompileError(f"{what} is {tensor}, which has no numpy dtype: {_ADVICE}")
    edge = {NAME: given.get(NAME, ir.StringAttr.get(f"{kind}{ordinal}"))}
    edge[DTYPE] = given.get(DTYPE, ir.StringAttr.get(dtype))
    if not isinstance(edge[NAME], ir.StringAttr) or not ir.StringAttr(edge[NAME]).value:
        raise CompileError(f"{what} has the {NAME} {edge[NAME]}; it takes a string")
    _check_dtype(what, tensor, edge[DTYPE])
    if DIMS in given:
        _check_dims(what, tensor, given[DIMS])
        edge[DIMS] = given[DIMS]
    return edge


def dimension_names(given: ir.Attribute | None) -> list[str]:
    """The names in ``rillet.dims``, "" for placeholders; none where it is absent."""
    names = [ir.StringAttr(d).value for d in ir.ArrayAttr(given)] if given is not None else []
    return ["" if is_placeholder(name) else name for name in names]


def _dims(name: str, tensor: ir.RankedTensorType, given: Sequence[str], written: Collection[str]) -> ir.Attribute:
    """``rillet.dims`` of a dynamic tensor: sizes as text, and a name for each dimension without one."""
    names = given or [""] * tensor.rank
    dims = [
        (names[a] or own_name(name, a, written)) if tensor.is_dynamic_dim(a) else str(d)
        for a, d in enumerate(tensor.shape)
    ]
    return ir.ArrayAttr.get([ir.StringAttr.get(d) for d in dims])


def _check_dtype(what: str, tensor: ir.RankedTensorType, given: ir.Attribute) -> None:
    name = ir.StringAttr(given).value if isinstance(given, ir.StringAttr) else ""
    element = str(tensor.element_type)
    if name not in dtypes.by_name or dtypes.by_name[name].mlir not in (element, element.removeprefix("u")):
        raise CompileError(f"{what} is {tensor}, but its {DTYPE} is {given}")


def _check_dims(what: str, tensor: ir.RankedTensorType, given: ir.Attribute) -> None:
    names = list(given) if isinstance(given, ir.ArrayAttr) else []
    if len(names) != tensor.rank or not all(isinstance(name, ir.StringAttr) for name in names):
        raise CompileError(f"{what} is {tensor}, but its {DIMS} is {given}; it takes a string for each dimension")


def _check_names(kind: str, names: list[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CompileError(f"two {kind}s of @main have the {NAME} '{twice}'")
