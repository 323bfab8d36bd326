"""Chains of elementwise operations from narrow integers to narrow integers, described by their result for each integer.

An 8-bit integer has 256 values. Computing a chain for all of them shows whether dequantizing, computing and quantizing
gives the same integers again, or clamps them, in whatever way it is written.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.extents import extents
from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured, is_permutation, structured
from rillet.optimize.folding.evaluate import evaluate_body, unsigned
from rillet.optimize.quantized.dequantization import Dequantization, dequantization


def clamped(program: Program, view: Structured) -> ir.Value | None:
    """The integers that ``view`` quantizes again with the same parameters, clamped if an operation between clamps them,
    made at the insertion point. None when ``view`` is anything else."""
    if len(view.inits) != 1:
        return None
    element = ir.RankedTensorType(view.op.results[0].type).element_type
    if not isinstance(element, ir.IntegerType) or not 1 < element.width <= 8:
        return None
    found = _table(program, view)
    if found is None:
        return None
    start, results = found
    if start.source.type != view.op.results[0].type:
        return None
    low, high = start.limits()
    numbers = np.arange(low, high + 1)
    made = unsigned(results, element.width)
    made = np.where(made > high, made - (1 << element.width), made)
    if np.array_equal(made, numbers):
        return start.source
    least, most = int(made.min()), int(made.max())
    if not np.array_equal(made, np.clip(numbers, least, most)):
        return None
    return _clamp(start, least, most)


def _table(program: Program, view: Structured) -> tuple[Dequantization, np.ndarray] | None:
    """The integers that the result is computed from, and the result for each of them, in ascending order."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return None
    order = view.init_maps[0]
    values: dict[ir.Value, np.ndarray] = {}
    start = None
    for argument, value, map_ in zip(view.body.arguments, view.inputs, view.input_maps, strict=False):
        array = constants.array_of(program, value) if isinstance(value.type, ir.RankedTensorType) else None
        if array is not None and array.size and not any(array.strides):
            values[argument] = array.flat[0]
            continue
        if start is not None or map_ != order or not is_permutation(map_, view.loops):
            return None
        found = _values(program, value)
        if found is None:
            return None
        start, values[argument] = found
    result = evaluate_body(view, values) if start is not None else None
    return None if start is None or result is None else (start, np.broadcast_to(result, (start.count,)))


def _values(program: Program, value: ir.Value) -> tuple[Dequantization, np.ndarray] | None:
    start = dequantization(program, value)
    if start is not None:
        return (start, start.table()) if start.is_uniform and start.scale is not None else None
    owner = defining(value)
    view = structured(owner) if owner is not None else None
    return _table(program, view) if view is not None else None


def _clamp(start: Dequantization, least: int, most: int) -> ir.Value:
    """The integers of ``start`` clamped to ``least`` and ``most``."""
    source = start.source
    element = ir.RankedTensorType(source.type).element_type
    low, high = start.limits()
    loops = builders.dims(ir.RankedTensorType(source.type).rank)

    def body(x: ir.Value, _: ir.Value) -> ir.Value:
        if least > low:
            bound = arith.ConstantOp(element, constants.scalar_attr(least, element)).result
            x = (arith.MaxSIOp if start.is_signed else arith.MaxUIOp)(x, bound).result
        if most < high:
            bound = arith.ConstantOp(element, constants.scalar_attr(most, element)).result
            x = (arith.MinSIOp if start.is_signed else arith.MinUIOp)(x, bound).result
        return x

    output = builders.empty(extents(source), element)
    return builders.generic([(source, loops)], [(output, loops)], "p" * len(loops), body)[0]
