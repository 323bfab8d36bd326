"""Merges neighbouring dimensions that every tensor and loop of a kernel treats alike, and drops those of extent 1.

``[1, 56, 56, 96] + [96]`` becomes ``[3136, 96] + [96]``; a plain elementwise chain becomes one long run; each line of a
padded image of three channels becomes one row. That gives fewer loops, longer vectors and fewer tails. Bindings are
contiguous memory, so only the types inside the kernel change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.codegen.rewrites.joined_extents import JoinedExtents
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.extents import margins, padding_value
from rillet.ir.structured import DYNAMIC, is_projected, iterators_attr, maps_attr

ROW_MAJOR_OPS = frozenset({"linalg.generic", "linalg.fill", "tensor.empty", "arith.constant"})
POSITIONAL = frozenset({"linalg.index", "tensor.extract", "tensor.dim"})


def collapse(function: KernelFunction) -> bool:
    """Rewrite the kernel's function in place; False (and no change) when there is nothing to merge."""
    if not all(op.name in ROW_MAJOR_OPS for op in function.tensor_ops):
        return _collapse_pad(function)
    if any(op.operation.name in POSITIONAL for g in function.generics for op in g.body.operations):
        return False
    dimensions = Dimensions(function)
    if not _only_plain_maps(function) or not _distinct(function, dimensions):
        return False
    groups = _groups(function, dimensions)
    values = _tensors(function)
    if all(len(_regroup(dimensions.axes(v), groups)) == ir.RankedTensorType(v.type).rank for v in values):
        return False
    sizes = JoinedExtents(function)
    merged = {v: _merged(v, sizes.of(v), sizes, dimensions, groups) for v in values}
    for generic in function.generics:
        _rewrite_generic(generic.op, function, dimensions, groups)
    for value, extents in merged.items():
        value.set_type(ir.RankedTensorType.get(_static(extents), ir.RankedTensorType(value.type).element_type))
    sizes.follow(merged)
    follow_types(function.analysed_anew())  # the empty tensors are others now
    return True


def _collapse_pad(function: KernelFunction) -> bool:
    """Merges each padded axis with the axes behind it that are not padded, in a kernel that only pads an argument."""
    pads = [op for op in function.tensor_ops if op.name != "arith.constant"]
    if len(pads) != 1 or pads[0].name != "tensor.pad" or len(pads[0].operands) != 1:
        return False
    (pad,), (argument, *others) = pads, function.arguments
    if others or pad.operands[0] != argument.value or [p.value for p in function.results] != list(pad.results):
        return False
    source = ir.RankedTensorType(argument.value.type)
    low, high = margins(pad)
    if not all(isinstance(e, int) for e in (*low, *high)):
        return False
    groups: list[list[int]] = []
    for axis in range(source.rank):
        if groups and low[axis] == high[axis] == 0:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == source.rank:
        return False
    if any(source.shape[axis] == DYNAMIC for group in groups for axis in group[1:]):
        return False
    within = [math.prod(source.shape[axis] for axis in group[1:]) for group in groups]
    sizes = JoinedExtents(function)

    def joined(extents: Sequence[Extent]) -> list[Extent]:
        return [sizes.product([extents[group[0]], inner]) for group, inner in zip(groups, within, strict=True)]

    before, after = joined(sizes.of(argument.value)), joined(sizes.of(pad.results[0]))
    argument.value.set_type(ir.RankedTensorType.get(_static(before), source.element_type))
    with ir.InsertionPoint(pad), pad.location:
        made = builders.pad(argument.value, joined(low), joined(high), _static(after), padding_value(pad))
    pad.results[0].replace_all_uses_with(made)
    pad.erase()
    sizes.follow({argument.value: before, made: after})
    follow_types(function.analysed_anew())
    return True


def follow_types(function: KernelFunction) -> None:
    """Make splats and the function's type follow the values' changed types, and verify all."""
    for op in function.tensor_ops:
        if op.name == "arith.constant":
            splat = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
            op.attributes["value"] = ir.DenseElementsAttr.get_splat(op.results[0].type, splat)
    arguments = [a.type for a in function.block.arguments]
    results = [port.value.type for port in function.results]
    function.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))
    function.module.operation.verify()


def _only_plain_maps(function: KernelFunction) -> bool:
    """Every axis but those of extent 1 is read at a loop's own position."""
    for generic in function.generics:
        for operand, map_ in generic.operands:
            shape = ir.RankedTensorType(operand.type).shape
            if not is_projected([e for e, extent in zip(map_, shape, strict=True) if extent != 1]):
                return False
    return True


def _distinct(function: KernelFunction, dimensions: Dimensions) -> bool:
    """No tensor has a dimension twice, and no generic loops over one twice (a matrix plus its transpose does)."""
    loops = [[dimensions.loop(g, n) for n in range(g.loops)] for g in function.generics]
    return all(len(set(dims)) == len(dims) for dims in (*loops, *map(dimensions.axes, _tensors(function))))


def _tensors(function: KernelFunction) -> list[ir.Value]:
    computed = [r for op in function.tensor_ops for r in op.results]
    return [*(p.value for p in function.arguments), *computed]


def _groups(function: KernelFunction, dimensions: Dimensions) -> dict[Dimension, tuple[Dimension, ...]]:
    """First dimension of each group → the dimensions merged into it; a dimension of extent 1 belongs to none."""
    extent: dict[Dimension, int] = {}
    for value in _tensors(function):
        for d, e in zip(dimensions.axes(value), ir.RankedTensorType(value.type).shape, strict=True):
            extent[d] = e if e != DYNAMIC else extent.get(d, e)
    for generic in function.generics:
        for n, e in enumerate(generic.extents):
            extent.setdefault(dimensions.loop(generic, n), e)
    follows: dict[Dimension, Dimension | None] = {}
    precedes: dict[Dimension, Dimension | None] = {}

    def note(table: dict[Dimension, Dimension | None], key: Dimension, other: Dimension | None) -> None:
        table[key] = other if table.setdefault(key, other) == other else None

    for value in _tensors(function):
        real = [d for d in dimensions.axes(value) if extent[d] != 1]
        for here, after in zip(real, [*real[1:], None], strict=False):
            note(follows, here, after)
        for here, before in zip(real, [None, *real[:-1]], strict=False):
            note(precedes, here, before)
    groups: dict[Dimension, tuple[Dimension, ...]] = {}

    def joins(a: Dimension, b: Dimension | None) -> bool:
        if b is None or precedes.get(b) != a:
            return False
        return _alike(function, dimensions, a, b)

    for d in follows:
        if extent[d] == 1:
            continue
        before = precedes.get(d)
        if before is not None and follows.get(before) == d and joins(before, d):
            continue
        chain = [d]
        while joins(chain[-1], follows.get(chain[-1])):
            chain.append(follows[chain[-1]])  # type: ignore[arg-type]
        groups[d] = tuple(chain)
    for generic in function.generics:  # loops over no tensor's axis stay as they are
        for n in range(generic.loops):
            d = dimensions.loop(generic, n)
            if d not in follows and extent[d] != 1:
                groups[d] = (d,)
    return groups


def _alike(function: KernelFunction, dimensions: Dimensions, a: Dimension, b: Dimension) -> bool:
    """True when every generic loops over both or neither, and in the same way."""
    for generic in function.generics:
        kinds = {dimensions.loop(generic, n): kind for n, kind in enumerate(generic.parallel)}
        if kinds.get(a) != kinds.get(b):
            return False
    return True


def _regroup(axes: list[Dimension], groups: dict[Dimension, tuple[Dimension, ...]]) -> list[tuple[Dimension, ...]]:
    """The groups that a tensor's axes form, in order."""
    return [groups[d] for d in axes if d in groups]


def _merged(
    value: ir.Value,
    extents: Sequence[Extent],
    sizes: JoinedExtents,
    dimensions: Dimensions,
    groups: dict[Dimension, tuple[Dimension, ...]],
) -> list[Extent]:
    """The extents of a tensor's merged axes."""
    own = dict(zip(dimensions.axes(value), extents, strict=True))
    return [sizes.product([own[d] for d in group]) for group in _regroup(dimensions.axes(value), groups)]


def _rewrite_generic(
    op: ir.Operation, function: KernelFunction, dimensions: Dimensions, groups: dict[Dimension, tuple[Dimension, ...]]
) -> None:
    generic = function.generic_of(op.results[0])
    assert generic is not None
    loops = [dimensions.loop(generic, n) for n in range(generic.loops)]
    position = {d: n for n, d in enumerate(d for d in loops if d in groups)}
    kinds = dict(zip(loops, generic.parallel, strict=True))
    axes = (dimensions.axes(operand) for operand, _ in generic.operands)
    maps = [[position[g[0]] for g in _regroup(dims, groups)] for dims in axes]
    op.attributes["indexing_maps"] = maps_attr(len(position), maps)
    op.attributes["iterator_types"] = iterators_attr([kinds[d] for d in position])


def _static(extents: Sequence[Extent]) -> list[int]:
    return [e if isinstance(e, int) else DYNAMIC for e in extents]
