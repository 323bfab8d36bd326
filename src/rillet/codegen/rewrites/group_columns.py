"""Makes one axis of the groups of a grouped contraction and their few columns each.

With four output channels in a group, a vector of eight would be half empty. ``(.., g, o)`` becomes ``(.., j)`` with ``j
= g * columns + o`` wherever it occurs. The lhs, which has ``(.., g, c)``, is read at ``j floordiv columns``: a vector
along ``j`` takes the elements of several groups, each spread over its group's lanes. The result is a windowed reduction
with a spread lhs, like a depthwise convolution.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.lanes import lanes_for
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.codegen.rewrites.collapse import POSITIONAL, ROW_MAJOR_OPS, follow_types
from rillet.ir.contraction import separate_product
from rillet.ir.structured import Expr, Structured, dims_in, iterators_attr, maps_attr, rename

_MOST_STEPS = 8  # elements that each group sums over at one position of the window


def merge_group_columns(function: KernelFunction, vector_bits: int) -> bool:
    """Rewrite the kernel's function in place; False (and no change) where it has no groups that share vectors of
    ``vector_bits``."""
    if not all(op.name in ROW_MAJOR_OPS for op in function.tensor_ops) or len(function.reductions) != 1:
        return False
    if any(op.operation.name in POSITIONAL for g in function.generics for op in g.body.operations):
        return False
    root = function.reductions[0]
    lhs = _lhs_operand(root)
    if lhs is None or not _shares_vectors(root, lhs, lanes_for(function, vector_bits)):
        return False
    dimensions = Dimensions(function)
    group, column = (dimensions.loop(root, e) for e in root.init_maps[0][-2:])
    if not _lie_together(function, dimensions, root.inputs[lhs], group, column):
        return False
    _rewrite(function, dimensions, root, lhs, group, column)
    return True


def _lhs_operand(root: Structured) -> int | None:
    """The number of the operand whose last axes are the groups and the elements that each group sums over; the other
    operand and the result have groups and columns there. None when no operand does."""
    if len(root.inputs) != 2 or len(root.inits) != 1 or separate_product(root) is None or min(map(len, root.maps)) < 2:
        return None
    last = [[e if isinstance(e, int) else None for e in map_[-2:]] for map_ in root.maps]
    result = last[2]
    if None in result or result[1] not in root.parallel_loops:
        return None
    for lhs, rhs in ((0, 1), (1, 0)):
        summed = last[lhs][1]
        if last[rhs] == result and last[lhs][0] == result[0] and summed in root.reduction_loops:
            return lhs if sum(summed in dims_in(e) for e in root.maps[lhs]) == 1 else None
    return None


def _shares_vectors(root: Structured, lhs: int, lanes: int) -> bool:
    """Whether a vector takes whole groups."""
    shape, extents = ir.RankedTensorType(root.inputs[lhs].type).shape, root.extents
    group, column = root.init_maps[0][-2:]
    columns = extents[column]
    if columns <= 0 or extents[group] <= 1 or not 1 <= shape[-1] <= _MOST_STEPS:
        return False
    return lanes > 1 and lanes % columns == 0


def _lie_together(
    function: KernelFunction, dimensions: Dimensions, lhs: ir.Value, group: Dimension, column: Dimension
) -> bool:
    """Whether every tensor except the lhs, and every generic, has both dimensions side by side, or neither."""
    values = [*(p.value for p in function.arguments), *(r for op in function.tensor_ops for r in op.results)]
    for value in values:
        axes = dimensions.axes(value)
        if value == lhs or not {group, column} & set(axes):
            continue
        if axes.count(group) != 1 or axes.count(column) != 1 or axes.index(column) != axes.index(group) + 1:
            return False
    for generic in function.generics:
        loops = [dimensions.loop(generic, n) for n in range(generic.loops)]
        if loops.count(group) != 1 or loops.count(column) != 1:
            return False
        if not {loops.index(group), loops.index(column)} <= set(generic.parallel_loops):
            return False
    return True


def _rewrite(
    function: KernelFunction, dimensions: Dimensions, root: Structured, lhs: int, group: Dimension, column: Dimension
) -> None:
    values = [*(p.value for p in function.arguments), *(r for op in function.tensor_ops for r in op.results)]
    merged = {v: dimensions.axes(v).index(group) for v in values if column in dimensions.axes(v)}
    columns = root.extents[root.init_maps[0][-1]]
    for generic in function.generics:
        loops = [dimensions.loop(generic, n) for n in range(generic.loops)]
        gone, kept = loops.index(group), loops.index(column)
        new: list[Expr] = [n - (n > gone) for n in range(len(loops))]
        both = ir.AffineExpr.get_dim(new[kept])
        new[gone] = ir.AffineExpr.get_floor_div(both, ir.AffineExpr.get_constant(columns))
        maps = []
        for operand, map_ in generic.operands:
            results = list(rename(map_, new, len(loops) - 1))
            if operand in merged:
                del results[merged[operand]]
            maps.append(results)
        generic.op.attributes["indexing_maps"] = maps_attr(len(loops) - 1, maps)
        kinds = [is_parallel for n, is_parallel in enumerate(generic.parallel) if n != gone]
        generic.op.attributes["iterator_types"] = iterators_attr(kinds)
    for value, axis in merged.items():
        old = ir.RankedTensorType(value.type)
        shape = [*old.shape[:axis], old.shape[axis] * columns, *old.shape[axis + 2 :]]
        value.set_type(ir.RankedTensorType.get(shape, old.element_type))
    follow_types(function)
