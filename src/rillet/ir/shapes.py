"""Permutations and reshapes of tensor values, emitted in their cheapest form."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch_mlir import ir

from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.extents import Known, extents


def shape_of(value: ir.Value) -> list[int]:
    """The extents in a tensor's type, ``DYNAMIC`` where it leaves one open."""
    return list(ir.RankedTensorType(value.type).shape)


def transpose(value: ir.Value, permutation: Sequence[int], known: Known | None = None) -> ir.Value:
    """``value`` with result axis ``i`` being axis ``permutation[i]``; only a reshape when the axes that move have
    extent 1.
    """
    if list(permutation) == list(range(len(permutation))):
        return value
    shape = ir.RankedTensorType(value.type).shape
    source = extents(value, known)
    result = [source[axis] for axis in permutation]
    solid = [axis for axis in permutation if shape[axis] != 1]
    if solid == sorted(solid):
        return reshape_units(value, source, result)
    loops = builders.dims(len(permutation))
    inverse = [permutation.index(axis) for axis in range(len(permutation))]
    element = ir.RankedTensorType(value.type).element_type
    return builders.generic(
        [(value, [loops[i] for i in inverse])],
        [(builders.empty(result, element), loops)],
        "p" * len(loops),
        lambda x, _: x,
    )[0]


def reshape_units(value: ir.Value, source: Sequence[Extent], result: Sequence[Extent]) -> ir.Value:
    """Reshape between shapes that differ only in the places of extents of 1."""
    solid = [e for e in source if not (isinstance(e, int) and e == 1)]
    if len(solid) != len(source):
        value = builders.collapse_shape(value, attach_units(source), solid)
    if len(solid) != len(result):
        value = builders.expand_shape(value, attach_units(result), result)
    return value


def runs(sizes: Sequence[int]) -> list[list[int]]:
    """Axes in order, in groups of ``sizes``: a reassociation."""
    ends = itertools.accumulate(sizes)
    return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def attach_units(shape: Sequence[Extent]) -> list[list[int]]:
    """One group for each extent that is not a static 1, the others joined to a neighbour; no group at all when there is
    none.
    """
    groups: list[list[int]] = []
    leading: list[int] = []
    for axis, extent in enumerate(shape):
        if not (isinstance(extent, int) and extent == 1):
            groups.append([*leading, axis])
            leading = []
        elif groups:
            groups[-1].append(axis)
        else:
            leading.append(axis)
    return groups
