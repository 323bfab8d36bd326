"""Literals at the current insertion point."""

from __future__ import annotations

from torch_mlir import ir


class Builder:
    """Makes ``i64`` literals and copies constants into another function; sharing them is left to CSE."""

    def i64_attr(self, value: int) -> ir.IntegerAttr:
        """An ``i64`` attribute."""
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    def i64(self, value: int) -> ir.Value:
        """A constant of type ``i64``."""
        return self._constant(self.i64_attr(value))

    def copy_constant(self, value: ir.Value) -> ir.Value:
        """The constant ``value`` again, at the current insertion point."""
        return self._constant(value.owner.attributes["value"])

    def _constant(self, attribute: ir.Attribute) -> ir.Value:
        return ir.Operation.create("arith.constant", [attribute.type], attributes={"value": attribute}).results[0]
