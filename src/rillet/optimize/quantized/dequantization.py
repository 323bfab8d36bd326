"""Dequantized tensors: elementwise ``(integer - zero) * scale`` of narrow integers.

The form is found in the operations that compute it: an extension or conversion of the integer, a difference with a
constant, a product with a constant, in this order, each optional except the first. A tensor of 32-bit integers without
a product is one too: integer contractions take their operands that way. The form found is exact: it is the same
operations on the same numbers, over however many structured operations they were spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.extents import extents
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured, is_permutation, is_projected, structured
from rillet.optimize.folding.evaluate import along, known, signed, unsigned

_NARROW = 8  # bits


@dataclass(frozen=True)
class Dequantization:
    """``(source - zero) * scale``. The arrays have an axis for each of the source's, of extent 1 where they do not
    vary. Without a scale the value is in 32-bit integers, with one in float32."""

    source: ir.Value
    is_signed: bool
    zero: np.ndarray  # int64
    scale: np.ndarray | None  # float32

    @property
    def is_uniform(self) -> bool:
        """Whether all elements have one zero point and one scale."""
        return self.zero.size == 1 and (self.scale is None or self.scale.size == 1)

    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer that the source's type holds."""
        width = ir.IntegerType(ir.RankedTensorType(self.source.type).element_type).width
        return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if self.is_signed else (0, (1 << width) - 1)

    def of(self, value: float) -> int | None:
        """The integer that dequantizes to ``value``, to the bit; None when there is none, or not the same for all
        elements."""
        if not self.is_uniform:
            return None
        results = self.table()
        same = np.flatnonzero((results == value) & (np.signbit(results) == np.signbit(value)))
        return int(same[0]) + self.limits()[0] if same.size == 1 else None

    @property
    def count(self) -> int:
        """The number of integers that the source's type holds."""
        low, high = self.limits()
        return high - low + 1

    def table(self) -> np.ndarray:
        """The dequantized value of each integer, in ascending order; for uniform parameters."""
        low, high = self.limits()
        wide = np.arange(low, high + 1) - self.zero.reshape(())
        with np.errstate(all="ignore"):
            return wide if self.scale is None else wide.astype(np.float32) * self.scale.reshape(())


def same_parameters(a: Dequantization, b: Dequantization) -> bool:
    """Whether equal integers of both stand for the same values."""
    if a.is_signed != b.is_signed or (a.scale is None) != (b.scale is None):
        return False
    scales = a.scale is None or b.scale is None or np.array_equal(a.scale, b.scale)
    return bool(scales and np.array_equal(a.zero, b.zero))


def dequantization(program: Program, value: ir.Value) -> Dequantization | None:
    """How ``value`` is dequantized, or None when it is not."""
    owner = defining(value)
    view = structured(owner) if owner is not None else None
    if view is None or not _is_plain(view):
        return None
    wide = [i for i, m in enumerate(view.input_maps) if is_permutation(m, view.loops)]
    arrays = {i: constants.tensor_array(program, v) for i, v in enumerate(view.inputs)}
    variables = [i for i in wide if arrays[i] is None] or wide
    if len(variables) != 1 or view.maps[variables[0]] != view.init_maps[0]:
        return None
    variable = variables[0]
    if any(a is None for i, a in arrays.items() if i != variable):
        return None
    start = _start(program, view.inputs[variable])
    if start is None:
        return None
    every = tuple(range(view.loops))
    order = view.init_maps[0]
    parameters = {
        view.body.arguments[i]: along(along(a, view.maps[i], every), every, order)
        for i, a in arrays.items()
        if i != variable and a is not None
    }
    found = _follow(view, view.body.arguments[variable], start, parameters)
    if found is None or found.source.type == view.op.results[0].type:
        return None
    rank = ir.RankedTensorType(value.type).rank
    scale = None if found.scale is None else ranked(found.scale, rank)
    return replace(found, zero=ranked(found.zero, rank), scale=scale)


def ranked(array: np.ndarray, rank: int) -> np.ndarray:
    """``array`` with axes of extent 1 in front, up to ``rank``."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _is_plain(view: Structured) -> bool:
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return False
    if not all(is_projected(m) for m in view.maps):
        return False
    element = ir.RankedTensorType(view.op.results[0].type).element_type
    return isinstance(element, ir.F32Type) or element == ir.IntegerType.get_signless(32)


def _start(program: Program, value: ir.Value) -> Dequantization | None:
    """``value`` as a dequantization: narrow integers themselves (their signedness is found later), or a value computed
    from some."""
    element = ir.RankedTensorType(value.type).element_type
    if isinstance(element, ir.IntegerType) and 1 < element.width <= _NARROW:
        rank = ir.RankedTensorType(value.type).rank
        return Dequantization(value, True, np.zeros((1,) * rank, np.int64), None)
    return dequantization(program, value)


def _follow(
    view: Structured, argument: ir.Value, start: Dequantization, parameters: dict[ir.Value, np.ndarray]
) -> Dequantization | None:
    """The body's result for ``start``, its ``argument``; None when that is no dequantization."""
    now: dict[ir.Value, Dequantization] = {argument: start}
    values = dict(parameters)
    for op in view.body_ops():
        names = [v for v in op.operands if v in now]
        rest = [known(v, values) for v in op.operands if v not in now]
        if any(r is None for r in rest) or len(names) > 1:
            return None
        other = rest[0] if rest else None
        if not names:
            wider = _wider(op, other) if len(rest) == 1 and other is not None else None
            if wider is None:
                return None
            values[op.results[0]] = wider
            continue
        step = _step(op, now[names[0]], names[0], other)
        if step is None:
            return None
        now[op.results[0]] = step
    return now.get(view.yielded()[0])


def _wider(op: ir.Operation, array: np.ndarray | None) -> np.ndarray | None:
    """A constant converted without loss."""
    if array is None or op.name not in ("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"):
        return None
    width = ir.IntegerType(op.operands[0].type).width
    if width > 16:
        return None
    numbers = signed(array, width) if op.name in ("arith.extsi", "arith.sitofp") else unsigned(array, width)
    return numbers if op.name in ("arith.extsi", "arith.extui") else numbers.astype(np.float32)


def _step(op: ir.Operation, now: Dequantization, variable: ir.Value, other: np.ndarray | None) -> Dequantization | None:
    raw = isinstance(variable.type, ir.IntegerType) and ir.IntegerType(variable.type).width <= _NARROW
    target = op.results[0].type
    if op.name in ("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"):
        is_signed = op.name in ("arith.extsi", "arith.sitofp")
        if not raw and not is_signed:
            return None
        is_float = op.name in ("arith.sitofp", "arith.uitofp")
        if is_float and not isinstance(target, ir.F32Type):
            return None
        scale = np.ones((1,) * now.zero.ndim, np.float32) if is_float else None
        return replace(now, is_signed=is_signed if raw else now.is_signed, scale=scale)
    if raw or other is None:
        return None
    first = op.operands[0] == variable
    is_integer = now.scale is None
    if op.name in (("arith.subi", "arith.addi") if is_integer else ("arith.subf", "arith.addf")):
        return _shifted(op, now, other, first)
    if op.name == "arith.mulf" and now.scale is not None and np.all(now.scale == 1.0):
        factor = np.asarray(other, np.float32)
        usable = np.isfinite(factor) & (np.abs(factor) >= np.finfo(np.float32).tiny)
        return replace(now, scale=factor) if np.all(usable) else None
    return None


def _shifted(op: ir.Operation, now: Dequantization, other: np.ndarray, first: bool) -> Dequantization | None:
    """``now`` with a constant subtracted (or added): a zero point, where sums are exact."""
    difference = op.name in ("arith.subi", "arith.subf")
    if difference and not first:
        return None
    if now.scale is not None and not np.all(now.scale == 1.0):
        return None
    offset = np.asarray(other).astype(np.int64)
    if not np.all(offset == other) or np.any(np.abs(offset) > 1 << 15):
        return None
    return replace(now, zero=now.zero + (offset if difference else -offset))


# --- making them ---


def dequantize(program: Program, value: Dequantization) -> ir.Value:
    """The dequantized tensor, made by one structured operation at the insertion point."""
    shape = ir.RankedTensorType(value.source.type)
    loops = builders.dims(shape.rank)
    i32 = ir.IntegerType.get_signless(32)
    operands: list[tuple[ir.Value, Sequence[ir.AffineExpr]]] = [(value.source, loops)]
    zeros = np.any(value.zero)
    if zeros:
        operands.append(parameter(program, value.zero.astype(np.int32), "zero_point"))
    if value.scale is not None:
        operands.append(parameter(program, value.scale, "scale"))

    def body(x: ir.Value, *rest: ir.Value) -> ir.Value:
        wide = widened(x, value.is_signed)
        if zeros:
            wide = arith.SubIOp(wide, rest[0]).result
        if value.scale is None:
            return wide
        return arith.MulFOp(arith.SIToFPOp(ir.F32Type.get(), wide).result, rest[-2]).result

    output = builders.empty(extents(value.source), i32 if value.scale is None else ir.F32Type.get())
    return builders.generic(operands, [(output, loops)], "p" * shape.rank, body)[0]


def widened(value: ir.Value, is_signed: bool) -> ir.Value:
    """A narrow scalar in 32 bits."""
    i32 = ir.IntegerType.get_signless(32)
    return (arith.ExtSIOp if is_signed else arith.ExtUIOp)(i32, value).result


def parameter(program: Program, array: np.ndarray, hint: str) -> tuple[ir.Value, list[ir.AffineExpr]]:
    """A constant with one axis for each loop, those of extent 1 left out, and the loops that it is indexed by."""
    loops = builders.dims(array.ndim)
    kept = [axis for axis in range(array.ndim) if array.shape[axis] != 1]
    value = constants.constant(program, array.reshape([array.shape[axis] for axis in kept]), hint)
    return value, [loops[axis] for axis in kept]
