"""Contractions and convolutions recognized by structure: the roles of loops (Einstein summation terms), and the
operations that a body applies to its factors and sums."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.panels import is_packed, is_window
from rillet.ir.rewrite import defining
from rillet.ir.shared_bytes import shared_byte
from rillet.ir.structured import Map, Structured, dims_in, structured

_EXTENSIONS = frozenset(("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"))
_PRODUCT_OF_SUM = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_WIDEN = ("arith.extf", "arith.extsi", "arith.extui")
_NARROW = ("arith.truncf", "arith.trunci")
POSITION = -1  # among the inputs of a factor: it also depends on a position or a region


@dataclass(frozen=True)
class Factor:
    """A factor of a product and the numbers of the inputs that it is computed from."""

    value: ir.Value
    inputs: frozenset[int]


@dataclass(frozen=True)
class Product:
    """A body ``accumulator + lhs * rhs``, with the conversions of the accumulator before and after."""

    lhs: Factor
    rhs: Factor
    accumulator_type: ir.Type  # the type in which sums are kept
    narrow: str | None  # the op that turns a finished sum into the result's element type
    widen: str | None  # the op that turns an initial value into the accumulator type

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """The lhs and the rhs."""
        return self.lhs, self.rhs

    def turned(self) -> Product:
        """The product with lhs and rhs swapped."""
        return dataclasses.replace(self, lhs=self.rhs, rhs=self.lhs)


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
        """Whether it has window loops, which read an image at neighbouring positions."""
        return bool(self.image)


def product_of(view: Structured) -> Product | None:
    """The product that the body adds to its first accumulator, factors in the order of the multiplication. None when
    the body is no sum of products."""
    result, narrow = view.yielded()[0], None
    narrowing = defining(result, *_NARROW)
    if narrowing is not None:
        narrow, result = narrowing.name, narrowing.operands[0]
    addition = defining(result, *_PRODUCT_OF_SUM)
    if addition is None:
        return None
    accumulator = view.body.arguments[len(view.inputs)]
    a, b = addition.operands
    for total, term in ((a, b), (b, a)):
        widening = defining(total, *_WIDEN)
        start = total if widening is None else widening.operands[0]
        product = defining(term, _PRODUCT_OF_SUM[addition.name])
        if start == accumulator and product is not None and (narrow is None) == (widening is None):
            lhs, rhs = (Factor(v, inputs_of(view, v)) for v in product.operands)
            return Product(lhs, rhs, result.type, narrow, None if widening is None else widening.name)
    return None


def separate_product(view: Structured) -> Product | None:
    """``product_of`` with each input in exactly one factor, input 0 in the ``lhs``; else None."""
    product = product_of(view)
    if product is None or product.lhs.inputs & product.rhs.inputs:
        return None
    if product.lhs.inputs | product.rhs.inputs != frozenset(range(len(view.inputs))):
        return None
    return product if 0 in product.lhs.inputs else product.turned()


def inputs_of(view: Structured, value: ir.Value) -> frozenset[int]:
    """The numbers of the body's arguments that ``value`` is computed from, and ``POSITION``."""
    arguments = list(view.body.arguments)
    if value in arguments:
        return frozenset((arguments.index(value),))
    byte = shared_byte(view, value)
    if byte is not None:
        return frozenset((byte,))
    owner = defining(value)
    if owner is None or owner.parent != view.op:
        return frozenset()  # a scalar of the function
    if len(owner.regions) or owner.name in ("linalg.index", "tensor.extract"):
        return frozenset((POSITION,))
    return frozenset().union(*(inputs_of(view, o) for o in owner.operands))


def is_multiply_add(view: Structured) -> bool:
    """True when the body adds a product to the init."""
    return _multiply_add(view) is not None


def _multiply_add(view: Structured) -> Product | None:
    """``product_of``, when the init and the sum are not converted; else None."""
    product = product_of(view)
    return product if product is not None and product.narrow is None else None


def contraction(view: Structured) -> Contraction | None:
    """The roles of the loops of ``view``; None when it is no sum of products of two operands, possibly extended and
    minus a constant."""
    product = _sum_of_products(view)
    if product is None:
        return None
    pair = {n for factor in product.factors if (n := _argument(view, factor.value)) is not None}
    if len(pair) != 2:
        return None
    first, second = sorted(pair)
    windowed = [i for i in (first, second) if any(is_window(e) for e in view.maps[i])]
    if len(windowed) > 1:
        return None
    lhs, rhs = (second, first) if windowed == [second] else (first, second)
    return _roles(view, lhs, rhs)


def is_convolution(op: ir.Operation) -> bool:
    """Whether ``op`` is a contraction that reads windows of an image."""
    view = structured(op)
    roles = None if view is None else contraction(view)
    return roles is not None and roles.is_convolution


def weighted_contraction(view: Structured) -> tuple[Contraction, tuple[int, ...]] | None:
    """As ``contraction``, but one factor may be computed from several inputs. The input that most loops index is the
    ``rhs``; the numbers of the others, which are indexed by some of its loops, are returned beside the roles."""
    product = _sum_of_products(view)
    if product is None:
        return None
    one, several = sorted((factor.inputs - {POSITION} for factor in product.factors), key=len)
    if len(one) != 1 or not several or one & several or any(is_window(e) for n in several for e in view.maps[n]):
        return None
    carrier = max(several, key=lambda n: len(_plain(view.maps[n])))
    others = tuple(sorted(several - {carrier}))
    if any(not _plain(view.maps[n]) <= _plain(view.maps[carrier]) for n in others):
        return None
    (lhs,) = one
    roles = _roles(view, lhs, carrier)
    return None if roles is None else (roles, others)


def _sum_of_products(view: Structured) -> Product | None:
    return _multiply_add(view) if len(view.inits) == 1 and not view.is_parallel else None


def _roles(view: Structured, lhs: int, rhs: int) -> Contraction | None:
    plain_lhs, plain_rhs = _plain(view.maps[lhs]), _plain(view.maps[rhs])
    windowed = {d for e in view.maps[lhs] if is_window(e) for d in dims_in(e)}
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


def _plain(map_: Map) -> set[int]:
    """The loops that index the operand directly, or in quotients and remainders."""
    panels = {d for e in map_ if is_packed(e) for d in dims_in(e)}
    return panels | {e for e in map_ if isinstance(e, int)}


def _subtracts_constant(op: ir.Operation) -> bool:
    return op.name == "arith.subi" and defining(op.operands[1], "arith.constant") is not None


def _argument(view: Structured, value: ir.Value) -> int | None:
    """The number of the input that ``value`` is, possibly extended and, for integers, minus a constant zero point."""
    owner = defining(value)
    while owner is not None and (owner.name in _EXTENSIONS or _subtracts_constant(owner)):
        value = owner.operands[0]
        owner = defining(value)
    return view.input_number(value)


def is_extended_product(view: Structured, roles: Contraction) -> bool:
    """Whether a contraction multiplies its ``lhs``, extended and possibly minus a constant zero point, by its ``rhs``,
    which is only extended."""
    product = _multiply_add(view)
    if product is None:
        return False
    for factor in product.factors:
        owner = defining(factor.value)
        if _argument(view, factor.value) == roles.lhs and owner is not None and _subtracts_constant(owner):
            owner = defining(owner.operands[0])
        if owner is None or owner.name not in _EXTENSIONS or owner.operands[0] not in list(view.body.arguments):
            return False
    return True
