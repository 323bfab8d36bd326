"""Folds factors and offsets for each channel after a contraction with constant weights into the weights and one offset.

A batch normalization after a convolution is such an operation, under any name. The pass looks at the elementwise
operations that follow a contraction one after the other. Each must be an affine function of the previous result with
constants that vary only along loops that index the weights. Their composition ``a * x + b`` scales the weights by ``a``
and leaves ``x + b``. Both are computed in float64.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.extents import extents
from rillet.ir.rewrite import erase_dead, replace, sweep_constants
from rillet.ir.structured import Structured, is_projected, structured, walk
from rillet.optimize.folding.affine_form import Affine, affine_form
from rillet.optimize.folding.evaluate import along
from rillet.optimize.folding.flush_denormals import flushed
from rillet.optimize.sole_user import follower


def run(program: Program, options: None) -> None:
    """Fold in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        # Folding erases only elementwise operations, never one of these.
        views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
        found = [(view, roles) for view in views if (roles := contraction(view)) is not None]
        for view, roles in found:
            _fold(program, view, roles)
        erase_dead(program.main())
        sweep_constants(program)


def _fold(program: Program, view: Structured, roles: Contraction) -> None:
    weights = constants.array_of(program, view.inputs[roles.rhs])
    map_ = view.maps[roles.rhs]
    if weights is None or weights.dtype != np.float32 or not is_projected(map_):
        return
    if not isinstance(ir.RankedTensorType(view.op.results[0].type).element_type, ir.F32Type):
        return
    chain, total = _chain(program, view, set(map_))  # type: ignore[arg-type]
    if total is None or (len(chain) == 1 and np.all(total.factor == 1.0)):
        return
    axes = view.init_maps[0]
    # From the loops of the elementwise operations (the axes of the result) to those of the weights.
    folded = _folded(weights, along(total.factor, axes, map_), total.offset)
    if folded is None:
        return
    scaled, offset = folded
    op = view.op
    name = constants.global_name(view.inputs[roles.rhs]) or "weights"
    type_ = view.inputs[roles.rhs].type
    with ir.InsertionPoint(op), op.location:
        op.operands[roles.rhs] = constants.load(constants.declare(program, scaled, name, type_), type_)
    last = chain[-1]
    with ir.InsertionPoint(last), last.location:
        replace(last, [_offset(program, op.results[0], offset, name)])


def _folded(weights: np.ndarray, factor: np.ndarray, offset: np.ndarray) -> list[np.ndarray] | None:
    """``weights * factor`` and ``offset`` in f32, denormals flushed. None where these are more than nothing beside the
    largest number, and where a number becomes infinite."""
    if not weights.size or not np.all(np.isfinite(factor)):
        return None
    with np.errstate(all="ignore"):
        wide = [weights * factor, offset]
        flat = flushed(wide, float(np.finfo(np.float32).smallest_normal))
        narrow = None if flat is None else [a.astype(np.float32) for a in flat]
    if narrow is None or np.any(np.isfinite(weights) & ~np.isfinite(narrow[0])) or not np.all(np.isfinite(narrow[1])):
        return None
    return narrow


def _chain(program: Program, view: Structured, channels: set[int]) -> tuple[list[ir.Operation], Affine | None]:
    """The affine operations that follow ``view`` and what they compute together, over the axes of its result."""
    axes = view.init_maps[0]
    chain: list[ir.Operation] = []
    total: Affine | None = None
    value = view.op.results[0]
    while (found := follower(value)) is not None:
        after, variable = found
        step = _step(program, after, variable, axes, channels) if after.op.results[0].type == value.type else None
        if step is None:
            break
        total = step if total is None else step.after(total)
        chain.append(after.op)
        value = after.op.results[0]
    return chain, total


def _step(
    program: Program, after: Structured, variable: int, axes: tuple[object, ...], channels: set[int]
) -> Affine | None:
    """The effect of ``after`` on its input ``variable``, broadcast over that input's axes; None when it is not affine
    by channel."""
    own = after.maps[variable]
    known = {}
    for number, (operand, map_) in enumerate(zip(after.inputs, after.input_maps, strict=True)):
        if number == variable:
            continue
        array = constants.array_of(program, operand) if isinstance(operand.type, ir.RankedTensorType) else None
        if array is None or not is_projected(map_):
            return None
        varying = [d for d, extent in zip(map_, array.shape, strict=True) if extent != 1]
        if any(axes[own.index(d)] not in channels for d in varying):
            return None
        known[number] = along(array, map_, own)
    return affine_form(after, variable, known)


def _offset(program: Program, value: ir.Value, offset: np.ndarray, name: str) -> ir.Value:
    """``value + offset``; the offset broadcasts over the axes of ``value``."""
    rank = ir.RankedTensorType(value.type).rank
    full = offset.reshape((1,) * (rank - offset.ndim) + offset.shape).astype(np.float32)
    kept = [axis for axis in range(rank) if full.shape[axis] != 1]
    constant = constants.constant(program, full.reshape([full.shape[axis] for axis in kept]), f"{name}_offset")
    loops = builders.dims(rank)
    output = builders.empty(extents(value), ir.RankedTensorType(value.type).element_type)
    return builders.generic(
        [(value, loops), (constant, [loops[a] for a in kept])],
        [(output, loops)],
        "p" * rank,
        lambda x, b, _: arith.AddFOp(x, b).result,
    )[0]
