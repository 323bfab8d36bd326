"""Computes elementwise operations on constants at compile time: dequantized biases, parameters of normalizations,
products of scales, and narrow weights that no contraction could take as they are.

At run time each call would widen them, which takes longer than reading them wide and needs more memory. An operation
whose result would grow much more, such as a constant broadcast to megabytes, stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.ir import Program, constants, dtypes
from rillet.ir.rewrite import erase_dead, sweep_constants
from rillet.ir.structured import Structured, structured, walk
from rillet.optimize.folding.evaluate import evaluate


@dataclass(frozen=True)
class Options:
    """``small``: bytes that a result may always have; a float32 for each of 4096 channels is 16 KiB. A larger result
    may have ``growth`` times the bytes of its operands: float32 has eight times those of packed 4-bit integers."""

    small: int = 16 * 1024
    growth: int = 8


def run(program: Program, options: Options) -> None:
    """Fold in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            if view is None or not view.inputs or len(op.results) != 1:
                continue
            arrays = [constants.tensor_array(program, v) for v in view.inputs]
            if any(a is None for a in arrays) or not _is_bounded(view, arrays, options):  # type: ignore[arg-type]
                continue
            result = evaluate(view, [a for a in arrays if a is not None])
            if result is None:
                continue
            name = next((n for v in view.inputs if (n := constants.global_name(v))), "constant")
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(constants.constant(program, result, name))
        erase_dead(program.main())
        sweep_constants(program)


def _is_bounded(view: Structured, arrays: list[np.ndarray], options: Options) -> bool:
    tensor = ir.RankedTensorType(view.op.results[0].type)
    if not tensor.has_static_shape:
        return False
    size = int(np.prod(tensor.shape, dtype=np.int64)) * dtypes.storage_bytes(tensor.element_type)
    # A splat has the bytes of one element.
    return size <= max(options.small, options.growth * sum(a.nbytes for a in arrays if any(a.strides)))
