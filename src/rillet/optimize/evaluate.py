"""Elementwise operations on constants, in numpy, to the bit.

Only operations that IEEE 754 or two's complement defines to the bit are evaluated, so that it makes no difference
whether the compiler computes a value or the program does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch_mlir import ir

from rillet.ir import dtypes
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Structured, is_projected


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


def evaluate(view: Structured, inputs: Sequence[np.ndarray]) -> np.ndarray | None:
    """The only result of an elementwise operation of which all inputs are known; None where it cannot be told."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read() or DYNAMIC in view.extents():
        return None
    if not all(is_projected(m) for m in view.maps):
        return None
    every = tuple(range(view.loops))
    values: dict[ir.Value, np.ndarray] = {
        argument: along(array, map_, every)
        for argument, array, map_ in zip(view.body.arguments, inputs, view.input_maps, strict=False)
    }
    result = evaluate_body(view, values)
    if result is None:
        return None
    shape = ir.RankedTensorType(view.op.results[0].type).shape
    return np.ascontiguousarray(along(np.broadcast_to(result, view.extents()), every, view.init_maps[0])).reshape(shape)


def evaluate_body(view: Structured, values: dict[ir.Value, np.ndarray]) -> np.ndarray | None:
    """What the body yields for its arguments, of which ``values`` has arrays that broadcast together; None where it
    cannot be told. ``values`` gets the results of all operations.
    """
    for op in view.body_ops():
        result = compute(op, [known(v, values) for v in op.operands])
        if result is None:
            return None
        values[op.results[0]] = result
    return known(view.yielded()[0], values)


def compute(op: ir.Operation, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The result of one scalar operation on arrays that broadcast together; None where it cannot be told."""
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
    if not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) or isinstance(value.type, ir.IndexType):
        return None
    return np.asarray(attribute.value).astype(_dtype(value.type))


def _dtype(type_: ir.Type) -> np.dtype:
    """The numpy type of an element type; integers are signed."""
    found = [t.numpy for t in dtypes.by_code.values() if t.mlir == str(type_)]
    return next((t for t in found if t.kind == "i"), found[0])


def _width(type_: ir.Type) -> int:
    return ir.IntegerType(type_).width


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
        if not isinstance(op.results[0].type, ir.IntegerType) or _width(op.results[0].type) > 32:
            return None  # the products of longer ones do not fit into what is computed with
        width = _width(op.results[0].type)
        a, b = (signed(o, width) for o in operands)
        return signed(function(a, b), width).astype(_dtype(op.results[0].type))

    return apply


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
    inside = np.all((whole >= -limit) & (whole < limit))  # what lies outside has no defined result
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
    "math.absf": _float(np.abs),
    "arith.addi": _integer(np.add),
    "arith.subi": _integer(np.subtract),
    "arith.muli": _integer(np.multiply),
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "arith.extsi": _from_signed,
    "arith.extui": _from_unsigned,
    "arith.sitofp": _from_signed,
    "arith.uitofp": _from_unsigned,
    "arith.fptosi": _to_signed,
    "arith.trunci": _truncated,
}
