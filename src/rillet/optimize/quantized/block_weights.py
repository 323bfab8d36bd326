"""Makes contractions compute constant weights as they multiply. The weights are stored as narrow integers with
parameters for each block of the sum.

Large language models have weights of 4 or 8 bits with a scale, and often a zero point, for each 32 to 256 steps of the
sum. Such a scale cannot wait until the sum is complete, as that of a column can (``integer_contractions``). Computed in
advance, the weights would take four to eight times the memory, and be written and read again in each call. So the loop
over the sum becomes two loops, over blocks and within them, and the body makes each weight from its integer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.dtypes import element_bytes
from rillet.ir.extents import extents
from rillet.ir.rewrite import clone_operations, defining, erase_dead, generic_like, replace, sweep_constants
from rillet.ir.structured import (
    DYNAMIC,
    Expr,
    Map,
    Structured,
    copy_permutation,
    inverse,
    is_permutation,
    is_projected,
    rename,
    structured,
    walk,
)


@dataclass(frozen=True)
class _Blocks:
    """A loop over the sum, the ``size`` of its blocks, their number, and the steps that the last block lacks."""

    loop: int
    size: int
    count: int
    missing: int

    def is_quotient(self, expr: Expr) -> bool:
        """Whether ``expr`` is the number of the block."""
        if isinstance(expr, int) or not isinstance(expr, ir.AffineFloorDivExpr):
            return False
        divided, by = expr.lhs, expr.rhs
        return (
            isinstance(divided, ir.AffineDimExpr)
            and divided.position == self.loop
            and isinstance(by, ir.AffineConstantExpr)
            and by.value == self.size
        )


def run(program: Program, options: None) -> None:
    """Rewrite the contractions of ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            view = structured(op)
            roles = contraction(view) if view is not None else None
            if view is None or roles is None or len(view.inputs) != 2 or roles.is_convolution:
                continue
            if not all(is_projected(m) for m in view.maps):
                continue
            value, map_ = _untransposed(view.inputs[roles.rhs], view.maps[roles.rhs])
            maker = _maker(program, value)
            if maker is None:
                continue
            maps = _composed(maker, map_)
            blocks = _blocks(view, roles, maps)
            if blocks is not None:
                with ir.InsertionPoint(op), op.location:
                    replace(op, [_rewritten(program, view, roles, maker, maps, blocks)])
        erase_dead(program.main())
        sweep_constants(program)


def _untransposed(value: ir.Value, map_: Map) -> tuple[ir.Value, Map]:
    """The source of the transposition ``value``, and the map that reads the source instead."""
    owner = defining(value)
    permutation = copy_permutation(owner) if owner is not None else None
    if owner is None or permutation is None:
        return value, map_
    return _untransposed(owner.operands[0], tuple(map_[axis] for axis in inverse(permutation)))


def _maker(program: Program, value: ir.Value) -> Structured | None:
    """The elementwise operation that widens constants to ``value``."""
    owner = defining(value)
    view = structured(owner) if owner is not None else None
    if view is None or not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return None
    if any(not op.name.startswith("arith.") for op in view.body_ops()):
        return None
    if not all(_is_known(program, v) for v in view.inputs):
        return None
    whole = [v for v, m in zip(view.inputs, view.input_maps, strict=True) if m and is_permutation(m, view.loops)]
    return view if len(whole) == 1 and element_bytes(whole[0]) < element_bytes(value) else None


def _is_known(program: Program, value: ir.Value) -> bool:
    """Whether ``value`` is constant and its floats are finite: infinity times an integer of 0 is lost in a sum."""
    array = constants.array_of(program, value)
    is_float = isinstance(ir.RankedTensorType(value.type).element_type, ir.FloatType)
    return array is not None and (not is_float or bool(np.all(np.isfinite(array.astype(np.float32)))))


def _composed(maker: Structured, map_: Map) -> list[Map]:
    """The maps of the inputs of ``maker`` in the loops of an operation that reads its result by ``map_``."""
    place = inverse(maker.init_maps[0])  # type: ignore[arg-type]
    loops = [map_[axis] for axis in place]
    count = max(loops) + 1  # type: ignore[type-var, operator]
    return [rename(m, loops, count) for m in maker.input_maps]  # type: ignore[arg-type]


def _blocks(view: Structured, roles: Contraction, maps: list[Map]) -> _Blocks | None:
    """The blocks of the only loop whose quotient the maps have; None when the maps have anything else."""
    divided = [e for m in maps for e in m if not isinstance(e, int)]
    first = divided[0] if divided else None
    if not isinstance(first, ir.AffineFloorDivExpr) or not isinstance(first.lhs, ir.AffineDimExpr):
        return None
    loop, size = first.lhs.position, ir.AffineConstantExpr(first.rhs).value
    extent = view.extents[loop]
    if loop not in roles.k or extent == DYNAMIC:
        return None
    blocks = _Blocks(loop, size, -(-extent // size), -extent % size)
    return blocks if all(blocks.is_quotient(e) for e in divided) else None


def _rewritten(
    program: Program, view: Structured, roles: Contraction, maker: Structured, maps: list[Map], blocks: _Blocks
) -> ir.Value:
    """The contraction with one more loop: the inner one of the blocked pair follows the outer one."""
    outer, inner = blocks.loop, blocks.loop + 1
    moved = [loop + (loop > outer) for loop in range(view.loops)]

    def split(map_: Map) -> Map:
        result: list[Expr] = []
        for expr in map_:
            if not isinstance(expr, int):
                result.append(outer)
            elif expr == outer:
                result += [outer, inner]
            else:
                result.append(moved[expr])
        return tuple(result)

    inputs = [_expanded(view.inputs[roles.lhs], view.maps[roles.lhs], blocks)]
    for value, map_ in zip(maker.inputs, maps, strict=True):
        inputs.append(_reshaped(program, value, map_, blocks))
    new_maps = [split(m) for m in (view.maps[roles.lhs], *maps, *view.init_maps)]
    parallel = [view.parallel[loop] for loop in range(view.loops)]
    parallel.insert(inner, False)

    def body(arguments: list[ir.Value]) -> ir.Value:
        scalars = dict(zip(maker.body.arguments, arguments[1:-1], strict=False))
        clone_operations(maker.body_ops(), scalars)
        weight = maker.yielded()[0]
        lhs, rhs, total = (view.body.arguments[n] for n in (roles.lhs, roles.rhs, 2))
        scalars |= {lhs: arguments[0], rhs: scalars.get(weight, weight), total: arguments[-1]}
        clone_operations(view.body_ops(), scalars)
        return scalars[view.yielded()[0]]

    with ir.Location.fused([maker.op.location, view.op.location]):
        return generic_like(view, inputs, view.inits[0], body, new_maps, parallel)


def _expanded(value: ir.Value, map_: Map, blocks: _Blocks) -> ir.Value:
    """The other operand with two axes in place of the one that the blocked loop indexes, zeros where the last block
    ends."""
    axis = map_.index(blocks.loop)
    shape = extents(value)
    if blocks.missing:
        low, high = [0] * len(shape), [0] * len(shape)
        high[axis] = blocks.missing
        shape[axis] = blocks.count * blocks.size
        value = builders.pad(value, low, high, shape, _zero(ir.RankedTensorType(value.type).element_type))
    groups = [[n + (n > axis)] for n in range(len(shape))]
    groups[axis].append(axis + 1)
    return builders.expand_shape(value, groups, [*shape[:axis], blocks.count, blocks.size, *shape[axis + 1 :]])


def _zero(element: ir.Type) -> ir.Value:
    attribute = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return arith.ConstantOp(element, attribute).result


def _reshaped(program: Program, value: ir.Value, map_: Map, blocks: _Blocks) -> ir.Value:
    """A constant with two axes where the blocked loop indexes one, zeros where the last block ends."""
    array = constants.array_of(program, value)
    assert array is not None
    if blocks.loop not in map_:
        return value
    axis = map_.index(blocks.loop)
    array = np.pad(array, [(0, blocks.missing if n == axis else 0) for n in range(array.ndim)])
    shape = [*array.shape[:axis], blocks.count, blocks.size, *array.shape[axis + 1 :]]
    return constants.constant(program, np.reshape(array, shape), constants.global_name(value) or "weights")
