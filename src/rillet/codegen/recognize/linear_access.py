"""Linear accesses: how far apart in memory neighbouring iterations of a loop nest read or write a tensor.

Where every coordinate of a tensor is a linear function of the root's loops, a loop moves through the tensor's memory by
a constant stride, and address computation can leave the inner loops.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction, Port
from rillet.dialects import flow
from rillet.ir.extents import RESHAPES, margins, padding_value
from rillet.ir.linear import Linear, constant, identity, substitute, substitute_all
from rillet.ir.panels import packed_axes, turned, unshared
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Map


def argument_of(function: KernelFunction, value: ir.Value) -> Port | None:
    """The tensor argument that ``value`` is, possibly under another shape; None when it is anything else."""
    while True:
        port = next((p for p in function.arguments if p.value == value), None)
        if port is not None:
            return port
        op = defining(value, *RESHAPES)
        if op is None:
            return None
        value = op.operands[0]


@dataclass(frozen=True)
class Padding:
    """A tensor extended by a constant along ``axes``."""

    source: ir.Value
    low: tuple[int, ...]  # elements added before each axis
    axes: tuple[int, ...]  # the padded axes
    value: ir.Attribute
    adds_nothing: bool  # products with the constant leave a sum as it is


def padding_of(function: KernelFunction, value: ir.Value) -> Padding | None:
    """The padding when ``value`` is a tensor argument padded by a constant, everything static; else None."""
    pad = defining(value)
    if pad is None or pad.name != "tensor.pad":
        return None
    source, result = ir.RankedTensorType(pad.operands[0].type), ir.RankedTensorType(value.type)
    if len(pad.operands) != 1 or not source.has_static_shape or argument_of(function, pad.operands[0]) is None:
        return None
    filler = defining(padding_value(pad))
    if filler is None or filler.name != "arith.constant":
        return None
    low = tuple(n for n in margins(pad)[0] if isinstance(n, int))
    axes = tuple(n for n, (a, b) in enumerate(zip(source.shape, result.shape, strict=True)) if a != b)
    nothing = flow.ADDS_NOTHING in pad.attributes
    return Padding(pad.operands[0], low, axes, filler.attributes["value"], nothing)


@dataclass(frozen=True)
class Access:
    """A tensor read or written at ``axes``.

    With ``panel``, the loop ``panel_loop`` is packed: axis ``panel_axis`` is the loop divided by ``panel``, and the
    last axis is the remainder (the forms of both are zero). Within a panel ``shared`` elements lie in one byte; strides
    are bytes then.

    With ``together`` > 1, that many neighbours along ``steps_axis`` lie side by side within a panel. Axes, shape and
    strides describe panels that hold them one after the other; both layouts agree where a group of ``together`` begins.
    """

    value: ir.Value
    axes: tuple[Linear, ...]
    panel: int = 0
    panel_loop: int = -1
    panel_axis: int = -1
    shared: int = 1
    padding: Padding | None = None  # ``value`` is read under this padding; the forms are positions in ``value``
    together: int = 1
    steps_axis: int = -1
    ways: int = 1  # elements of a group lie in the order of their numbers modulo this, then of the quotients
    partial: frozenset[int] = frozenset()  # axes of unknown extent that the loops may not walk from end to end

    @property
    def shape(self) -> list[int]:
        """The tensor's extents, with packed steps joined to the axis that they are steps of."""
        shape = list(ir.RankedTensorType(self.value.type).shape)
        if self.together > 1:
            shape[self.steps_axis] *= shape.pop()
        return shape

    def uses(self, loop: int) -> bool:
        """Whether the element depends on ``loop``."""
        return loop == self.panel_loop or any(form.coefficients[loop] for form in self.axes)

    def checks(self, loop: int) -> bool:
        """Whether ``loop`` decides if a position lies in the padding."""
        return self.padding is not None and any(self.axes[n].coefficients[loop] for n in self.padding.axes)

    def static_stride(self, loop: int) -> int | None:
        """Elements between neighbouring iterations of ``loop``; None when that is not known at compile time."""
        stride, total = 1, 0
        for form, extent in zip(reversed(self.axes), reversed(self.shape), strict=True):
            if form.coefficients[loop]:
                if stride < 0:
                    return None
                total += form.coefficients[loop] * stride
            stride = -1 if extent == DYNAMIC or stride < 0 else stride * extent
        return total

    def merges(self, outer: int, inner: int, inner_extent: int) -> bool:
        """Whether ``outer`` and ``inner`` walk memory like one loop."""
        if not self.uses(outer) and not self.uses(inner):
            return True
        if self.checks(outer) or self.checks(inner):
            return False  # the position on each axis must be known
        a, b = self.static_stride(outer), self.static_stride(inner)
        if a is not None and b is not None and inner_extent != DYNAMIC:
            return a == b * inner_extent
        users = [n for n, f in enumerate(self.axes) if f.coefficients[outer] or f.coefficients[inner]]
        if len(users) != 2 or users[1] != users[0] + 1 or users[1] in self.partial:
            return False
        return self.axes[users[0]].only() == outer and self.axes[users[1]].only() == inner


@dataclass(frozen=True)
class GroupedAccess(Access):
    """A tensor ``[.., groups, elements]`` read at ``[.., loop floordiv columns, element]``: lanes along ``group_loop``
    take the same element of their group. The form of the groups' axis is zero; ``element_loop`` walks the last axis."""

    columns: int = 1
    group_loop: int = -1
    element_loop: int = -1

    def uses(self, loop: int) -> bool:
        """Whether the element depends on ``loop``."""
        return loop == self.group_loop or super().uses(loop)


def padded_access_of(function: KernelFunction, value: ir.Value, map_: Map, count: int) -> Access | None:
    """``access_of``, through a padding if there is one."""
    plain = access_of(value, map_, count)
    padding = padding_of(function, value)
    if plain is None or padding is None or plain.panel:
        return plain
    forms = tuple(Linear(f.coefficients, f.constant - n) for f, n in zip(plain.axes, padding.low, strict=True))
    return Access(padding.source, forms, padding=padding)


def access_of(value: ir.Value, map_: Map, count: int) -> Access | None:
    """The access of an operand with this map in a nest of ``count`` loops, packed operands included; None when it is
    not linear."""
    map_, shared = unshared(map_)
    packed = packed_axes(map_)
    if packed is None:
        return None
    if not packed:
        axes = substitute_all(map_, identity(count))
        return None if axes is None else Access(value, axes)
    *shape, last = ir.RankedTensorType(value.type).shape
    shape.append(last * shared)
    if len(packed) > (1 if shared > 1 else 2) or shape[-len(packed) :] != [divisor for _, _, divisor in packed]:
        return None
    (axis, loop, panel), *steps = packed
    at = identity(count)
    known = {axis: constant(0, count)} | {n: at[step_loop] for n, step_loop, _ in steps}
    forms = [known[n] if n in known else substitute(e, at) for n, e in enumerate(map_[: -len(packed)])]
    if any(f is None for f in forms):
        return None
    made = Access(value, (*(f for f in forms if f is not None), known[axis]), panel, loop, axis, shared)
    if not steps:
        return made
    order = turned(map_[-1])
    ways = 1 if order is None else order[1]
    return dataclasses.replace(made, together=steps[0][2], steps_axis=steps[0][0], ways=ways)


def grouped_access_of(value: ir.Value, map_: Map, count: int) -> GroupedAccess | None:
    """The access of an operand that is read by groups; None when it is not."""
    *outer, group, element = map_ if len(map_) > 1 else (None, None)
    if not isinstance(group, ir.AffineFloorDivExpr) or not isinstance(element, int):
        return None
    loop, columns = group.lhs, group.rhs
    if not isinstance(loop, ir.AffineDimExpr) or not isinstance(columns, ir.AffineConstantExpr):
        return None
    forms = [substitute(e, identity(count)) for e in (*outer, element)]
    known = tuple(form for form in forms if form is not None)
    if len(known) != len(forms):
        return None
    axes = (*known[:-1], constant(0, count), known[-1])
    return GroupedAccess(value, axes, columns=columns.value, group_loop=loop.position, element_loop=element)
