"""Host arithmetic (``arith``, ``math``) as vm operations; see ``convert_to_vm`` for how values are held."""

from __future__ import annotations

import struct
from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.dialects import hal, vm
from rillet.errors import CompileError

# Wrap-around results of these need a narrow integer's sign extension again.
_WRAPPING = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.shli": "shl",
    "arith.divsi": "div_s",
    "arith.ceildivsi": "ceildiv",
    "arith.floordivsi": "floordiv",
}
# Results of these are in range when the operands are.
_CLOSED = {
    "arith.remsi": "rem_s",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
    "arith.shrsi": "shr_s",
    "arith.minsi": "min_s",
    "arith.maxsi": "max_s",
}
_UNSIGNED = {"arith.divui": "div_u", "arith.remui": "rem_u", "arith.shrui": "shr_u"}
_FLOAT = {
    "arith.addf": "add_f64",
    "arith.subf": "sub_f64",
    "arith.mulf": "mul_f64",
    "arith.divf": "div_f64",
    "arith.minimumf": "min_f64",
    "arith.maximumf": "max_f64",
    "arith.negf": "neg_f64",
    "math.absf": "abs_f64",
    "math.ceil": "ceil_f64",
    "math.floor": "floor_f64",
    "math.sqrt": "sqrt_f64",
    "math.trunc": "trunc_f64",
}
# Signed and unsigned order of sign-extended values is that of the narrow ones. (name, operands swapped)
_COMPARE = {
    "eq": ("cmp_eq", False),
    "ne": ("cmp_ne", False),
    "slt": ("cmp_lt_s", False),
    "sle": ("cmp_le_s", False),
    "sgt": ("cmp_lt_s", True),
    "sge": ("cmp_le_s", True),
    "ult": ("cmp_lt_u", False),
    "ule": ("cmp_le_u", False),
    "ugt": ("cmp_lt_u", True),
    "uge": ("cmp_le_u", True),
}
# An ordered comparison is its own instruction; an unordered one the negation of the opposite ordered one.
_COMPARE_FLOAT = {
    "oeq": ("cmp_eq_f64", False, False),
    "olt": ("cmp_lt_f64", False, False),
    "ole": ("cmp_le_f64", False, False),
    "ogt": ("cmp_lt_f64", True, False),
    "oge": ("cmp_le_f64", True, False),
    "une": ("cmp_eq_f64", False, True),
    "uge": ("cmp_lt_f64", False, True),
    "ugt": ("cmp_le_f64", False, True),
    "ule": ("cmp_lt_f64", True, True),
    "ult": ("cmp_le_f64", True, True),
}


def is_reference(type_: ir.Type) -> bool:
    """Whether values of the type are objects."""
    return isinstance(type_, hal.BufferType | hal.ViewType | hal.CommandsType | hal.FenceType)


class Scalars:
    """Converts one scalar operation at the current insertion point."""

    def __init__(self) -> None:
        self.special: dict[str, Callable[[ir.Operation, list[ir.Value]], ir.Value]] = {
            "arith.constant": self._constant,
            "arith.cmpi": self._compare,
            "arith.cmpf": self._compare_float,
            "arith.select": lambda op, v: vm.SelectOp(*v).operation.results[0],
            "arith.index_cast": self._signed_cast,
            "arith.extsi": self._signed_cast,
            "arith.trunci": self._signed_cast,
            "arith.extui": lambda op, v: _zero_extend(v[0], op.operands[0].type),
            "arith.index_castui": lambda op, v: _wrap(_zero_extend(v[0], op.operands[0].type), op.results[0].type),
            "arith.minui": self._unsigned_extremum,
            "arith.maxui": self._unsigned_extremum,
            "arith.ceildivui": self._ceildiv_unsigned,
            "arith.sitofp": lambda op, v: _round(_unary("f64_from_i64", v[0]), op.results[0].type),
            "arith.uitofp": self._unsigned_to_float,
            "arith.fptosi": lambda op, v: _wrap(_unary("f64_to_i64", v[0]), op.results[0].type),
            "arith.extf": lambda op, v: v[0],
            "arith.truncf": lambda op, v: _round(v[0], op.results[0].type),
            "arith.bitcast": self._bitcast,
        }

    def convert(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        """The value of ``op``'s single result."""
        type_ = op.results[0].type
        if op.name in self.special:
            return self.special[op.name](op, operands)
        if op.name in _WRAPPING:
            return _wrap(_binary(_WRAPPING[op.name], *operands), type_)
        if op.name in _CLOSED:
            return _binary(_CLOSED[op.name], *operands)
        if op.name in _UNSIGNED:
            wide = [_zero_extend(v, type_) for v in operands]
            return _wrap(_binary(_UNSIGNED[op.name], *wide), type_)
        if op.name in _FLOAT:
            make = _unary if len(operands) == 1 else _binary
            return _round(make(_FLOAT[op.name], *operands), type_)
        raise CompileError(f"internal: '{op.name}' has no bytecode for the host program")

    def _constant(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.FloatAttr):
            return constant(struct.unpack("<q", struct.pack("<d", attribute.value))[0])
        value = int(attribute.value)
        return constant(value & 1 if _width(op.results[0].type) == 1 else value)

    def _compare(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        predicate = str(arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)).split(".")[-1]
        if _width(op.operands[0].type) == 1 and predicate[0] == "s":
            operands = [_binary("sub", constant(0), v) for v in operands]  # true is -1 to a signed comparison
        name, swapped = _COMPARE[predicate]
        return _binary(name, *(reversed(operands) if swapped else operands))

    def _compare_float(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        predicate = str(arith.CmpFPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)).split(".")[-1].lower()
        a, b = operands
        if predicate in ("ord", "uno"):
            both = _binary("and", _binary("cmp_eq_f64", a, a), _binary("cmp_eq_f64", b, b))
            return both if predicate == "ord" else _not(both)
        if predicate in ("one", "ueq"):
            apart = _binary("or", _binary("cmp_lt_f64", a, b), _binary("cmp_lt_f64", b, a))
            return apart if predicate == "one" else _not(apart)
        if predicate not in _COMPARE_FLOAT:
            raise CompileError(f"internal: a constant comparison '{predicate}' was not folded")
        name, swapped, negated = _COMPARE_FLOAT[predicate]
        result = _binary(name, *((b, a) if swapped else (a, b)))
        return _not(result) if negated else result

    def _signed_cast(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        source, target = op.operands[0].type, op.results[0].type
        value = operands[0]
        if _width(source) == 1:
            value = _binary("sub", constant(0), value)
        return value if _width(target) >= _width(source) > 1 else _wrap(value, target)

    def _unsigned_extremum(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        a, b = operands
        less = _binary("cmp_lt_u", a, b)
        return vm.SelectOp(less, *((a, b) if op.name == "arith.minui" else (b, a))).operation.results[0]

    def _ceildiv_unsigned(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        type_ = op.results[0].type
        a, b = (_zero_extend(v, type_) for v in operands)
        rest = _binary("cmp_ne", _binary("rem_u", a, b), constant(0))
        return _wrap(_binary("add", _binary("div_u", a, b), rest), type_)

    def _unsigned_to_float(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        source = op.operands[0].type
        if _width(source) == 64:
            raise CompileError("internal: uint64 to float has no bytecode for the host program")
        return _round(_unary("f64_from_i64", _zero_extend(operands[0], source)), op.results[0].type)

    def _bitcast(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        source, target = str(op.operands[0].type), str(op.results[0].type)
        if (source, target) == ("f32", "i32"):
            return _unary("ext_s32", _unary("f64_to_f32", operands[0]))
        if (source, target) == ("i32", "f32"):
            return _unary("f64_from_f32", operands[0])
        if {source, target} <= {"i64", "f64"}:
            return operands[0]
        raise CompileError(f"internal: a bitcast from {source} to {target} has no bytecode for the host program")


def constant(value: int) -> ir.Value:
    """A constant of type ``i64`` at the insertion point."""
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return vm.ConstOp(attribute.type, attribute).operation.results[0]


def _binary(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return ir.Operation.create(f"vm.{name}", [a.type], [a, b]).results[0]


def _unary(name: str, a: ir.Value) -> ir.Value:
    return ir.Operation.create(f"vm.{name}", [a.type], [a]).results[0]


def _not(value: ir.Value) -> ir.Value:
    return _binary("xor", value, constant(1))


def _width(type_: ir.Type) -> int:
    return ir.IntegerType(type_).width if isinstance(type_, ir.IntegerType) else 64


def _wrap(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The low bits as a value of ``type_``."""
    width = _width(type_)
    if width == 64:
        return value
    if width == 1:
        return _binary("and", value, constant(1))
    return _unary(f"ext_s{_supported(width)}", value)


def _zero_extend(value: ir.Value, type_: ir.Type) -> ir.Value:
    width = _width(type_)
    return value if width in (1, 64) else _unary(f"ext_u{_supported(width)}", value)


def _round(value: ir.Value, type_: ir.Type) -> ir.Value:
    if isinstance(type_, ir.F64Type):
        return value
    if isinstance(type_, ir.F32Type):
        return _unary("f64_from_f32", _unary("f64_to_f32", value))
    raise CompileError(f"internal: {type_} arithmetic has no bytecode for the host program")


def _supported(width: int) -> int:
    if width in (8, 16, 32):
        return width
    raise CompileError(f"internal: i{width} arithmetic has no bytecode for the host program")
