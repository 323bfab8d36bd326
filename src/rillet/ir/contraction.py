"""Contractions and convolutions recognized by structure: which loops play which role (Einstein summation terms)."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.rewrite import defining, is_defined_by
from rillet.ir.structured import Expr, Map, Structured, dims_in

_EXTENSIONS = frozenset(("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"))
_MULTIPLY = frozenset(("arith.mulf", "arith.muli"))
_ADD = frozenset(("arith.addf", "arith.addi"))


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two operands. Loops by role, each ascending; ``lhs`` and ``rhs`` are input numbers.

    For a convolution ``lhs`` is the image, ``image`` the loops over output positions, ``window`` those over the
    filter's extent.
    """

    lhs: int
    rhs: int
    batch: tuple[int, ...]  # in both operands and the result: batches, groups, a depthwise convolution's channels
    m: tuple[int, ...]  # only in the lhs and the result
    n: tuple[int, ...]  # only in the rhs and the result
    k: tuple[int, ...]  # reductions that index both operands directly
    image: tuple[int, ...] = ()
    window: tuple[int, ...] = ()

    @property
    def is_convolution(self) -> bool:
        return bool(self.image)


def contraction(view: Structured) -> Contraction | None:
    """The roles of the loops of ``view``, or None when it is not a sum of products of two operands."""
    if len(view.inits) != 1 or all(view.parallel) or not is_multiply_add(view):
        return None
    product = _product(view)
    assert product is not None
    pair = {n for v in product.operands if (n := _argument(view, v)) is not None}
    if len(pair) != 2:
        return None
    first, second = sorted(pair)
    complex_maps = [i for i in (first, second) if any(_is_window(e) for e in view.maps[i])]
    if len(complex_maps) > 1:
        return None
    lhs, rhs = (second, first) if complex_maps == [second] else (first, second)
    return _roles(view, lhs, rhs)


def weighted_contraction(view: Structured) -> tuple[Contraction, tuple[int, ...]] | None:
    """Like ``contraction``, where one factor may be computed from several inputs: the one among them that most loops
    index is the ``rhs``, and the others, which are indexed by some of its loops, are given beside the roles.
    """
    if len(view.inits) != 1 or all(view.parallel) or not is_multiply_add(view):
        return None
    product = _product(view)
    assert product is not None
    factors = sorted((_inputs(view, v) for v in product.operands), key=len)
    left, right = factors
    if len(left) != 1 or not right or left & right or any(_is_window(e) for n in right for e in view.maps[n]):
        return None
    carrier = max(right, key=lambda n: len(_plain(view.maps[n])))
    others = tuple(sorted(right - {carrier}))
    if any(not _plain(view.maps[n]) <= _plain(view.maps[carrier]) for n in others):
        return None
    (lhs,) = left
    roles = _roles(view, lhs, carrier)
    return None if roles is None else (roles, others)


def _inputs(view: Structured, value: ir.Value) -> set[int]:
    """The inputs that ``value`` is computed from, element by element."""
    arguments = list(view.body.arguments)[: len(view.inputs)]
    if value in arguments:
        return {arguments.index(value)}
    owner = defining(value)
    if owner is None or owner.parent != view.op:
        return set()
    return set().union(*(_inputs(view, operand) for operand in owner.operands))


def _roles(view: Structured, lhs: int, rhs: int) -> Contraction | None:
    plain_lhs, plain_rhs = _plain(view.maps[lhs]), _plain(view.maps[rhs])
    windowed = {d for e in view.maps[lhs] if _is_window(e) for d in dims_in(e)}
    out = view.init_maps[0]
    if any(not isinstance(e, int) for e in out) or windowed & plain_lhs:
        return None
    loops = range(view.loops)
    parallel = [d for d in loops if view.parallel[d]]
    reduction = [d for d in loops if not view.parallel[d]]

    def pick(candidates: list[int], in_lhs: bool, in_rhs: bool) -> tuple[int, ...]:
        return tuple(
            d for d in candidates if (d in plain_lhs) == in_lhs and (d in plain_rhs) == in_rhs and d not in windowed
        )

    roles = Contraction(
        lhs,
        rhs,
        pick(parallel, True, True),
        pick(parallel, True, False),
        pick(parallel, False, True),
        pick(reduction, True, True),
        tuple(d for d in parallel if d in windowed and d not in plain_rhs),
        tuple(d for d in reduction if d in windowed and d in plain_rhs),
    )
    named = (*roles.batch, *roles.m, *roles.n, *roles.k, *roles.image, *roles.window)
    return roles if sorted(named) == list(loops) else None


def _is_packed(expr: Expr) -> bool:
    """Whether ``expr`` is made of quotients and remainders by constants."""
    if isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return _is_packed(expr.lhs) or _is_packed(expr.rhs)
    return isinstance(expr, ir.AffineFloorDivExpr | ir.AffineModExpr)


def _is_window(expr: Expr) -> bool:
    return not isinstance(expr, int) and not _is_packed(expr) and bool(dims_in(expr))


def _plain(map_: Map) -> set[int]:
    """The loops that index the operand directly, or in quotients and remainders."""
    panels = {d for e in map_ if _is_packed(e) for d in dims_in(e)}
    return panels | {e for e in map_ if isinstance(e, int)}


def is_multiply_add(view: Structured) -> bool:
    """True when the body adds the product of two (possibly extended) inputs to the init."""
    return _product(view) is not None


def _product(view: Structured) -> ir.Operation | None:
    total = defining(view.yielded()[0])
    if total is None or total.name not in _ADD:
        return None
    accumulator = view.body.arguments[len(view.inputs)]
    rest = [v for v in total.operands if v != accumulator]
    if len(rest) != 1:
        return None
    product = defining(rest[0])
    return product if product is not None and product.name in _MULTIPLY else None


def is_interleaved(map_: Map) -> bool:
    """Whether steps of the reduction lie side by side in packed panels (docs/reference/flow-form.md)."""
    return sum(isinstance(e, ir.AffineModExpr) for e in map_) > 1


def _subtracts_constant(op: ir.Operation) -> bool:
    return op.name == "arith.subi" and is_defined_by(op.operands[1], "arith.constant")


def _argument(view: Structured, value: ir.Value) -> int | None:
    """The input that ``value`` is, possibly extended and, of integers, with a constant zero point subtracted."""
    owner = defining(value)
    while owner is not None and (owner.name in _EXTENSIONS or _subtracts_constant(owner)):
        value = owner.operands[0]
        owner = defining(value)
    for number in range(len(view.inputs)):
        if value == view.body.arguments[number]:
            return number
    return None


def is_extended_product(view: Structured, roles: Contraction) -> bool:
    """Whether a contraction multiplies its ``lhs``, extended and less a constant zero point or none, by its ``rhs``
    extended and nothing else.
    """
    product = _product(view)
    if product is None:
        return False
    for value in product.operands:
        owner = defining(value)
        if _argument(view, value) == roles.lhs and owner is not None and _subtracts_constant(owner):
            owner = defining(owner.operands[0])
        if owner is None or owner.name not in _EXTENSIONS or owner.operands[0] not in list(view.body.arguments):
            return False
    return True
