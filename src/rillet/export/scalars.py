"""Host arithmetic (``arith``) as emitc operations. Integers are ``int64_t``, sign-extended, and wrap around."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.errors import CompileError
from rillet.export.emit import Emit
from rillet.ir import dtypes
from rillet.ir.rewrite import int_constant

_WRAPPING = {"arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul"}
_BITWISE = {"arith.andi": "bitwise_and", "arith.ori": "bitwise_or", "arith.xori": "bitwise_xor"}
_DIVIDING = {"arith.divsi": "div", "arith.remsi": "rem", "arith.divui": "div", "arith.remui": "rem"}
_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
# (predicate, whether the first operand is chosen when it holds)
_EXTREMA = {"arith.minsi": 2, "arith.maxsi": 4}
_C_TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t"}


def convert(emit: Emit, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The value of ``op``'s result. Raises ``CompileError`` naming an operation that has no form in C."""
    type_ = op.results[0].type
    if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr | ir.BoolAttr):
        value = int(op.attributes["value"].value)
        return emit.constant(abs(value) if _width(type_) == 1 else value, emit.type_of(type_))
    if op.name in _WRAPPING:
        a, b = (emit.cast(v, emit.u64) for v in operands)
        return _narrow(emit, emit.cast(emit.binary(_WRAPPING[op.name], a, b), emit.i64), type_)
    if op.name in _BITWISE:
        return emit.binary(_BITWISE[op.name], *operands)
    if op.name in _EXTREMA:
        return emit.select(emit.compare(_EXTREMA[op.name], *operands), *operands)
    if op.name in _DIVIDING and _is_safe_divisor(op.operands[1]) and _width(type_) == 64:
        kind = emit.u64 if op.name.endswith("ui") else emit.i64
        a, b = (emit.cast(v, kind) for v in operands)
        return emit.cast(emit.binary(_DIVIDING[op.name], a, b), emit.i64)
    if op.name == "arith.cmpi":
        return _compare(emit, op, operands)
    if op.name == "arith.select":
        return emit.select(*operands)
    if op.name in ("arith.index_cast", "arith.extsi", "arith.trunci") and _width(op.operands[0].type) > 1:
        return _narrow(emit, operands[0], type_)
    if op.name == "arith.extui" and _width(op.operands[0].type) == 1:
        return emit.cast(operands[0], emit.i64)
    raise CompileError(f"the host program computes '{op.name}', which has no form in C")


def load(emit: Emit, pointer: ir.Value, code: int, type_: ir.Type) -> ir.Value:
    """One element that the host reads from a buffer."""
    element = dtypes.by_code[code]
    if element.numpy.kind not in "iub":
        raise CompileError(f"the host program reads a {element.name}, which has no form in C")
    c_type = emit.opaque(_C_TYPES.get(element.name, f"{element.name}_t"))
    typed = emit.cast(pointer, ir.Type.parse(f"!emitc.ptr<{c_type}>"))
    return emit.cast(emit.load(typed, c_type), emit.type_of(type_))


def c_type(name: str) -> str:
    """The C type that holds an element of a numpy or ml_dtypes type; small floats are carried by integers."""
    if name in _C_TYPES:
        return _C_TYPES[name]
    element = dtypes.by_name[name]
    if element.numpy.kind in "iu" and element.bits >= 8 and element.numpy.isbuiltin == 1:
        return f"{name}_t"
    if element.numpy.kind == "c":
        return "float" if element.bits == 64 else "double"
    return f"uint{element.bits}_t"


def _compare(emit: Emit, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    predicate = str(arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)).split(".")[-1]
    if _width(op.operands[0].type) == 1 and predicate not in ("eq", "ne"):
        raise CompileError("the host program orders conditions, which has no form in C")
    if predicate.startswith("u"):
        operands = [emit.cast(v, emit.u64) for v in operands]
    return emit.compare(_PREDICATES[predicate if predicate in _PREDICATES else predicate[1:]], *operands)


def _narrow(emit: Emit, value: ir.Value, type_: ir.Type) -> ir.Value:
    width = _width(type_)
    if width == 64:
        return value
    if width not in (8, 16, 32):
        raise CompileError(f"the host program computes in i{width}, which has no form in C")
    return emit.cast(emit.cast(value, ir.IntegerType.get_signless(width)), emit.i64)


def _is_safe_divisor(value: ir.Value) -> bool:
    known = int_constant(value)
    return known is not None and known > 0


def _width(type_: ir.Type) -> int:
    return ir.IntegerType(type_).width if isinstance(type_, ir.IntegerType) else 64
