"""The vm dialect: one operation for each instruction of the bytecode (docs/reference/bytecode.md).

Integers of every width, booleans and the bits of f64 are ``i64``; every object is a ``!vm.ref``. Branches are
upstream's ``cf.br`` and ``cf.cond_br``, functions ``func.func`` with ``func.return``.

Annotations are evaluated by the dialect machinery, so this file has no ``from __future__ import annotations``.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Result

I64 = ir.IntegerType[64]
Bool = ir.IntegerType[1]

# The opcodes of docs/reference/bytecode.md, by operation name. Control flow has no operation here.
TRAP, CONST, MOV, MOV_REF, NULL_REF, BRANCH, BRANCH_IF, CALL, RETURN = range(9)
GLOBAL_LOAD, GLOBAL_STORE, GLOBAL_LOAD_REF, GLOBAL_STORE_REF, CMP_NULL = range(9, 14)
_INTEGER = "add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u min_s max_s floordiv ceildiv"
_COMPARE = "cmp_eq cmp_ne cmp_lt_s cmp_le_s cmp_lt_u cmp_le_u"
_EXTEND = "ext_s8 ext_s16 ext_s32 ext_u8 ext_u16 ext_u32"
_FLOAT = "add_f64 sub_f64 mul_f64 div_f64 min_f64 max_f64"
_FLOAT_COMPARE = "cmp_eq_f64 cmp_lt_f64 cmp_le_f64"
_FLOAT_UNARY = "neg_f64 abs_f64 ceil_f64 floor_f64 sqrt_f64 trunc_f64 f64_from_i64 f64_to_i64 f64_from_f32 f64_to_f32"
SELECT, SELECT_REF = 50, 51


def _number(names: str, first: int) -> dict[str, int]:
    return {name: first + i for i, name in enumerate(names.split())}


BINARY = {
    **_number(_INTEGER, 16),
    **_number(_COMPARE, 40),
    **_number(_FLOAT, 60),
    **_number(_FLOAT_COMPARE, 70),
}
UNARY = {**_number(_EXTEND, 52), **_number(_FLOAT_UNARY, 80)}


class Vm(ext.Dialect, name="vm"):
    """A register machine's instructions in SSA form."""


class RefType(Vm.Type, name="ref"):
    """A reference-counted object, or null."""


class ConstOp(Vm.Operation, name="const", traits=[ext.Pure]):
    """A 64-bit literal."""

    out: Result[I64]
    value: Any


class CallOp(Vm.Operation, name="call"):
    """Calls the import ``callee``, a name such as ``hal.execute``.

    Integers and references are separate groups, each in the order of the signature.
    """

    ints: Sequence[Result[I64]]
    refs: Sequence[Result[RefType]]
    int_arguments: Sequence[Operand[I64]]
    ref_arguments: Sequence[Operand[RefType]]
    callee: Any


class TestOp(Vm.Operation, name="test", traits=[ext.Pure]):
    """The condition of a branch: non-zero. Takes no instruction."""

    value: Operand[I64]
    out: Result[Bool] = ext.infer_result()


class SelectOp(Vm.Operation, name="select", traits=[ext.Pure]):
    """``a`` when ``condition`` is not zero, else ``b``: integers."""

    condition: Operand[I64]
    a: Operand[I64]
    b: Operand[I64]
    out: Result[I64] = ext.infer_result()


class SelectRefOp(Vm.Operation, name="select_ref", traits=[ext.Pure]):
    """``a`` when ``condition`` is not zero, else ``b``: references."""

    condition: Operand[I64]
    a: Operand[RefType]
    b: Operand[RefType]
    out: Result[RefType]


class GlobalLoadRefOp(Vm.Operation, name="global_load_ref", traits=[ext.Pure]):
    """Reads the reference in module global ``ordinal``."""

    out: Result[RefType]
    ordinal: Any


class GlobalStoreRefOp(Vm.Operation, name="global_store_ref"):
    """Writes the reference in a module global; in the initializer only."""

    value: Operand[RefType]
    ordinal: Any


class _Binary(Vm.Operation):
    lhs: Operand[I64]
    rhs: Operand[I64]
    out: Result[I64] = ext.infer_result()


class _Unary(Vm.Operation):
    value: Operand[I64]
    out: Result[I64] = ext.infer_result()


def _define(base: type, name: str) -> None:
    """Declare the instruction ``vm.<name>``. Division traps, but may be dropped or moved where it ran before."""
    speculatable = not name.startswith(("div", "rem", "floordiv", "ceildiv"))
    traits = [ext.Pure] if speculatable else []

    class Instruction(base, name=name, traits=traits):  # type: ignore[misc, call-arg]
        pass

    Instruction.__name__ = "".join(part.capitalize() for part in name.split("_")) + "Op"


for _name in BINARY:
    _define(_Binary, _name)
for _name in UNARY:
    _define(_Unary, _name)


def load() -> None:
    """Load the dialect into the current context."""
    Vm.load()
