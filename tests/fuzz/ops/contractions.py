"""Products: matrices, einsum, attention."""

from __future__ import annotations

from tests.fuzz.maker import Maker
from tests.fuzz.ops.registry import applies


@applies(6)
def matmul(g: Maker) -> None:
    x = g.floating(1, 4)
    inner = x.dims[-1]
    columns = g.integer(1, 40) if g.chance(0.5) else g.dim()
    batch: tuple = ()
    if x.rank > 2 and g.chance(0.4):
        batch = tuple(1 if g.chance(0.2) else d for d in x.dims[:-2])[g.integer(0, x.rank - 2) :]
    y = g.data(x.dtype, (*batch, inner, columns) if g.chance(0.9) or batch else (inner,))
    z = g.add("MatMul", [x, y])[0]
    if z.rank and g.chance(0.4):
        g.add("Add", [z, g.data(z.dtype, z.dims[-1:])])


@applies(3)
def gemm(g: Maker) -> None:
    x = g.floating(2, 2)
    a, b = g.integer(0, 1), g.integer(0, 1)
    rows, inner = (x.dims[1], x.dims[0]) if a else x.dims
    columns = g.integer(1, 33)
    y = g.data(x.dtype, (columns, inner) if b else (inner, columns))
    inputs = [x, y]
    if g.chance(0.7):
        inputs.append(g.data(x.dtype, g.one_of([(columns,), (rows, columns), (rows, 1), (1, columns), (1,), ()])))
    g.add("Gemm", inputs, transA=a, transB=b, alpha=g.one_of([1.0, 0.5]), beta=g.one_of([1.0, 2.0]))


@applies(1)
def einsum(g: Maker) -> None:
    x = g.floating(2, 3)
    y = g.data(x.dtype, (x.dims[-1], g.integer(1, 5)))
    if x.rank == 2:
        equation = g.one_of(["ij,jk->ik", "ij,jk->ki", "ij,jk->jik", "ij,jk->i", "ij,jk"])
    else:
        equation = g.one_of(["bij,jk->bik", "bij,jk->kb", "bij,jk->ib", "...ij,jk->...ki"])
    g.add("Einsum", [x, y], equation=equation)


@applies(1)
def attention(g: Maker) -> None:
    """softmax(x yᵀ) z, spelled out as exporters do."""
    x = g.floating(2, 4)
    other = g.dim()
    keys = g.data(x.dtype, (*x.dims[:-2], other, x.dims[-1]))
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    scores = g.add("MatMul", [x, g.add("Transpose", [keys], perm=perm)[0]])[0]
    scaled = g.add("Mul", [scores, g.scalar(0.5, x.dtype)])[0]
    weights = g.add("Softmax", [scaled], axis=-1)[0]
    g.add("MatMul", [weights, g.data(x.dtype, (*x.dims[:-2], other, g.integer(1, 9)))])
