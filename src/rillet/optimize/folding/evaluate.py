"""Scalar operations of bodies on constants, in numpy, to the bit.

Only operations that IEEE 754 or two's complement defines to the bit are evaluated, so that compile time and run time
give the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch_mlir import ir

from rillet.ir import dtypes
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Structured, index_loop, is_projected


def along(array: np.ndarray, source: Sequence[object], target: Sequence[object]) -> np.ndarray:
    """``array``, indexed by the loops ``source``, arranged to broadcast over the loops ``target``. Loops that are
    missing from ``target`` must have extent 1 in the array.
    """
    array = np.asarray(array)
    if array.ndim == 0:
        return array
    if array.ndim != len(source):
        array = array.reshape((1,) * (len(source) - array.ndim) + array.shape)
    gone = tuple(i for i, d in enumerate(source) if d not in target)
    left = [d for d in source if d in target]
    array = np.squeeze(array, gone).transpose([left.index(d) for d in target if d in left])
    return array.reshape([array.shape[[d for d in target if d in left].index(d)] if d in left else 1 for d in target])


def evaluate(
    view: Structured, inputs: Sequence[np.ndarray], tables: Mapping[ir.Value, np.ndarray] | None = None
) -> np.ndarray | None:
    """The only result of an elementwise operation whose inputs are all known. ``tables``: the outside tensors whose
    elements its body extracts. None where the result cannot be computed."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read() or DYNAMIC in view.extents:
        return None
    if not all(is_projected(m) for m in view.maps):
        return None
    every = tuple(range(view.loops))
    values: dict[ir.Value, np.ndarray] = {
        argument: along(array, map_, every)
        for argument, array, map_ in zip(view.body.arguments, inputs, view.input_maps, strict=False)
    }
    result = evaluate_body(view, values, tables)
    if result is None:
        return None
    shape = ir.RankedTensorType(view.op.results[0].type).shape
    return np.ascontiguousarray(along(np.broadcast_to(result, view.extents), every, view.init_maps[0])).reshape(shape)


def evaluate_body(
    view: Structured, values: dict[ir.Value, np.ndarray], tables: Mapping[ir.Value, np.ndarray] | None = None
) -> np.ndarray | None:
    """The values that the body yields. ``values`` has arrays for its arguments, which broadcast together, and gets the
    results of all operations. ``tables``: as in ``evaluate``. None where the values cannot be computed."""
    for op in view.body_ops():
        if op.name == "linalg.index":
            result = _positions(view, index_loop(op))
        elif op.name == "tensor.extract":
            table = (tables or {}).get(op.operands[0])
            result = None if table is None else _element(table, [known(v, values) for v in list(op.operands)[1:]])
        else:
            result = compute(op, [known(v, values) for v in op.operands])
        if result is None:
            return None
        values[op.results[0]] = result
    return known(view.yielded()[0], values)


def _positions(view: Structured, loop: int) -> np.ndarray | None:
    """The position in one loop, to broadcast over all."""
    extent = view.extents[loop]
    return None if extent == DYNAMIC else along(np.arange(extent), [loop], range(view.loops))


def _element(table: np.ndarray, places: Sequence[np.ndarray | None]) -> np.ndarray | None:
    for place, extent in zip(places, table.shape, strict=True):
        if place is None or np.any((place < 0) | (place >= extent)):
            return None
    return table[tuple(p for p in places if p is not None)]


def compute(op: ir.Operation, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The result of one scalar operation on arrays that broadcast together; None where it cannot be computed."""
    if op.name not in _OPERATIONS or any(o is None for o in operands) or len(op.results) != 1:
        return None
    with np.errstate(all="ignore"):
        return _OPERATIONS[op.name](op, [o for o in operands if o is not None])


def known(value: ir.Value, values: dict[ir.Value, np.ndarray]) -> np.ndarray | None:
    """The array of a scalar in a body: computed before, or a constant."""
    if value in values:
        return values[value]
    owner = defining(value)
    if owner is None or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    if not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr):
        return None
    return np.asarray(attribute.value).astype(_dtype(value.type))


def _dtype(type_: ir.Type) -> np.dtype:
    """The numpy type of an element type; integers are signed."""
    if isinstance(type_, ir.IndexType):
        return np.dtype(np.int64)
    found = [t.numpy for t in dtypes.by_code.values() if t.mlir == str(type_)]
    return next((t for t in found if t.kind == "i"), found[0])


def _width(type_: ir.Type) -> int:
    return 64 if isinstance(type_, ir.IndexType) else ir.IntegerType(type_).width


def unsigned(array: np.ndarray, width: int) -> np.ndarray:
    """The integers of ``width`` bits as int64, read without a sign."""
    return array.astype(np.int64) & ((1 << width) - 1)


def signed(array: np.ndarray, width: int) -> np.ndarray:
    """The integers of ``width`` bits as int64, read with a sign."""
    if width == 64:
        return array.astype(np.int64)
    half = 1 << (width - 1)
    return (unsigned(array, width) ^ half) - half


def _integer(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray | None]:
    def apply(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
        width = _width(op.results[0].type)
        a, b = (signed(o, width) for o in operands)
        return signed(function(a, b), width).astype(_dtype(op.results[0].type))  # (64 bits wrap in numpy too)

    return apply


# In the order of the predicates' numbers, without those of unsigned integers.
_PREDICATES: Mapping[str, Mapping[int, Callable[..., np.ndarray]]] = {
    "arith.cmpi": {0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal},
    "arith.cmpf": {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal},
}


def _compare(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    function = _PREDICATES[op.name].get(ir.IntegerAttr(op.attributes["predicate"]).value)
    if op.name == "arith.cmpi":
        operands = [signed(o, _width(op.operands[0].type)) for o in operands]
    return None if function is None else function(*operands)


def _select(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    return np.where(operands[0].astype(bool), operands[1], operands[2])


def _float(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    def apply(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
        wide = isinstance(op.results[0].type, ir.F32Type | ir.F64Type)
        return function(*operands) if wide else None

    return apply


def _convert(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    return operands[0].astype(_dtype(op.results[0].type))


def _from_signed(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    return signed(operands[0], _width(op.operands[0].type)).astype(_dtype(op.results[0].type))


def _from_unsigned(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    width = _width(op.operands[0].type)
    return None if width > 32 else unsigned(operands[0], width).astype(_dtype(op.results[0].type))


def _to_signed(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    limit = 2.0 ** (_width(op.results[0].type) - 1)
    whole = np.trunc(operands[0].astype(np.float64))
    inside = np.all((whole >= -limit) & (whole < limit))  # other values have no defined result
    return whole.astype(_dtype(op.results[0].type)) if inside else None


def _truncated(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    return signed(operands[0], _width(op.results[0].type)).astype(_dtype(op.results[0].type))


_OPERATIONS: dict[str, Callable[[ir.Operation, list[np.ndarray]], np.ndarray | None]] = {
    "arith.addf": _float(np.add),
    "arith.subf": _float(np.subtract),
    "arith.mulf": _float(np.multiply),
    "arith.divf": _float(np.divide),
    "arith.negf": _float(np.negative),
    "arith.minimumf": _float(np.minimum),
    "arith.maximumf": _float(np.maximum),
    "math.sqrt": _float(np.sqrt),
    "math.roundeven": _float(np.rint),
    "math.floor": _float(np.floor),
    "math.ceil": _float(np.ceil),
    "math.absf": _float(np.abs),
    "arith.addi": _integer(np.add),
    "arith.subi": _integer(np.subtract),
    "arith.muli": _integer(np.multiply),
    "arith.maxsi": _integer(np.maximum),
    "arith.minsi": _integer(np.minimum),
    "arith.andi": _integer(np.bitwise_and),
    "arith.ori": _integer(np.bitwise_or),
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.select": _select,
    "arith.index_cast": _from_signed,
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "arith.extsi": _from_signed,
    "arith.extui": _from_unsigned,
    "arith.sitofp": _from_signed,
    "arith.uitofp": _from_unsigned,
    "arith.fptosi": _to_signed,
    "arith.trunci": _truncated,
}
