"""Device loops: ``scf.for`` nests over tensor elements, for computations that are not structured ops (scatters, sorts,
selections).

A state is a list of SSA tensors and scalars that the loop carries. Tensors are updated in place with ``store``; their
initial value is a fresh tensor (``Builder.empty``, ``Builder.init``), or ``Builder.value`` of an operand, which is then
copied. No structured op may be built in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import scf, tensor

from rillet.frontends.building import scalars
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.ir import builders
from rillet.ir.builders import Extent

State: TypeAlias = Sequence[ir.Value]


def scalar_of(extent: Extent) -> Scalar:
    """An extent as an index scalar."""
    return scalars.constant(extent, "index") if isinstance(extent, int) else Scalar(extent, "index")


def _bound(extent: Extent | Scalar) -> ir.Value:
    return extent.value if isinstance(extent, Scalar) else builders.as_index(extent)


def for_range(
    low: Extent | Scalar,
    high: Extent | Scalar,
    state: State,
    body: Callable[..., State | ir.Value],
    step: Extent | Scalar = 1,
) -> list[ir.Value]:
    """``for i in range(low, high, step): state = body(i, *state)``; ``i`` is an index Scalar."""
    loop = scf.ForOp(_bound(low), _bound(high), _bound(step), list(state))
    block = loop.operation.regions[0].blocks[0]
    with ir.InsertionPoint(block):
        results = body(Scalar(block.arguments[0], "index"), *list(block.arguments)[1:])
        scf.YieldOp([results] if isinstance(results, ir.Value) else list(results))
    return list(loop.operation.results)


def for_each(shape: Sequence[Extent], state: State, body: Callable[..., State | ir.Value]) -> list[ir.Value]:
    """``state = body(indices, *state)`` for every index of ``shape`` in row-major order."""

    def nest(indices: list[Scalar], state: State) -> State:
        if len(indices) == len(shape):
            results = body(indices, *state)
            return [results] if isinstance(results, ir.Value) else results
        return for_range(0, shape[len(indices)], state, lambda i, *inner: nest([*indices, i], inner))

    if not shape:  # a loop, so that what is done once is device code too
        return for_range(0, 1, state, lambda _, *inner: body([], *inner))
    return list(nest([], state))


def store(value: Scalar, dtype: str, destination: ir.Value, indices: Sequence[Scalar | Extent]) -> ir.Value:
    """``destination`` (of ``dtype``) with one element replaced."""
    positions = [i.value if isinstance(i, Scalar) else builders.as_index(i) for i in indices]
    return tensor.InsertOp(convert(value, dtype).value, destination, positions).result


def read_extent(b: Builder, counts: ir.Value, position: int = 0) -> Extent:
    """One element of an int64 tensor, read by the host, as the extent of a dimension."""
    value = builders.extract(counts, [position])
    return b.extents.declare(convert(Scalar(value, "int64"), "index").value)
