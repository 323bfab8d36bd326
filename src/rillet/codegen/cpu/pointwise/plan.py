"""Decisions about a point-wise kernel before anything is emitted: which results are computed together, and how each
group of them is cut."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu.caches import read_ahead
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.vector_loop import Shape, shape_for
from rillet.codegen.recognize.epilogue import insertion
from rillet.codegen.recognize.kernel_function import KernelFunction, Port
from rillet.codegen.recognize.lanes import is_costly
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.ir.dtypes import storage_bytes
from rillet.ir.extents import joined_axis, margins
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC

_BLOCK_BYTES = 32 * 1024


@dataclass(frozen=True)
class Group:
    """Results of one shape, computed together. ``values``: the computed tensors, which are whole results or what is
    inserted into one."""

    numbers: tuple[int, ...]
    ports: tuple[Port, ...]
    values: tuple[ir.Value, ...]
    insertions: tuple[ir.Operation | None, ...]

    @property
    def type(self) -> ir.RankedTensorType:
        """The tensor type of the first result; all results of the group have its shape."""
        return ir.RankedTensorType(self.values[0].type)


@dataclass(frozen=True)
class RowsPlan:
    """A group of results cut into blocks of rows, or of columns of one row."""

    group: Group
    shape: Shape  # of runs along a row
    block: int  # elements that a workgroup computes
    joined: ir.Operation | None  # the pad or concatenation along rows; rows are cut at the boundaries of its parts
    ahead: tuple[int, ...]  # the arguments that are read ahead; their axes are those of the results


@dataclass(frozen=True)
class TilesPlan:
    """A group of results cut into square tiles over the last axis and the axis ``across``, along which an argument is
    contiguous.

    With ``planes``, the last axis has that extent, which is small, and follows ``across`` directly: vectors run across
    and are interleaved. ``padded``: a pad along ``across`` that makes the only result; the vectors run in its interior.
    """

    group: Group
    across: int
    lanes: int
    planes: int = 0
    padded: ir.Operation | None = None


@dataclass(frozen=True)
class PointwisePlan:
    """A point-wise kernel: its workgroups take the blocks of one group of results after the other."""

    shape: Shape
    groups: tuple[RowsPlan | TilesPlan, ...]


def make_plan(function: KernelFunction, target: CpuTarget) -> PointwisePlan | None:
    """The plan for a kernel without reductions; None for any other."""
    if not function.is_parallel:
        return None
    costly = any(map(is_costly, function.generics))
    shape = shape_for(function, target.machine.vector_bits, target.machine.vector_registers, costly=costly)
    dimensions = Dimensions(function)
    ahead = _worth_reading_ahead(function, dimensions, target) if costly else {}
    groups = _groups(function, dimensions)
    return PointwisePlan(shape, tuple(_cut(function, dimensions, group, shape, ahead) for group in groups))


def _groups(function: KernelFunction, dimensions: Dimensions) -> list[Group]:
    """Groups results of one shape with the same dimensions on their axes: a transposition is cut in its own way."""
    insertions = [insertion(function, number) for number in range(len(function.results))]
    values = [p.value if op is None else op.operands[0] for p, op in zip(function.results, insertions, strict=True)]
    by_space: dict[tuple[object, ...], list[int]] = {}
    for number, (port, op, value) in enumerate(zip(function.results, insertions, values, strict=True)):
        type_ = ir.RankedTensorType(value.type)
        extents = port.dims if op is None else () if type_.has_static_shape else op
        axes = tuple(d for d, extent in zip(dimensions.axes(value), type_.shape, strict=True) if extent != 1)
        by_space.setdefault((tuple(type_.shape), extents, axes), []).append(number)
    return [
        Group(
            tuple(numbers),
            tuple(function.results[n] for n in numbers),
            tuple(values[n] for n in numbers),
            tuple(insertions[n] for n in numbers),
        )
        for numbers in by_space.values()
    ]


def _worth_reading_ahead(
    function: KernelFunction, dimensions: Dimensions, target: CpuTarget
) -> dict[int, list[Dimension]]:
    """The arguments worth reading ahead, and the dimensions on their axes."""
    if not read_ahead.is_beyond_l2(function, target):
        return {}
    return {n: list(dimensions.axes(p.value)) for n, p in enumerate(function.arguments) if p.type.rank}


def _cut(
    function: KernelFunction,
    dimensions: Dimensions,
    group: Group,
    shape: Shape,
    ahead: dict[int, list[Dimension]],
) -> RowsPlan | TilesPlan:
    """Cuts a group into tiles where an argument is contiguous along another axis than the results, else into rows."""
    return _tiles(function, dimensions, group, shape) or _rows(function, dimensions, group, shape, ahead)


def _tiles(function: KernelFunction, dimensions: Dimensions, group: Group, shape: Shape) -> TilesPlan | None:
    value, rank = group.values[0], group.type.rank
    axes = dimensions.axes(value)
    extents = group.type.shape
    lanes = min(shape.lanes, 16)
    for port in sorted(function.arguments, key=lambda p: -p.type.rank):
        own = dimensions.axes(port.value)
        if rank < 2 or len(own) < 2 or axes[-1] not in own:
            continue
        interleaves = 1 < extents[-1] <= 4 and shape.lanes > 1 and not any(group.insertions)
        padded = _padded_across(value)
        if interleaves and padded is not None and own[-1] == dimensions.axis(padded.operands[0], rank - 2):
            return TilesPlan(group, rank - 2, lanes, extents[-1], padded)
        if own[-1] not in axes[:-1]:
            continue
        across = axes.index(own[-1])
        if lanes > 1 and all(e == DYNAMIC or e >= lanes for e in (extents[across], extents[-1])):
            return TilesPlan(group, across, lanes)
        if interleaves and across == rank - 2:
            return TilesPlan(group, across, lanes, extents[-1])
    return None


def _rows(
    function: KernelFunction,
    dimensions: Dimensions,
    group: Group,
    shape: Shape,
    ahead: dict[int, list[Dimension]],
) -> RowsPlan:
    last = group.type.shape[-1] if group.type.rank else 1
    traffic = sum(storage_bytes(p.type.element_type) for p in (*function.arguments, *group.ports))
    axes = list(dimensions.axes(group.values[0]))
    return RowsPlan(
        group,
        shape=shape if last == DYNAMIC else shape.limited(last),
        block=max(shape.wide, _BLOCK_BYTES // max(1, traffic) // shape.wide * shape.wide),
        joined=_put_together(function, dimensions, group.values[0]),
        ahead=tuple(number for number, own in ahead.items() if own == axes),
    )


def _padded_across(value: ir.Value) -> ir.Operation | None:
    """The pad that makes a result, when it pads along the last axis but one; else None."""
    op = defining(value, "tensor.pad")
    if op is None or ir.RankedTensorType(value.type).rank < 2:
        return None
    low, high = margins(op)
    return op if low[-2] != 0 or high[-2] != 0 else None


def _put_together(function: KernelFunction, dimensions: Dimensions, value: ir.Value) -> ir.Operation | None:
    """The pad or concatenation along the vectorized axis that makes a value: rows are cut at the boundaries of its
    parts. None when there is none."""
    rank = ir.RankedTensorType(value.type).rank
    axes = dimensions.axes(value)
    if rank == 0 or axes.count(axes[-1]) != 1 or dimensions.is_shifted(axes[-1]):
        return None
    for op in function.tensor_ops:
        if op.name not in ("tensor.pad", "tensor.concat"):
            continue
        result = op.results[0]
        last = ir.RankedTensorType(result.type).rank - 1
        if last < 0 or dimensions.axis(result, last) != axes[-1]:
            continue
        if op.name == "tensor.concat" and joined_axis(op) == last:
            return op
        if op.name == "tensor.pad":
            low, high = margins(op)
            if low[last] != 0 or high[last] != 0:
                return op
    return None
