"""Formulas as Python expressions: ``E`` wraps a float or integer SSA value (scalar or vector) with operators and
helpers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from torch_mlir import ir
from torch_mlir.dialects import arith, math, vector

from rillet.codegen.math.arithmetic import Arithmetic

Operand = Union["E", int, float]


@dataclass(frozen=True)
class E:
    """An expression over ``value``; constants take the type of the other operand. Comparisons are ordered (false on
    NaN)."""

    value: ir.Value
    arithmetic: Arithmetic

    # --- types
    # ---------------------------------------------------------------------------------------------------------

    @property
    def element(self) -> ir.Type:
        """The scalar type, or the element type of a vector."""
        type_ = self.value.type
        return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_

    @property
    def width(self) -> int:
        """Bits of one element."""
        return 64 if isinstance(self.element, ir.IndexType) else self.element.width

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return isinstance(self.element, ir.FloatType)

    def like(self, element: ir.Type) -> ir.Type:
        """This value's shape with another element type."""
        if isinstance(self.value.type, ir.VectorType):
            return ir.VectorType.get(ir.VectorType(self.value.type).shape, element)
        return element

    def constant(self, number: int | float) -> E:
        """A constant of this value's type."""
        element = self.element
        if isinstance(element, ir.FloatType):
            attribute: ir.Attribute = ir.FloatAttr.get(element, float(number))
        else:
            width = self.width
            bits = int(number) & ((1 << width) - 1)
            signed = bits - (1 << width) if width > 1 and bits >> (width - 1) else bits
            attribute = ir.IntegerAttr.get(element, signed)
        type_ = self.value.type
        if isinstance(type_, ir.VectorType):
            attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
        return self._new(arith.ConstantOp(type_, attribute).result)

    # --- arithmetic
    # ----------------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> E:
        return self._binary(other, arith.AddFOp, arith.AddIOp)

    def __radd__(self, other: Operand) -> E:
        return self._operand(other) + self

    def __sub__(self, other: Operand) -> E:
        return self._binary(other, arith.SubFOp, arith.SubIOp)

    def __rsub__(self, other: Operand) -> E:
        return self._operand(other) - self

    def __mul__(self, other: Operand) -> E:
        return self._binary(other, arith.MulFOp, arith.MulIOp)

    def __rmul__(self, other: Operand) -> E:
        return self._operand(other) * self

    def __truediv__(self, other: Operand) -> E:
        return self._new(arith.DivFOp(self.value, self._operand(other).value).result)

    def __rtruediv__(self, other: Operand) -> E:
        return self._operand(other) / self

    def __neg__(self) -> E:
        return self._new(arith.NegFOp(self.value).result)

    def __and__(self, other: Operand) -> E:
        return self._new(arith.AndIOp(self.value, self._operand(other).value).result)

    def __or__(self, other: Operand) -> E:
        return self._new(arith.OrIOp(self.value, self._operand(other).value).result)

    def __xor__(self, other: Operand) -> E:
        return self._new(arith.XOrIOp(self.value, self._operand(other).value).result)

    def __lshift__(self, bits: Operand) -> E:
        return self._new(arith.ShLIOp(self.value, self._operand(bits).value).result)

    def __rshift__(self, bits: Operand) -> E:
        """Arithmetic shift."""
        return self._new(arith.ShRSIOp(self.value, self._operand(bits).value).result)

    def logical_shift(self, bits: Operand) -> E:
        """Right shift that brings in zeros."""
        return self._new(arith.ShRUIOp(self.value, self._operand(bits).value).result)

    def fma(self, factor: Operand, addend: Operand) -> E:
        """``self * factor + addend``: one rounding where the target has FMA, two elsewhere."""
        factor, addend = self._operand(factor), self._operand(addend)
        if not self.arithmetic.fma:
            return self * factor + addend
        return self._new(math.FmaOp(self.value, factor.value, addend.value).result)

    def polynomial(self, coefficients: tuple[float, ...] | list[float]) -> E:
        """Horner's rule; coefficients from the highest power down."""
        result = self.constant(coefficients[0])
        for c in coefficients[1:]:
            result = result.fma(self, c)
        return result

    def paired_polynomial(self, coefficients: Sequence[float], square: E) -> E:
        """``polynomial`` in half as many dependent steps: pairs of terms, then Horner's rule on ``square``, the square
        of this value (the first levels of Estrin's scheme)."""
        pairs = [coefficients[max(0, n - 2) : n] for n in range(len(coefficients), 0, -2)][::-1]
        terms = [self.fma(c[0], c[1]) if len(c) == 2 else self.constant(c[0]) for c in pairs]
        result = terms[0]
        for term in terms[1:]:
            result = result.fma(square, term)
        return result

    # --- comparisons and selection
    # -----------------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> E:
        return self._compare("OLT", "slt", other)

    def __le__(self, other: Operand) -> E:
        return self._compare("OLE", "sle", other)

    def __gt__(self, other: Operand) -> E:
        return self._compare("OGT", "sgt", other)

    def __ge__(self, other: Operand) -> E:
        return self._compare("OGE", "sge", other)

    def equals(self, other: Operand) -> E:
        """``self == other``, i1 in each lane; false where either is NaN."""
        return self._compare("OEQ", "eq", other)

    def differs(self, other: Operand) -> E:
        """Not equal; true on NaN."""
        return self._compare("UNE", "ne", other)

    def is_nan(self) -> E:
        """Whether it is NaN, i1 in each lane."""
        return self.differs(self)

    def negate(self) -> E:
        """Logical not of an i1."""
        return self ^ 1

    def where(self, then: Operand, otherwise: Operand) -> E:
        """``then`` where this i1 holds, else ``otherwise``; at least one must be an expression."""
        pattern = then if isinstance(then, E) else otherwise
        assert isinstance(pattern, E)
        a, b = pattern._operand(then), pattern._operand(otherwise)
        return self._new(arith.SelectOp(self.value, a.value, b.value).result)

    def at_most(self, limit: Operand) -> E:
        """The smaller of the two; NaN stays NaN."""
        limit = self._operand(limit)
        return (limit < self).where(limit, self)

    def at_least(self, limit: Operand) -> E:
        """The larger of the two; NaN stays NaN."""
        limit = self._operand(limit)
        return (limit > self).where(limit, self)

    # --- bits and conversions
    # ----------------------------------------------------------------------------------------------

    def bits(self) -> E:
        """The float's bits as an integer."""
        return self._new(arith.BitcastOp(self.like(ir.IntegerType.get_signless(self.width)), self.value).result)

    def as_float(self, element: ir.Type) -> E:
        """The integer's bits as a float of the same width."""
        return self._new(arith.BitcastOp(self.like(element), self.value).result)

    def to_float(self, element: ir.Type) -> E:
        """Convert a signed integer."""
        return self._new(arith.SIToFPOp(self.like(element), self.value).result)

    def to_integer(self, width: int) -> E:
        """Convert to a signed integer, toward zero; the value must be in range."""
        return self._new(arith.FPToSIOp(self.like(ir.IntegerType.get_signless(width)), self.value).result)

    def extend(self, element: ir.Type) -> E:
        """To a wider float."""
        return self._new(arith.ExtFOp(self.like(element), self.value).result)

    def truncate(self, element: ir.Type) -> E:
        """To a narrower float, rounded to nearest even."""
        return self._new(arith.TruncFOp(self.like(element), self.value).result)

    def resize(self, width: int, signed: bool = False) -> E:
        """An integer of another width."""
        type_ = self.like(ir.IntegerType.get_signless(width))
        if width == self.width:
            return self
        if width < self.width:
            return self._new(arith.TruncIOp(type_, self.value).result)
        return self._new((arith.ExtSIOp if signed else arith.ExtUIOp)(type_, self.value).result)

    def abs(self) -> E:
        """The magnitude of floats."""
        return self._new(math.AbsFOp(self.value).result)

    def sqrt(self) -> E:
        """The square root of floats, correctly rounded."""
        return self._new(math.SqrtOp(self.value).result)

    def copysign(self, sign: E) -> E:
        """This magnitude with the sign of ``sign``."""
        return self._new(math.CopySignOp(self.value, sign.value).result)

    def any(self) -> ir.Value:
        """For an i1: true when any lane is."""
        if not isinstance(self.value.type, ir.VectorType):
            return self.value
        return vector.reduction(ir.IntegerType.get_signless(1), ir.Attribute.parse("#vector.kind<or>"), self.value)

    # --- internals
    # -----------------------------------------------------------------------------------------------------------

    def _new(self, value: ir.Value) -> E:
        return E(value, self.arithmetic)

    def _operand(self, other: Operand) -> E:
        return other if isinstance(other, E) else self.constant(other)

    def _binary(self, other: Operand, float_op: type, int_op: type) -> E:
        operation = float_op if self.is_float else int_op
        return self._new(operation(self.value, self._operand(other).value).result)

    def _compare(self, float_predicate: str, int_predicate: str, other: Operand) -> E:
        b = self._operand(other).value
        if self.is_float:
            return self._new(arith.CmpFOp(getattr(arith.CmpFPredicate, float_predicate), self.value, b).result)
        return self._new(arith.CmpIOp(getattr(arith.CmpIPredicate, int_predicate), self.value, b).result)


def only_user(op: ir.Operation, name: str) -> ir.Operation | None:
    """The op that alone uses an op's result, once, where it has this name."""
    uses = list(op.results[0].uses)
    if len(uses) != 1:
        return None
    user = uses[0].owner.operation
    return user if user.name == name else None
