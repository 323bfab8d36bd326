"""Recognizing a contraction: a sum of products whose loops fall into batch, row, column and reduction loops.

Matrix products, batched or not, pointwise convolutions, and convolutions of any rank, stride, dilation and grouping all
have this form; what they are called does not matter. The *left* operand is read one element at a time and broadcast,
the *right* operand is read as vectors along the column loop, which is the last axis of the result. The factor on the
right may be computed of more than one operand: what the others, its *companions*, hold is the same for all steps of the
innermost reduction loop (the scales of blocks of weights).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import Access, argument_of, packed_axes, padded_access_of, unshared
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import Structured

_ADD = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_WIDEN = frozenset({"arith.extf", "arith.extsi", "arith.extui"})
_NARROW = frozenset({"arith.truncf", "arith.trunci"})
_WIDENED_AS_SIGNED = {"arith.extsi": True, "arith.sitofp": True, "arith.extui": False, "arith.uitofp": False}


@dataclass(frozen=True)
class Product:
    """The body ``accumulator + left * right``, with what is done to each before and after."""

    left: ir.Value  # factor computed from the left operand alone
    right: ir.Value
    accumulator_type: ir.Type  # in which sums are kept
    narrow: str | None  # the op that turns a finished sum into the result's element type
    widen: str | None  # the op that turns an initial value into the accumulator type


@dataclass(frozen=True)
class Contraction:
    """A root generic seen as a contraction. Loops of extent 1 are in none of the groups."""

    root: Structured
    left: int  # operand numbers
    right: int
    product: Product
    column_loop: int
    batch_loops: tuple[int, ...]
    row_loops: tuple[int, ...]
    reduction_loops: tuple[int, ...]
    left_access: Access
    right_access: Access
    companions: tuple[tuple[int, Access], ...] = ()  # operand numbers and accesses

    @property
    def extents(self) -> tuple[int, ...]:
        return self.root.extents


def recognize(function: KernelFunction) -> Contraction | None:
    """The contraction in ``kernel``, or None when its only reduction is not one or reads operands that need
    computing.
    """
    if len(function.reductions) != 1:
        return None
    root = function.reductions[0]
    if len(root.inputs) < 2 or len(root.inits) != 1:
        return None
    axes = [e for e in root.init_maps[0] if isinstance(e, int)]
    if not axes or sorted(axes) != list(root.parallel_loops):
        return None
    factors = product_of(root)
    if factors is None:
        return None
    count = root.loops
    accesses = [padded_access_of(function, v, m, count) for v, m in zip(root.inputs, root.input_maps, strict=True)]
    if any(a is None or argument_of(function, a.value) is None for a in accesses):
        return None
    return _classify(root, factors, [a for a in accesses if a is not None], axes)


def _classify(
    root: Structured, factors: tuple[list[Factor], Product], accesses: list[Access], axes: list[int]
) -> Contraction | None:
    column = axes[-1]
    sides, product = factors
    across = [any(accesses[n].uses(column) for n in side.inputs) for side in sides]
    if across not in ([True, False], [False, True]):
        return None
    of_left, of_right = sides if across[1] else sides[::-1]
    if len(of_left.inputs) != 1:
        return None
    (left,) = of_left.inputs
    loops = range(root.loops)
    right = max(of_right.inputs, key=lambda n: sum(accesses[n].uses(loop) for loop in loops))
    if accesses[left].panel or any(accesses[n].padding is not None for n in of_right.inputs):
        return None
    extents = root.extents
    parallel = [n for n in axes[:-1] if extents[n] != 1]
    batch = tuple(n for n in parallel if accesses[right].uses(n))
    rows = tuple(n for n in parallel if n not in batch)
    reductions = [n for n in root.reduction_loops if extents[n] != 1]
    if any(not accesses[left].uses(n) and not accesses[right].uses(n) for n in reductions):
        return None
    strides = {n: accesses[right].static_stride(n) for n in reductions}
    if all(s is not None for s in strides.values()):
        reductions.sort(key=lambda n: -(strides[n] or 0))
    if accesses[left].padding is not None and not _has_whole_runs(accesses[left], reductions):
        return None
    companions = tuple((n, accesses[n]) for n in sorted(of_right.inputs) if n != right)
    if not all(_stays(access, accesses[right], reductions, loops) for _, access in companions):
        return None
    oriented = dataclasses.replace(product, left=of_left.value, right=of_right.value)
    return Contraction(
        root, left, right, oriented, column, batch, rows, tuple(reductions), accesses[left], accesses[right], companions
    )


def _stays(companion: Access, right: Access, reductions: Sequence[int], loops: Iterable[int]) -> bool:
    """Whether a companion holds one vector for each of the columns', the same along the innermost reduction loop."""
    if reductions and companion.uses(reductions[-1]):
        return False
    return companion.panel == right.panel > 0 and all(right.uses(n) or not companion.uses(n) for n in loops)


def _has_whole_runs(left: Access, reductions: Sequence[int]) -> bool:
    """Whether the innermost reduction loop reads neighbours in memory and stays outside or inside of the padding."""
    return bool(reductions) and not left.checks(reductions[-1]) and left.static_stride(reductions[-1]) == 1


@dataclass(frozen=True)
class Factor:
    """A factor of a product and the numbers of the inputs it is computed from."""

    value: ir.Value
    inputs: frozenset[int]


def product_of(root: Structured) -> tuple[list[Factor], Product] | None:
    """The two factors, that of input 0 first, and the description of the body (with the factors in the same order);
    None when the body is no sum of products.
    """
    *_, terminator = root.body.operations
    result = terminator.operation.operands[0]
    narrow = None
    if _name(result) in _NARROW:
        narrow, result = _name(result), _operands(result)[0]
    if _name(result) not in _ADD:
        return None
    accumulator = root.body.arguments[len(root.inputs)]
    terms = list(_operands(result))
    for total, term in (terms, terms[::-1]):
        widen = None
        if _name(total) in _WIDEN:
            widen, total = _name(total), _operands(total)[0]
        if total == accumulator and _name(term) == _ADD[_name(result)] and (narrow is None) == (widen is None):
            factors = _factors(root, list(_operands(term)))
            if factors is None:
                return None
            return factors, Product(factors[0].value, factors[1].value, result.type, narrow, widen)
    return None


def _factors(root: Structured, values: list[ir.Value]) -> list[Factor] | None:
    """The factors of a product of which each input is in one."""
    first, second = factors = [Factor(v, frozenset(_inputs_of(root, v))) for v in values]
    if first.inputs & second.inputs or first.inputs | second.inputs != frozenset(range(len(root.inputs))):
        return None
    return factors if 0 in first.inputs else factors[::-1]


def _inputs_of(root: Structured, value: ir.Value) -> set[int]:
    """The numbers of the body arguments ``value`` is computed from; -1 for anything that cannot be computed in
    isolation.
    """
    if value in list(root.body.arguments):
        return {list(root.body.arguments).index(value)}
    byte = shared_byte(root, value)
    if byte is not None:
        return {byte}
    owner = defining(value)
    if owner is None or owner.parent is None or owner.parent != root.op:
        return set()  # a scalar of the function
    if len(owner.regions) or owner.name in ("linalg.index", "tensor.extract"):
        return {-1}
    return set().union(*(_inputs_of(root, o) for o in owner.operands))


def operations(contraction: Contraction) -> int:
    """How many instructions make a right-hand factor of what is loaded; a load widens, and elements that share bytes
    take two shifts.
    """
    return _operations(contraction.root, contraction.product.right, contraction.right)


def apart(contraction: Contraction) -> tuple[ir.Value, ir.Value | None]:
    """The right-hand factor, or the two values that it is the product of at last: one computed of the right operand
    and one of its companions alone, which stays the same along the innermost reduction loop.
    """
    value, root = contraction.product.right, contraction.root
    if not contraction.companions or _name(value) != "arith.mulf":
        return value, None
    for varying, fixed in (_operands(value), _operands(value)[::-1]):
        if contraction.right not in _inputs_of(root, fixed):
            return varying, fixed
    return value, None


def _operations(root: Structured, value: ir.Value, right: int) -> int:
    if right not in _inputs_of(root, value) or value in list(root.body.arguments):
        return 0
    if shared_byte(root, value) is not None:
        return 2
    owner = defining(value)
    assert owner is not None
    return int(owner.name not in _WIDEN) + sum(_operations(root, operand, right) for operand in owner.operands)


def shared_byte(root: Structured, value: ir.Value) -> int | None:
    """The number of the input whose bytes hold several elements, when ``value`` is the one of them that belongs to the
    place in the last loop of the result (a shift of the byte by a multiple of it, cut off); else None.
    """
    owner = defining(value)
    if owner is None or owner.name != "arith.trunci" or _name(owner.operands[0]) != "arith.shrui":
        return None
    byte, shift = _operands(owner.operands[0])
    arguments = list(root.body.arguments)
    number = arguments.index(byte) if byte in arguments else len(root.inputs)
    if number >= len(root.inputs) or not _is_place(root, shift, number, ir.IntegerType(value.type).width):
        return None
    return number if _is_signed(value) is not None else None


def is_signed(root: Structured, number: int) -> bool | None:
    """Whether the elements that share the bytes of an input are signed; None where they share none."""
    for op in root.body.operations:
        for result in op.operation.results:
            if shared_byte(root, result) == number:
                return _is_signed(result)
    return None


def _is_signed(element: ir.Value) -> bool | None:
    """What those who widen an element agree on; None when somebody does anything else with it."""
    kinds = {_WIDENED_AS_SIGNED.get(use.owner.operation.name) for use in element.uses}
    return kinds.pop() if len(kinds) == 1 else None


def _is_place(root: Structured, shift: ir.Value, number: int, bits: int) -> bool:
    """Whether ``shift`` is ``bits`` times the column's place among those that share a byte."""
    map_, shared = unshared(root.input_maps[number])
    packed = packed_axes(map_)
    if not packed or shared * bits != ir.IntegerType(shift.type).width or _name(shift) != "arith.index_cast":
        return False
    product = defining(_operands(shift)[0])
    if product is None or product.name != "arith.muli" or int_constant(product.operands[1]) != bits:
        return False
    rest = defining(product.operands[0])
    if rest is None or rest.name != "arith.remui" or int_constant(rest.operands[1]) != shared:
        return False
    loop = defining(rest.operands[0])
    if loop is None or loop.name != "linalg.index":
        return False
    return ir.IntegerAttr(loop.attributes["dim"]).value == packed[0][1]


def _name(value: ir.Value) -> str:
    owner = defining(value)
    return "" if owner is None else owner.name


def _operands(value: ir.Value) -> list[ir.Value]:
    owner = defining(value)
    return [] if owner is None else list(owner.operands)
