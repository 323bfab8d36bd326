"""The factors of a sum of products, computed from elements of its operands."""

from __future__ import annotations

from collections.abc import Mapping

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast, constant
from rillet.codegen.recognize.narrow_factors import NarrowFactor
from rillet.ir.rewrite import create_like, defining
from rillet.ir.shared_bytes import shared_byte
from rillet.ir.structured import Structured


def factor(
    kernel: KernelBuilder, root: Structured, value: ir.Value, operands: ir.Value | Mapping[int, ir.Value], lanes: int
) -> ir.Value:
    """Compute a factor of the product from elements of its operands (scalars, or ``vector<lanes>``) by operand number;
    from its only operand's when there is one. For operands that share bytes the elements are given, not the bytes."""
    arguments = list(root.body.arguments)
    number = arguments.index(value) if value in arguments else shared_byte(root, value)
    if number is not None:
        return operands[number] if isinstance(operands, Mapping) else operands
    owner = defining(value)
    if owner is None or owner.parent != root.op:
        return kernel.scalar(value)
    values = [factor(kernel, root, o, operands, lanes) for o in owner.operands]
    if len(values) == 1 and shared_byte(root, owner.operands[0]) is not None:
        return _from_32_bits(values[0], value.type)
    vectors = any(isinstance(o.type, ir.VectorType) for o in values)
    if vectors:
        values = [broadcast(o, lanes) for o in values]
    type_ = ir.VectorType.get([lanes], value.type) if vectors else value.type
    return create_like(owner, values, [type_]).results[0]


def _from_32_bits(value: ir.Value, element: ir.Type) -> ir.Value:
    """A number in ``vector<n x i32>``, as another type that holds it."""
    if isinstance(element, ir.FloatType):
        return convert("arith.sitofp", value, element)
    width = ir.IntegerType(element).width
    return value if width == 32 else convert("arith.extsi" if width > 32 else "arith.trunci", value, element)


def convert(name: str, value: ir.Value, element: ir.Type) -> ir.Value:
    """Apply the unary conversion op ``name`` to a scalar or vector."""
    is_vector = isinstance(value.type, ir.VectorType)
    type_ = ir.VectorType.get(ir.VectorType(value.type).shape, element) if is_vector else element
    return ir.Operation.create(name, results=[type_], operands=[value]).results[0]


def widen(factor: NarrowFactor, stored: ir.Value) -> ir.Value:
    """A narrow factor of 8-bit elements (``vector<n x i8>``, or a scalar), in 16 bits."""
    i16 = ir.IntegerType.get_signless(16)
    is_vector = isinstance(stored.type, ir.VectorType)
    type_ = ir.VectorType.get(ir.VectorType(stored.type).shape, i16) if is_vector else i16
    extend = arith.ExtSIOp if factor.signed else arith.ExtUIOp
    wide = extend(type_, stored).result
    return arith.SubIOp(wide, constant(factor.zero_point, type_)).result if factor.zero_point else wide
