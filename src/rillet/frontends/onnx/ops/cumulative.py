"""CumSum, CumProd: device loops along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.frontends.building import element_types
from rillet.frontends.building.loops import for_each, for_range, scalar_of, store
from rillet.frontends.building.scalars import Scalar, constant
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op


@op("CumSum", since=11)
@op("CumProd", since=26)
def cumulate(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """Running sums or products along ``axis``, backwards if ``reverse``, without the element itself if exclusive."""
    b = node.b
    along = node.axis(int(b.known(axis, "axis").reshape(-1)[0]), x.rank)
    exclusive, backwards = node.attr("exclusive", 0), node.attr("reverse", 0)
    compute = element_types.compute_dtype(x.dtype)
    multiply = node.op_type == "CumProd"
    source = b.value(x)
    last = scalar_of(x.shape[along]) - 1

    def row(at: Sequence[Scalar], result: ir.Value) -> ir.Value:
        def step(i: Scalar, total: ir.Value, result: ir.Value) -> list[ir.Value]:
            place = [*at[:along], last - i if backwards else i, *at[along:]]
            before = Scalar(total, compute)
            value = b.element(source, x.dtype, place)
            after = before * value if multiply else before + value
            return [after.value, store(before if exclusive else after, x.dtype, result, place)]

        start = constant(1 if multiply else 0, compute).value
        return for_range(0, x.shape[along], [start, result], step)[1]

    rest = [d for a, d in enumerate(x.shape) if a != along]
    return b.tensor(for_each(rest, [b.empty(x.dtype, x.shape)], row)[0], x.dtype, x.shape)
