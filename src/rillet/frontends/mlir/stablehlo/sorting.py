"""``sort``: by any comparison, of several tensors together."""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.building import sorting
from rillet.frontends.building.builder import Builder, permutation_inverse
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.mlir.edges import dtype_name
from rillet.frontends.mlir.stablehlo import scalar_regions
from rillet.ir import builders
from rillet.ir.rewrite import replace


def sort(b: Builder, op: ir.Operation) -> None:
    """Sort the operands along ``dimension``, so that no element comes before one that the region puts first.

    Elements that are equal keep their order, whether the op asks for it or not.
    """
    tensors = [b.wrap(v, dtype_name(ir.RankedTensorType(v.type).element_type)) for v in op.operands]
    axis = ir.IntegerAttr(op.attributes["dimension"]).value % tensors[0].rank
    ranked = [sorting.rank_matrix(b, t, axis) for t in tensors]
    sources = [b.value(matrix) for matrix, _, _ in ranked]
    (matrix, permutation, rows), comparator = ranked[0], op.regions[0].blocks[0]

    def before(row: Scalar, i: Scalar, j: Scalar) -> Scalar:
        pairs = [[builders.extract(s, [row.value, at.value]) for at in (i, j)] for s in sources]
        return Scalar(scalar_regions.compute(comparator, [v for pair in pairs for v in pair])[0], "bool")

    order = b.value(sorting.argsort(b, rows, matrix.shape[1], before))
    shape = [tensors[0].shape[a] for a in permutation]

    def moved(source: ir.Value, dtype: str) -> Tensor:
        def read(at: list[Scalar]) -> Scalar:
            return b.element(source, dtype, [at[0], convert(b.element(order, "int64", at), "index")])

        result = b.indexed(dtype, matrix.shape, read)
        return b.transpose(b.reshape(result, shape), permutation_inverse(permutation))

    results = [b.value(moved(s, t.dtype)) for s, t in zip(sources, tensors, strict=True)]
    replace(op, [builders.cast(v, t.shape) for v, t in zip(results, tensors, strict=True)])
