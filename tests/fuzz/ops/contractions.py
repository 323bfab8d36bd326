"""Products: matrices, einsum, attention."""

from __future__ import annotations

from tests.fuzz.maker import Maker, Stuck
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


@applies(0.8)
def einsum_of_labels(g: Maker) -> None:
    """One to three operands with random labels; those left out are summed."""
    x = g.value(("float32", "float64"), 1, 4)
    letters = list("abcdefgh")
    labels = dict(zip(letters, x.dims, strict=False))
    terms = [letters[: x.rank]]
    operands = [x]
    for _ in range(g.integer(0, 2)):
        term = [str(n) for n in g.rng.permutation(sorted(labels))[: g.integer(1, 3)]]
        if g.chance(0.5) and len(labels) < 6:
            fresh = letters[len(labels)]
            labels[fresh] = g.integer(1, 4)
            term.insert(g.integer(0, len(term)), fresh)
        terms.append(term)
        operands.append(g.data(x.dtype, [labels[n] for n in term]))
    kept = [str(n) for n in g.rng.permutation(sorted(labels))[: g.integer(0, min(4, len(labels)))]]
    g.add("Einsum", operands, equation=",".join(map("".join, terms)) + "->" + "".join(kept))


@applies(0.5)
def diagonal(g: Maker) -> None:
    x = g.value(("float32", "float64"), 2, 3)
    if x.dims[-1] != x.dims[-2]:
        raise Stuck
    g.add(
        "Einsum", [x], equation=g.one_of(["...ii->...i", "...ii->..."] if x.rank == 3 else ["ii->i", "ii->", "ij->ji"])
    )


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
