"""Indexing maps of packed operands, whose panels are read at quotients and remainders of loops."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.structured import Expr, Map, dims_in


def is_packed(expr: Expr) -> bool:
    """Whether ``expr`` consists of quotients and remainders by constants."""
    if isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return is_packed(expr.lhs) or is_packed(expr.rhs)
    return isinstance(expr, ir.AffineFloorDivExpr | ir.AffineModExpr)


def is_window(expr: Expr) -> bool:
    """Whether ``expr`` is a position in a window: it mentions loops, and is neither one of them nor packed."""
    return not isinstance(expr, int) and not is_packed(expr) and bool(dims_in(expr))


def is_interleaved(map_: Map) -> bool:
    """Whether steps of the reduction lie side by side in panels."""
    return sum(isinstance(e, ir.AffineModExpr) or turned(e) is not None for e in map_) > 1


def packed_axes(map_: Map) -> list[tuple[int, int, int]] | None:
    """(axis, loop, divisor) for each of the last results that is ``loop mod divisor``, where result ``axis`` is ``loop
    floordiv divisor``; None when there are other quotients or remainders.
    """
    results = [e if (order := turned(e)) is None else order[0] for e in map_]
    quotients = [(n, e) for n, e in enumerate(results) if isinstance(e, ir.AffineFloorDivExpr)]
    remainders = [(n, e) for n, e in enumerate(results) if isinstance(e, ir.AffineModExpr)]
    if [n for n, _ in remainders] != list(range(len(results) - len(quotients), len(results))):
        return None
    found = []
    for (axis, quotient), (_, remainder) in zip(quotients, remainders, strict=True):
        if not isinstance(quotient.lhs, ir.AffineDimExpr) or not isinstance(quotient.rhs, ir.AffineConstantExpr):
            return None
        if quotient.lhs != remainder.lhs or quotient.rhs != remainder.rhs:
            return None
        found.append((axis, quotient.lhs.position, quotient.rhs.value))
    return found


def turned(expr: Expr) -> tuple[ir.AffineExpr, int] | None:
    """(``x mod (ways * length)``, ``ways``) for ``(x mod ways) * length + (x floordiv ways) mod length``; else None."""
    if not isinstance(expr, ir.AffineAddExpr):
        return None
    scaled, rest = expr.lhs, expr.rhs
    if not isinstance(scaled, ir.AffineMulExpr) or not isinstance(scaled.lhs, ir.AffineModExpr):
        return None
    x, ways, length = scaled.lhs.lhs, scaled.lhs.rhs, scaled.rhs
    if rest != ir.AffineExpr.get_mod(ir.AffineExpr.get_floor_div(x, ways), length):
        return None
    return ir.AffineExpr.get_mod(x, ways * length), ways.value


def unshared(map_: Map) -> tuple[Map, int]:
    """The map with a last result ``(loop mod panel) floordiv shared`` replaced by ``loop mod panel``, and ``shared``.
    Any other map is returned as it is, with 1."""
    *results, last = map_ or (None,)
    if not isinstance(last, ir.AffineFloorDivExpr) or not isinstance(last.lhs, ir.AffineModExpr):
        return map_, 1
    if not isinstance(last.rhs, ir.AffineConstantExpr):
        return map_, 1
    return (*results, last.lhs), last.rhs.value
