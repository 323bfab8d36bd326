"""Facts about resources and their sizes that are known at compile time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.rewrite import defining, int_constant, is_defined_by

# Stands for an unknown extent when memory needs are compared; any plausible sequence length or batch will do.
_TYPICAL_EXTENT = 64


@dataclass(frozen=True)
class Monomial:
    """A size as ``factor`` times the product of unknown index values."""

    factor: int
    atoms: tuple[ir.Value, ...]

    @property
    def basis(self) -> frozenset[tuple[ir.Value, int]]:
        """The atoms with their powers: equal for equal products in any order."""
        return frozenset(Counter(self.atoms).items())


def monomial(size: ir.Value) -> Monomial:
    """Splits products into factors; any other unknown value is an atom."""
    constant = int_constant(size)
    if constant is not None:
        return Monomial(constant, ())
    owner = defining(size, "arith.muli")
    if owner is None:
        return Monomial(1, (size,))
    a, b = (monomial(v) for v in owner.operands)
    return Monomial(a.factor * b.factor, a.atoms + b.atoms)


def estimate(size: ir.Value) -> int:
    """A size in bytes for comparing schedules, unknown extents replaced by a typical one."""
    split = monomial(size)
    return split.factor * _TYPICAL_EXTENT ** len(split.atoms)


def root(resource: ir.Value) -> ir.Value:
    """The resource that a chain of subviews is a part of, looking through the transfers in it."""
    while is_defined_by(resource, "stream.subview", "stream.transfer"):
        resource = resource.owner.operands[0]
    return resource


def transfers(resource: ir.Value) -> Iterator[ir.Operation]:
    """The transfers on the way from a resource to its root."""
    while is_defined_by(resource, "stream.subview", "stream.transfer"):
        if resource.owner.name == "stream.transfer":
            yield resource.owner.operation
        resource = resource.owner.operands[0]


def is_transient(resource: ir.Value) -> bool:
    """Whether the resource is scratch memory of this call."""
    owner = defining(resource, "stream.alloc")
    if owner is None:
        return False
    return ir.StringAttr(owner.attributes["lifetime"]).value == "transient"
