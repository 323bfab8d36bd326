"""Makes denormal weights zero where they are nothing beside the others.

Training lets channels die: weight decay shrinks their weights, or the scales of their normalizations, until these are
denormal. Many processors take more than a hundred cycles for a multiplication that reads or makes a denormal, so
a few dead channels take longer than the rest of their layer, and their results slow the next one.

Denormals among the constants that an operation multiplies by, and among those that are then added, become zero of the
same sign if the largest finite one is at least 2^24 times the smallest normal number. A change of each weight by half a
unit in the last place of the largest weight is larger. Constants that are all so small stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rillet.ir import Program, constants
from rillet.ir.rewrite import defining, sweep_constants
from rillet.ir.structured import Structured, structured, walk
from rillet.optimize.sole_user import follower

_NOTHING = 2.0**-24  # half a unit in the last place of 1
_DTYPES = tuple(map(np.dtype, (np.float32, np.float64, ml_dtypes.bfloat16)))  # f16's denormals are normal in f32 sums
_CHUNK = 1 << 20  # elements that are looked at together


def run(program: Program, options: None) -> None:
    """Flush the constant factors in ``@main`` and its control flow, and what is added to their products."""
    with program.context, ir.Location.unknown():
        made: dict[str, str] = {}
        for op in list(walk(program.main())):
            view = structured(op)
            if view is None or not (factors := [n for n in range(len(view.inputs)) if _only_multiplies(view, n)]):
                continue
            found = [(view, n, a) for n in factors if (a := _weights(program, view, n)) is not None]
            if not found:
                continue
            addends = [*((view, n) for n in _added_to_products(view)), *_added_after(view)]
            found += [(user, n, a) for user, n in addends if (a := _weights(program, user, n)) is not None]
            arrays = [array for *_, array in found]
            if not any(map(_has_denormals, arrays)) or (new := flushed(arrays)) is None:
                continue
            for (user, number, _), array in zip(found, new, strict=True):
                _use(program, user, number, array, made)
        sweep_constants(program)


def flushed(arrays: Sequence[np.ndarray], smallest: float | None = None) -> list[np.ndarray] | None:
    """The arrays with zeros for numbers below ``smallest``, by default the smallest normal number of their type; None
    where these are not all nothing beside the largest finite number."""
    sizes = [np.abs(a) for a in arrays]
    least = [smallest or float(ml_dtypes.finfo(a.dtype).smallest_normal) for a in arrays]
    tiny = [(size != 0) & (size < bound) for size, bound in zip(sizes, least, strict=True)]
    if not any(t.any() for t in tiny):
        return list(arrays)
    largest = max(float(np.max(size, where=np.isfinite(size), initial=0)) for size in sizes)
    if largest * _NOTHING < max(least):
        return None
    return [np.where(t, np.copysign(np.zeros_like(a), a), a) for t, a in zip(tiny, arrays, strict=True)]


def _only_multiplies(view: Structured, number: int) -> bool:
    """Whether the body uses an input's elements, as they are or extended, as factors of products only."""

    def multiplies(value: ir.Value) -> bool:
        owners = [use.owner.operation for use in value.uses]
        return bool(owners) and all(
            op.name == "arith.mulf" or (op.name == "arith.extf" and multiplies(op.results[0])) for op in owners
        )

    return multiplies(view.body.arguments[number])


def _added_to_products(view: Structured) -> list[int]:
    """The inputs that the body adds to products and uses in no other way."""

    def is_added(value: ir.Value) -> bool:
        owners = [use.owner.operation for use in value.uses]
        return bool(owners) and all(
            op.name == "arith.addf" and any(defining(v, "arith.mulf") is not None for v in op.operands) for op in owners
        )

    return [n for n in range(len(view.inputs)) if is_added(view.body.arguments[n])]


def _added_after(view: Structured) -> Iterator[tuple[Structured, int]]:
    """The operations that add to the result of ``view``, one after the other, with the number of what they add."""
    if len(view.results) != 1:
        return
    value = view.results[0]
    while (found := follower(value)) is not None:
        after, variable = found
        addition = defining(after.yielded()[0], "arith.addf")
        numbers = [] if addition is None else [after.input_number(v) for v in addition.operands]
        if len(numbers) != 2 or variable not in numbers or None in numbers:
            return
        (other,) = [n for n in numbers if n is not None and n != variable] or [variable]
        yield after, other
        value = after.results[0]


def _weights(program: Program, view: Structured, number: int) -> np.ndarray | None:
    """The array of an input that is a constant of several floats; None for any other."""
    array = constants.tensor_array(program, view.inputs[number])
    return array if array is not None and array.dtype in _DTYPES and any(array.strides) else None


def _has_denormals(array: np.ndarray) -> bool:
    smallest, flat = ml_dtypes.finfo(array.dtype).smallest_normal, array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        size = np.abs(flat[start : start + _CHUNK])
        if np.any((size != 0) & (size < smallest)):
            return True
    return False


def _use(program: Program, view: Structured, number: int, array: np.ndarray, made: dict[str, str]) -> None:
    """Read ``array``, the constant that is this input without denormals. It is stored once for each constant."""
    value = view.inputs[number]
    old = constants.global_name(value)
    assert old is not None
    with ir.InsertionPoint(view.op), view.op.location:
        if old not in made:
            made[old] = constants.declare(program, array, old, value.type)
        view.op.operands[number] = constants.load(made[old], value.type)
