"""The loops of a contraction by their roles. Neighbouring loops are joined where they walk all memory as one loop
would."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu import cost_model
from rillet.codegen.index import Index
from rillet.codegen.recognize.contraction import LinearContraction
from rillet.codegen.recognize.epilogue import Epilogue
from rillet.codegen.recognize.linear_access import Access
from rillet.ir.structured import DYNAMIC


@dataclass(frozen=True)
class Axis:
    """Neighbouring root loops walked as one: the innermost carries the position, the others stay at 0."""

    loops: tuple[int, ...]
    extent: int  # DYNAMIC when not known at compile time

    @property
    def inner(self) -> int:
        """The innermost of the loops."""
        return self.loops[-1]


@dataclass(frozen=True)
class Axes:
    """A contraction's loops. Positions on a group of axes are flat, row-major."""

    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    k: tuple[Axis, ...]
    lhs_is_flat: bool  # whether all rows together are one axis of the lhs, even if the epilogue cannot join them

    @property
    def k_is_known(self) -> bool:
        """Whether the extents of the reduction are known at compile time."""
        return all(axis.extent != DYNAMIC for axis in self.k)


def axes_of(contraction: LinearContraction, after: Epilogue) -> Axes:
    """The axes of a contraction that ``after`` follows."""
    lhs, rhs, extents, roles = contraction.lhs, contraction.rhs, contraction.extents, contraction.roles
    weights = [rhs, *(which for _, which in contraction.companions)]

    def joined(loops: Sequence[int], *walked: Access | Epilogue) -> tuple[Axis, ...]:
        return merge(loops, extents, lambda a, b: all(one.merges(a, b, extents[b]) for one in walked))

    return Axes(
        batch=joined(roles.batch, lhs, after, rhs),
        m=joined(roles.m, lhs, after),
        k=joined(roles.k, lhs, *weights),
        lhs_is_flat=len(joined(roles.m, lhs)) == 1,
    )


def merge(loops: Sequence[int], extents: Sequence[int], merges: Callable[[int, int], bool]) -> tuple[Axis, ...]:
    """Join neighbouring loops (outermost first) that ``merges`` allows."""
    groups: list[list[int]] = []
    for loop in loops:
        if groups and merges(groups[-1][-1], loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    axes = []
    for group in groups:
        sizes = [extents[n] for n in group]
        axes.append(Axis(tuple(group), DYNAMIC if DYNAMIC in sizes else math.prod(sizes)))
    return tuple(axes)


def guess_extent(extent: int) -> int:
    """The extent; ``DYNAMIC_EXTENT`` where it is unknown at compile time."""
    return cost_model.DYNAMIC_EXTENT if extent == DYNAMIC else extent


def guess(axes: Sequence[Axis]) -> int:
    """The number of iterations of all axes, unknown extents guessed."""
    return math.prod(guess_extent(a.extent) for a in axes)


def element(contraction: LinearContraction, number: int) -> ir.Type:
    """The element type of an operand of the root."""
    return ir.RankedTensorType(contraction.root.inputs[number].type).element_type


def axis_size(axis: Axis, sizes: Sequence[Index]) -> Index:
    """The number of iterations of an axis."""
    return index.product([sizes[n] for n in axis.loops])
