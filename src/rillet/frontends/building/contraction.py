"""Sums of products over named dimensions: one structured op for each."""

from __future__ import annotations

from collections.abc import Sequence

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.ir import builders
from rillet.ir.builders import Extent


def contract(b: Builder, terms: Sequence[str], output: str, tensors: Sequence[Tensor], dtype: str) -> Tensor:
    """The einsum ``terms -> output`` of tensors of distinct letters each, accumulated in ``dtype``.

    A dimension of extent 1 broadcasts. Letters that are not in ``output`` are summed over. Raises InvalidNode for a
    letter of the output that no operand has.
    """
    sizes: dict[str, Extent] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, extent in zip(term, tensor.shape, strict=True):
            known = sizes.get(letter, 1)
            sizes[letter] = b.broadcast_extent(known, extent)
    missing = [letter for letter in output if letter not in sizes]
    if missing:
        raise InvalidNode(f"the output dimension '{missing[0]}' is in no operand")
    summed = [letter for letter in sizes if letter not in output]
    order = [*output, *summed]
    loops = dict(zip(order, builders.dims(len(order)), strict=True))
    operands = []
    for term, tensor in zip(terms, tensors, strict=True):
        whole = [sizes[letter] for letter in term]
        if any(d != 1 and not b.extents.same_if_valid(d, size) for d, size in zip(tensor.shape, whole, strict=True)):
            tensor = b.broadcast_exactly(tensor, whole)  # an extent that may be 1 at run time
        kept = [a for a, letter in enumerate(term) if not (tensor.shape[a] == 1 and sizes[letter] != 1)]
        operand = tensor if len(kept) == tensor.rank else b.drop_unit_dims(tensor, kept)
        operands.append((operand, [loops[term[a]] for a in kept]))

    def body(*values: Scalar) -> Scalar:
        *factors, accumulator = values
        product = convert(factors[0], dtype)
        for factor in factors[1:]:
            product = product * convert(factor, dtype)
        return accumulator + product

    shape = [sizes[letter] for letter in output]
    iterators = "p" * len(output) + "r" * len(summed)
    if not summed:
        destination = b.empty(dtype, shape)
        return b.generic(
            operands, [(destination, list(loops.values()), dtype, shape)], iterators, lambda *v: _product(v[:-1], dtype)
        )[0]
    result = (b.init(0, dtype, shape), [loops[letter] for letter in output], dtype, shape)
    return b.generic(operands, [result], iterators, body)[0]


def _product(values: Sequence[Scalar], dtype: str) -> Scalar:
    result = convert(values[0], dtype)
    for value in values[1:]:
        result = result * convert(value, dtype)
    return result
