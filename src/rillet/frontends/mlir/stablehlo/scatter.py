"""``scatter``: a device loop over the updates, in order."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs._stablehlo import ScatterDimensionNumbers
from torch_mlir.dialects import arith, tensor

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, scalar_of
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.mlir.edges import dtype_name
from rillet.frontends.mlir.stablehlo import scalar_regions
from rillet.ir import builders
from rillet.ir.rewrite import replace


def scatter(b: Builder, op: ir.Operation) -> None:
    """Combine each update with the element at its position by the region; updates that lie outside are dropped."""
    count = (len(op.operands) - 1) // 2
    inputs = [b.wrap(v, _dtype(v)) for v in list(op.operands)[:count]]
    indices = b.wrap(op.operands[count], _dtype(op.operands[count]))
    updates = [b.wrap(v, _dtype(v)) for v in list(op.operands)[count + 1 :]]
    numbers = ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    sources = [b.value(u) for u in updates]
    index_source = b.value(indices)

    def update(at: list[Scalar], *state: ir.Value) -> list[ir.Value]:
        position = _position(b, numbers, indices, index_source, inputs[0].rank, at)
        inside = constant(True, "bool")
        clamped = []
        for place, extent in zip(position, inputs[0].shape, strict=True):
            size = scalar_of(extent)
            inside = inside & (place >= 0) & (place < size)
            clamped.append(maximum(minimum(place, size - 1), 0).value)
        old = [tensor.ExtractOp(s, clamped).result for s in state]
        new = [tensor.ExtractOp(s, [i.value for i in at]).result for s in sources]
        combined = scalar_regions.compute(op.regions[0].blocks[0], [*old, *new])
        chosen = [arith.select(inside.value, n, o) for n, o in zip(combined, old, strict=True)]
        return [tensor.InsertOp(v, s, clamped).result for v, s in zip(chosen, state, strict=True)]

    if any(0 in t.shape for t in inputs):
        replace(op, list(op.operands)[:count])
        return
    results = for_each(updates[0].shape, [b.value(t) for t in inputs], update)
    replace(op, [builders.cast(r, t.shape) for r, t in zip(results, inputs, strict=True)])


def _position(
    b: Builder, numbers: ScatterDimensionNumbers, indices: Tensor, source: ir.Value, rank: int, at: Sequence[Scalar]
) -> list[Scalar]:
    """Where the update at ``at`` goes: its start, given by the indices, plus its place in the window."""
    window = list(numbers.update_window_dims)
    batch = [place for axis, place in enumerate(at) if axis not in window]
    skipped = [*numbers.inserted_window_dims, *numbers.input_batching_dims]
    position = [constant(0, "index")] * rank
    for axis, place in zip((a for a in range(rank) if a not in skipped), window, strict=True):
        position[axis] = at[place]
    vector = numbers.index_vector_dim
    for number, axis in enumerate(numbers.scattered_dims_to_operand_dims):
        where: list[Scalar] = list(batch)
        if vector < indices.rank:
            where.insert(vector, constant(number, "index"))
        position[axis] = position[axis] + convert(b.element(source, indices.dtype, where), "index")
    for axis, among in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        position[axis] = position[axis] + batch[among - (among > vector)]
    return position


def _dtype(value: ir.Value) -> str:
    return dtype_name(ir.RankedTensorType(value.type).element_type)
