"""Einsum: any equation, two operands at a time."""

from __future__ import annotations

import string

from rillet.frontends.building import element_types
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op


@op("Einsum", since=12)
def einsum(node: Node, *tensors: Tensor) -> Tensor:
    """Letters name dimensions, and an ellipsis the leading ones that broadcast. Without ``->`` the letters that occur
    once are kept, in alphabetical order.

    Raises InvalidNode for an equation that does not fit the operands.
    """
    b = node.b
    left, arrow, right = node.attr("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise InvalidNode(f"the equation has {len(terms)} operands, but the node {len(tensors)}")
    free = [c for c in string.ascii_letters if c not in left]
    widths = [t.rank - len(term.replace("...", "")) for term, t in zip(terms, tensors, strict=True)]
    longest = max((w for w, term in zip(widths, terms, strict=True) if "..." in term), default=0)
    dots = "".join(free[:longest])
    if not arrow:
        right = ("..." if dots else "") + "".join(sorted(c for c in set(left) if left.count(c) == 1 and c.isalpha()))
    output = right.replace("...", dots)
    operands: list[tuple[str, Tensor]] = []
    for term, width, tensor in zip(terms, widths, tensors, strict=True):
        if width < 0 or (width > 0 and "..." not in term):
            raise InvalidNode(f"operand '{term}' does not fit a tensor of rank {tensor.rank}")
        operands.append(_diagonal(node, term.replace("...", dots[longest - width :]), tensor))
    compute = element_types.compute_dtype(tensors[0].dtype)
    name, result = operands[0]
    for number, (other, tensor) in enumerate(operands[1:], 1):
        later = "".join(o for o, _ in operands[number + 1 :]) + output
        kept = "".join(dict.fromkeys(c for c in name + other if c in later))
        if number == len(operands) - 1:
            kept = output
        result = contract(b, [name, other], kept, [result, tensor], compute)
        name = kept
    if name != output:
        result = contract(b, [name], output, [result], compute)
    return b.cast(result, tensors[0].dtype)


def _diagonal(node: Node, term: str, tensor: Tensor) -> tuple[str, Tensor]:
    """A letter that occurs twice in an operand takes its diagonal."""
    distinct = "".join(dict.fromkeys(term))
    if distinct == term:
        return term, tensor
    b = node.b
    shape = [tensor.shape[term.index(c)] for c in distinct]
    for letter, extent in zip(term, tensor.shape, strict=True):
        b.agree(extent, tensor.shape[term.index(letter)], f"dimensions '{letter}' of one operand are {{0}} and {{1}}")
    source = b.value(tensor)
    picked = b.indexed(
        tensor.dtype, shape, lambda at: b.element(source, tensor.dtype, [at[distinct.index(c)] for c in term])
    )
    return distinct, picked
