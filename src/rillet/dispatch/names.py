"""Readable names for kernels, from what they compute: ``conv_112x112x32_3x3``, ``matmul_128x384x384``,
``reduce_64x1000``.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.dispatch.regions.nodes import Kind, node
from rillet.ir.contraction import contraction, weighted_contraction
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Structured, copy_permutation, structured, walk


def name_of(function: ir.Operation) -> str:
    """A name for the kernel ``function``; not unique."""
    ops = [op.operation for op in function.regions[0].blocks[0].operations][:-1]
    generics = [v for v in map(structured, ops) if v is not None]
    result = next(iter(list(function.regions[0].blocks[0].operations)[-1].operands))
    tail = _shape(ir.RankedTensorType(result.type).shape) if defining(result) is not None else ""
    reductions = [v for v in generics if not all(v.parallel)]
    roots = [v for v in reductions if (n := node(v.op, 0)) is not None and n.kind is Kind.ROOT]
    if roots and len(reductions) == 1:
        return _root(roots[0])
    if len(roots) > 1:
        return _join("chain", _root(roots[0]))
    if reductions:
        # More than one: a row-wise computation such as a softmax or a normalization.
        return _join("reduce" if len(reductions) == 1 else "rows", _shape(reductions[0].extents))
    for kind in ("concat", "insert_slice", "extract_slice", "insert", "from_elements"):
        if any(op.name == f"tensor.{kind}" for op in ops):
            return _join(kind.split("_")[-1] if kind == "extract_slice" else kind.split("_")[0], tail)
    if any(op.name.startswith("scf.") for op in ops):
        return _join("loop", tail)
    if not generics:
        return _join("pad" if any(op.name == "tensor.pad" for op in ops) else "fill", tail)
    if all(copy_permutation(v.op) is not None for v in generics):
        return _join("transpose", tail)
    gathers = any(inner.name == "tensor.extract" for v in generics for inner in walk(v.op))
    return _join("gather" if gathers else "elementwise", tail)


def _root(view: Structured) -> str:
    extents = view.extents
    weighted = weighted_contraction(view)
    roles = contraction(view) or (weighted[0] if weighted is not None else None)

    def pick(dims: Sequence[int]) -> str:
        return _shape([extents[d] for d in dims])

    if roles is None:
        windowed = [d for d in range(view.loops) if not view.parallel[d]]
        out = [e for e in view.init_maps[0] if isinstance(e, int)]
        return _join("pool" if view.is_windowed else "contract", pick(out), pick(windowed))
    if not roles.is_convolution:
        return _join("matmul", pick(roles.batch), pick((*roles.m, *roles.n, *roles.k)))
    kind = "conv" if roles.n else "depthwise_conv"
    return _join(kind, pick((*roles.image, *roles.batch, *roles.n)), pick(roles.window))


def _shape(extents: Sequence[int]) -> str:
    return "x".join("D" if e == DYNAMIC else str(e) for e in extents)


def _join(*parts: str) -> str:
    return "_".join(p for p in parts if p)
