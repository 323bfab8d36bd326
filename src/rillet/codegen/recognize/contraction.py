"""Recognizing a contraction whose operands lie in memory such that loops walk them by constant strides.

Matrix products, batched or not, pointwise convolutions, and convolutions of any rank, stride, dilation and grouping all
have this form; their names do not matter. The *lhs* is read one element at a time and broadcast. The *rhs* is read as
vectors along the n loop, which is the last axis of the result. The rhs factor may be computed from several operands.
The others are its *companions* (the scales of blocks of weights): their elements stay the same for all steps of the
innermost k loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import Access, argument_of, padded_access_of
from rillet.ir.contraction import Contraction, Product, inputs_of, separate_product
from rillet.ir.rewrite import defining
from rillet.ir.shared_bytes import shared_byte
from rillet.ir.structured import Structured

_WIDEN = ("arith.extf", "arith.extsi", "arith.extui")


@dataclass(frozen=True)
class LinearContraction:
    """A contraction as code walks it.

    ``roles`` sorts the root's loops. ``n`` is one loop, the last axis of the result. ``batch`` has the other loops of
    the rhs and the result. ``m`` has all other loops of the result, an image's included. ``k`` has the reductions, a
    window's included, by descending strides of the rhs where these are known. Loops of extent 1, other than ``n``, have
    no role.
    """

    root: Structured
    roles: Contraction
    product: Product
    lhs: Access
    rhs: Access
    companions: tuple[tuple[int, Access], ...] = ()  # operand numbers and accesses

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the root's loops."""
        return self.root.extents

    def over(self, *, batch: tuple[int, ...], m: tuple[int, ...]) -> LinearContraction:
        """The same with other loops for these roles."""
        return dataclasses.replace(self, roles=dataclasses.replace(self.roles, batch=batch, m=m))

    @property
    def n(self) -> int:
        """The n loop."""
        (loop,) = self.roles.n
        return loop


def recognize(function: KernelFunction) -> LinearContraction | None:
    """The contraction in a kernel. None when its only reduction is no contraction, or reads operands that must be
    computed."""
    if len(function.reductions) != 1:
        return None
    root = function.reductions[0]
    if len(root.inputs) < 2 or len(root.inits) != 1:
        return None
    axes = [e for e in root.init_maps[0] if isinstance(e, int)]
    if not axes or sorted(axes) != list(root.parallel_loops):
        return None
    product = separate_product(root)
    if product is None:
        return None
    reads = zip(root.inputs, root.input_maps, strict=True)
    accesses = [padded_access_of(function, value, map_, root.loops) for value, map_ in reads]
    known = [a for a in accesses if a is not None and argument_of(function, a.value) is not None]
    return _classify(root, product, known, axes) if len(known) == len(accesses) else None


def _classify(root: Structured, product: Product, accesses: list[Access], axes: list[int]) -> LinearContraction | None:
    *outer, n = axes
    across = [any(accesses[i].uses(n) for i in factor.inputs) for factor in product.factors]
    if across not in ([True, False], [False, True]):
        return None
    product = product if across[1] else product.turned()
    if len(product.lhs.inputs) != 1:
        return None
    (of_lhs,) = product.lhs.inputs
    of_rhs = max(product.rhs.inputs, key=lambda i: sum(accesses[i].uses(loop) for loop in range(root.loops)))
    lhs, rhs = accesses[of_lhs], accesses[of_rhs]
    if lhs.panel or any(accesses[i].padding is not None for i in product.rhs.inputs):
        return None
    parallel = [loop for loop in outer if root.extents[loop] != 1]
    batch = tuple(loop for loop in parallel if rhs.uses(loop))
    m = tuple(loop for loop in parallel if loop not in batch)
    k = [loop for loop in root.reduction_loops if root.extents[loop] != 1]
    if any(not lhs.uses(loop) and not rhs.uses(loop) for loop in k):
        return None
    strides = {loop: rhs.static_stride(loop) for loop in k}
    if all(s is not None for s in strides.values()):
        k.sort(key=lambda loop: -(strides[loop] or 0))
    if lhs.padding is not None and not _has_whole_runs(lhs, k):
        return None
    companions = tuple((i, accesses[i]) for i in sorted(product.rhs.inputs) if i != of_rhs)
    if not all(_stays(access, rhs, k, range(root.loops)) for _, access in companions):
        return None
    roles = Contraction(of_lhs, of_rhs, batch, m, (n,), tuple(k))
    return LinearContraction(root, roles, product, lhs, rhs, companions)


def _stays(companion: Access, rhs: Access, k: Sequence[int], loops: Iterable[int]) -> bool:
    """Whether a companion holds one vector for each vector of the rhs, the same along the innermost k loop."""
    if k and companion.uses(k[-1]):
        return False
    return companion.panel == rhs.panel > 0 and all(rhs.uses(n) or not companion.uses(n) for n in loops)


def _has_whole_runs(lhs: Access, k: Sequence[int]) -> bool:
    """Whether the innermost k loop reads neighbours in memory and lies wholly inside or wholly outside the padding."""
    return bool(k) and not lhs.checks(k[-1]) and lhs.static_stride(k[-1]) == 1


def operations(contraction: LinearContraction) -> int:
    """Instructions that make an rhs factor from loaded elements: a widening load takes one, and elements that share
    bytes take two shifts."""
    return _operations(contraction.root, contraction.product.rhs.value, contraction.roles.rhs)


def apart(contraction: LinearContraction) -> tuple[ir.Value, ir.Value | None]:
    """The factor of the rhs, or the two values whose product it is. The second is computed from the rhs and one
    companion alone, and stays the same along the innermost k loop."""
    value, root = contraction.product.rhs.value, contraction.root
    product = defining(value, "arith.mulf")
    if not contraction.companions or product is None:
        return value, None
    a, b = product.operands
    for varying, fixed in ((a, b), (b, a)):
        if contraction.roles.rhs not in inputs_of(root, fixed):
            return varying, fixed
    return value, None


def _operations(root: Structured, value: ir.Value, rhs: int) -> int:
    if rhs not in inputs_of(root, value) or root.input_number(value) is not None:
        return 0
    if shared_byte(root, value) is not None:
        return 2
    owner = defining(value)
    assert owner is not None
    return int(owner.name not in _WIDEN) + sum(_operations(root, operand, rhs) for operand in owner.operands)
