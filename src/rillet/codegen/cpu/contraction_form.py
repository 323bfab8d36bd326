"""Recognizing a contraction: a sum of products whose loops fall into batch, row, column and reduction loops.

Matrix products, batched or not, pointwise convolutions, and convolutions of any rank, stride, dilation and grouping all
have this form; what they are called does not matter. The *left* operand is read one element at a time and broadcast,
the *right* operand is read as vectors along the column loop, which is the last axis of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu.access import Access, argument_of, padded_access_of
from rillet.codegen.cpu.body import broadcast
from rillet.codegen.cpu.dispatch import Dispatch, Generic
from rillet.codegen.cpu.kernel import Kernel

_ADD = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_WIDEN = frozenset({"arith.extf", "arith.extsi", "arith.extui"})
_NARROW = frozenset({"arith.truncf", "arith.trunci"})


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

    root: Generic
    left: int  # operand numbers
    right: int
    product: Product
    column_loop: int
    batch_loops: tuple[int, ...]
    row_loops: tuple[int, ...]
    reduction_loops: tuple[int, ...]
    left_access: Access
    right_access: Access

    @property
    def extents(self) -> tuple[int, ...]:
        return self.root.loop_extents


def recognize(dispatch: Dispatch) -> Contraction | None:
    """The contraction in ``dispatch``, or None when its only reduction is not one or reads operands that need
    computing.
    """
    if len(dispatch.reductions) != 1:
        return None
    root = dispatch.reductions[0]
    if len(root.inputs) != 2 or len(root.inits) != 1:
        return None
    axes = [e.position for e in root.output_maps[0].results if isinstance(e, ir.AffineDimExpr)]
    if not axes or sorted(axes) != list(root.parallel_loops):
        return None
    factors = product_of(root)
    if factors is None:
        return None
    count = len(root.iterators)
    accesses = [padded_access_of(dispatch, v, m, count) for v, m in zip(root.inputs, root.input_maps, strict=True)]
    if any(a is None or argument_of(dispatch, a.value) is None for a in accesses):
        return None
    return _classify(root, factors, [a for a in accesses if a is not None], axes)


def _classify(
    root: Generic, factors: tuple[list[ir.Value], Product], accesses: list[Access], axes: list[int]
) -> Contraction | None:
    column = axes[-1]
    right = next((n for n in (0, 1) if accesses[n].uses(column) and not accesses[1 - n].uses(column)), None)
    if right is None:
        return None
    left = 1 - right
    if accesses[left].panel or accesses[right].padding is not None:
        return None
    extents = root.loop_extents
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
    by_operand, product = factors
    oriented = Product(by_operand[left], by_operand[right], product.accumulator_type, product.narrow, product.widen)
    return Contraction(
        root, left, right, oriented, column, batch, rows, tuple(reductions), accesses[left], accesses[right]
    )


def _has_whole_runs(left: Access, reductions: Sequence[int]) -> bool:
    """Whether the innermost reduction loop reads neighbours in memory and stays outside or inside of the padding."""
    return bool(reductions) and not left.checks(reductions[-1]) and left.static_stride(reductions[-1]) == 1


def product_of(root: Generic) -> tuple[list[ir.Value], Product] | None:
    """The two factors by operand number, and the rest of the body's description (its own order is by operand number
    too); None when the body is no sum of products of one input each.
    """
    *_, terminator = root.body.operations
    result = terminator.operation.operands[0]
    narrow = None
    if _name(result) in _NARROW:
        narrow, result = _name(result), _operands(result)[0]
    if _name(result) not in _ADD:
        return None
    accumulator = root.body.arguments[2]
    terms = list(_operands(result))
    for total, term in (terms, terms[::-1]):
        widen = None
        if _name(total) in _WIDEN:
            widen, total = _name(total), _operands(total)[0]
        if total == accumulator and _name(term) == _ADD[_name(result)] and (narrow is None) == (widen is None):
            factors = _factors(root, list(_operands(term)))
            if factors is None:
                return None
            return factors, Product(factors[0], factors[1], result.type, narrow, widen)
    return None


def _factors(root: Generic, factors: list[ir.Value]) -> list[ir.Value] | None:
    first, second = (_inputs_of(root, f) for f in factors)
    if first == {0} and second == {1}:
        return factors
    return factors[::-1] if first == {1} and second == {0} else None


def _inputs_of(root: Generic, value: ir.Value) -> set[int]:
    """The numbers of the body arguments ``value`` is computed from; -1 for anything that cannot be computed in
    isolation.
    """
    if value in list(root.body.arguments):
        return {list(root.body.arguments).index(value)}
    owner = _owner(value)
    if owner is None or owner.parent is None or owner.parent != root.op:
        return set()  # a scalar of the function
    if len(owner.regions) or owner.name in ("linalg.index", "tensor.extract"):
        return {-1}
    return set().union(*(_inputs_of(root, o) for o in owner.operands))


def factor(kernel: Kernel, root: Generic, value: ir.Value, operand: ir.Value, lanes: int) -> ir.Value:
    """Compute a factor of the product from its operand's element (a scalar, or ``vector<lanes>``)."""
    if value in list(root.body.arguments):
        return operand
    owner = _owner(value)
    if owner is None or owner.parent != root.op:
        return kernel.scalar(value)
    operands = [factor(kernel, root, o, operand, lanes) for o in owner.operands]
    vectors = any(isinstance(o.type, ir.VectorType) for o in operands)
    if vectors:
        operands = [broadcast(o, lanes) for o in operands]
    type_ = ir.VectorType.get([lanes], value.type) if vectors else value.type
    attributes = dict(owner.attributes.items())
    return ir.Operation.create(
        owner.name, results=[type_], operands=operands, attributes=attributes, loc=owner.location
    ).results[0]


def convert(name: str, value: ir.Value, element: ir.Type) -> ir.Value:
    """Apply the unary conversion op ``name`` to a scalar or vector."""
    is_vector = isinstance(value.type, ir.VectorType)
    type_ = ir.VectorType.get(ir.VectorType(value.type).shape, element) if is_vector else element
    return ir.Operation.create(name, results=[type_], operands=[value]).results[0]


def _owner(value: ir.Value) -> ir.Operation | None:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    return owner.operation if isinstance(owner, ir.OpView) else owner


def _name(value: ir.Value) -> str:
    owner = _owner(value)
    return "" if owner is None else owner.name


def _operands(value: ir.Value) -> list[ir.Value]:
    owner = _owner(value)
    return [] if owner is None else list(owner.operands)
