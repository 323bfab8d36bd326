"""MatMul and Gemm: one generic over (batch..., m, n | k) each.

Broadcast batch dimensions are left out of an operand's map. With an rhs of rank 2, the batch dimensions of the lhs
become part of m.
"""

from __future__ import annotations

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent


@op("MatMul")
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a @ b as numpy's matmul broadcasts: matrices in the last two dimensions, batches before."""
    return multiply(node, a, b)


def multiply(node: Node, a: Tensor, b: Tensor, dtype: str | None = None) -> Tensor:
    """numpy's matmul. Accumulates in ``dtype`` (default: the type in which ``a`` computes, converted back).

    Raises InvalidNode for a scalar.
    """
    builder = node.b
    if not a.rank or not b.rank:
        raise InvalidNode("a scalar cannot be an operand")
    result_dtype = dtype or a.dtype
    dtype = dtype or element_types.compute_dtype(a.dtype)
    # Vectors become matrices; their dimension goes away again at the end.
    left = builder.unsqueeze(a, [0]) if a.rank == 1 else a
    right = builder.unsqueeze(b, [1]) if b.rank == 1 else b
    _check_inner(left.shape[-1], right.shape[-2])
    batch = builder.broadcast_shape([left.shape[:-2], right.shape[:-2]])
    rows, columns = left.shape[-2], right.shape[-1]
    if right.rank == 2 and left.rank > 2:
        flat = builder.reshape(left, [builder.extents.product(left.shape[:-1]), left.shape[-1]])
        result = _contract(node, flat, right, [], dtype)
    else:
        result = _contract(node, left, right, batch, dtype)
    result = builder.cast(result, result_dtype)
    shape = [*batch, *([rows] if a.rank > 1 else []), *([columns] if b.rank > 1 else [])]
    return builder.reshape(result, shape)


def _check_inner(left: Extent, right: Extent) -> None:
    if isinstance(left, int) and isinstance(right, int) and left != right:
        raise InvalidNode(f"the inner dimensions {left} and {right} differ")


def _contract(node: Node, a: Tensor, b: Tensor, batch: list[Extent], dtype: str) -> Tensor:
    builder = node.b
    count = len(batch)
    loops = builders.dims(count + 3)
    m, n, k = loops[count:]
    shape = [*batch, a.shape[-2], b.shape[-1]]

    def operand(tensor: Tensor, inner: list[Expr]) -> tuple[Tensor, list[Expr]]:
        kept: list[int] = []
        exprs: list[Expr] = []
        own = tensor.rank - 2
        if any(
            not builder.extents.equal(d, t) and d != 1 for d, t in zip(tensor.shape, batch[count - own :], strict=False)
        ):
            # An extent that may be 1 at run time: spell the broadcast out.
            tensor = builder.broadcast_to(tensor, [*batch[count - own :], *tensor.shape[-2:]])
        for axis in range(own):
            position = axis + count - own
            if tensor.shape[axis] == 1 and batch[position] != 1:
                continue
            kept.append(axis)
            exprs.append(loops[position])
        kept += [own, own + 1]
        return (tensor if len(kept) == tensor.rank else builder.drop_unit_dims(tensor, kept)), [*exprs, *inner]

    def body(x: Scalar, y: Scalar, acc: Scalar) -> Scalar:
        return acc + convert(x, acc.dtype) * convert(y, acc.dtype)

    output = (builder.init(0, dtype, shape), [*loops[:count], m, n], dtype, shape)
    return builder.generic([operand(a, [m, k]), operand(b, [k, n])], [output], "p" * (count + 2) + "r", body)[0]


@op("Gemm", ignores=["broadcast"])  # before opset 7, C broadcasts only when told to
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * A' * B' + beta * C; maps read transposed operands, a constant one is transposed beforehand.

    Raises InvalidNode for operands that are not matrices.
    """
    builder = node.b
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    if node.attr("transA", 0):
        a = builder.transpose(a, [1, 0]) if a.array is not None else a
    if a.rank != 2 or b.rank != 2:
        raise InvalidNode(f"operands of ranks {a.rank} and {b.rank}; both must be matrices")
    left_transposed = bool(node.attr("transA", 0)) and a.array is None
    right_transposed = bool(node.attr("transB", 0))
    if right_transposed and b.array is not None:
        b, right_transposed = builder.transpose(b, [1, 0]), False
    m, k = (a.shape[1], a.shape[0]) if left_transposed else (a.shape[0], a.shape[1])
    n, inner = (b.shape[0], b.shape[1]) if right_transposed else (b.shape[1], b.shape[0])
    _check_inner(k, inner)
    loops = builders.dims(3)
    dtype = element_types.compute_dtype(a.dtype)
    output = (builder.init(0, dtype, [m, n]), loops[:2], dtype, [m, n])
    a_map = [loops[2], loops[0]] if left_transposed else [loops[0], loops[2]]
    b_map = [loops[1], loops[2]] if right_transposed else [loops[2], loops[1]]
    product = builder.generic(
        [(a, a_map), (b, b_map)], [output], "ppr", lambda x, y, acc: acc + convert(x, acc.dtype) * convert(y, acc.dtype)
    )[0]

    def scale(v: Scalar, factor: float) -> Scalar:
        return v if factor == 1.0 else v * factor

    if c is None or beta == 0.0:
        return (
            product
            if alpha == 1.0 and dtype == a.dtype
            else builder.map(lambda v: scale(v, alpha), product, dtype=a.dtype)
        )
    return builder.map(lambda v, w: scale(v, alpha) + scale(w, beta), product, c, dtype=a.dtype, shape=[m, n])
