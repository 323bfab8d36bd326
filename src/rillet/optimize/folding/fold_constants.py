"""Applies operations that only move elements to constants, in numpy: reshapes, transpositions, slices, pads,
concatenations, gathers at known positions.

The frontend folds whole nodes; the operations here come from other passes. No result grows beyond a factor of
``Options.growth``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.ir import Program, constants, dtypes
from rillet.ir.extents import box, joined_axis, margins, padding_value
from rillet.ir.rewrite import defining, erase_dead, sweep_constants
from rillet.ir.structured import captures, copy_permutation, structured, walk
from rillet.optimize.folding.evaluate import evaluate


@dataclass(frozen=True)
class Options:
    """A result may have ``growth`` times the bytes of its operands, or ``small`` bytes."""

    growth: int = 4
    small: int = 1 << 20


def run(program: Program, options: Options) -> None:
    """Fold in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            fold = _FOLDS.get(op.name)
            if fold is None or not all(ir.RankedTensorType(r.type).has_static_shape for r in op.results):
                continue
            arrays = [constants.array_of(program, v) for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
            gathered = op.name == "linalg.generic" and list(op.operands) == [op.operands[-1]]
            tables = _tables(program, op) if gathered else {}
            if op.name == "linalg.generic":
                arrays = list(tables.values()) if gathered else arrays[:1]
            if not arrays or any(a is None for a in arrays) or not _is_bounded(op, arrays, options):  # type: ignore[arg-type]
                continue
            result = _gather(op, tables) if gathered else fold(op, [a for a in arrays if a is not None])
            if result is None:
                continue
            first = next(iter(tables), op.operands[0])
            name = constants.global_name(first) or "constant"
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(constants.constant(program, result, name))
        erase_dead(program.main())
        sweep_constants(program)


def _is_bounded(op: ir.Operation, arrays: list[np.ndarray], options: Options) -> bool:
    tensor = ir.RankedTensorType(op.results[0].type)
    size = int(np.prod(tensor.shape, dtype=np.int64)) * dtypes.storage_bytes(tensor.element_type)
    return size <= max(options.small, options.growth * sum(a.nbytes for a in arrays))


def _tables(program: Program, op: ir.Operation) -> dict[ir.Value, np.ndarray | None]:
    """The outside tensors from which the body of an operation without inputs extracts elements."""
    outside = [v for v in captures(op) if isinstance(v.type, ir.RankedTensorType)]
    return {value: constants.array_of(program, value) for value in outside}


def _gather(op: ir.Operation, tables: dict[ir.Value, np.ndarray | None]) -> np.ndarray | None:
    view = structured(op)
    known = {value: array for value, array in tables.items() if array is not None}
    return evaluate(view, [], known) if view is not None else None


def _shape(op: ir.Operation) -> list[int]:
    return list(ir.RankedTensorType(op.results[0].type).shape)


def _reshape(op: ir.Operation, arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0].reshape(_shape(op))


def _transpose(op: ir.Operation, arrays: list[np.ndarray]) -> np.ndarray | None:
    permutation = copy_permutation(op)
    return None if permutation is None else np.ascontiguousarray(arrays[0].transpose(permutation))


def _slice(op: ir.Operation, arrays: list[np.ndarray]) -> np.ndarray | None:
    index = []
    for start, size, step in zip(*box(op), strict=True):
        if not (isinstance(start, int) and isinstance(size, int) and isinstance(step, int)) or step < 1:
            return None
        index.append(slice(start, start + (size - 1) * step + 1 if size else start, step))
    return np.ascontiguousarray(arrays[0][tuple(index)]).reshape(_shape(op))


def _pad(op: ir.Operation, arrays: list[np.ndarray]) -> np.ndarray | None:
    widths = list(zip(*margins(op), strict=True))
    maker = defining(padding_value(op))
    if maker is None or maker.name != "arith.constant" or not all(isinstance(w, int) for pair in widths for w in pair):
        return None
    value = maker.attributes["value"].value
    return np.pad(arrays[0], widths, constant_values=np.asarray(value).astype(arrays[0].dtype))  # type: ignore[arg-type]


def _concat(op: ir.Operation, arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays, joined_axis(op))


_FOLDS: dict[str, Callable[[ir.Operation, list[np.ndarray]], np.ndarray | None]] = {
    "tensor.expand_shape": _reshape,
    "tensor.collapse_shape": _reshape,
    "tensor.cast": _reshape,
    "tensor.extract_slice": _slice,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "linalg.generic": _transpose,
}
