"""Builds and reads host arithmetic at the current insertion point; it is folded as it is built."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.dialects import stream
from rillet.errors import CompileError
from rillet.ir import Program, dtypes
from rillet.ir.builders import i64_attr
from rillet.ir.rewrite import defining, int_constant

# Signless integer types stand for both signs: the host reads them sign-extended, bool and floats as themselves.
_CODES = {"i8": 3, "i16": 5, "i32": 6, "i64": 7, "i4": 22, "index": 7}


def simplify(program: Program) -> None:
    """Fold and share the host arithmetic of ``@main``."""
    PassManager.parse("func.func(canonicalize,cse)", program.context).run(program.main())


def index(value: int) -> ir.Value:
    """A constant of type ``index`` at the insertion point."""
    return _constant(ir.IntegerAttr.get(ir.IndexType.get(), value))


def i64(value: int) -> ir.Value:
    """A constant of type ``i64`` at the insertion point."""
    return _constant(i64_attr(value))


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    """``a + b`` of two index values."""
    x, y = int_constant(a), int_constant(b)
    if x is not None and y is not None:
        return index(x + y)
    if x == 0:
        return b
    return a if y == 0 else _binary("arith.addi", a, b)


def multiply(a: ir.Value, factor: int) -> ir.Value:
    """``a * factor`` of an index value."""
    x = int_constant(a)
    if x is not None:
        return index(x * factor)
    return a if factor == 1 else _binary("arith.muli", a, index(factor))


def round_up(a: ir.Value, multiple: int) -> ir.Value:
    """The least multiple of ``multiple`` that is not below the non-negative index value ``a``."""
    if multiple == 1:
        return a
    return multiply(_binary("arith.ceildivsi", a, index(multiple)), multiple)


def product(values: Sequence[ir.Value], factor: int) -> ir.Value:
    """The product of index values and a constant."""
    result: ir.Value | None = None
    for value in values:
        extent = int_constant(value)
        if extent is not None:
            factor *= extent
        else:
            result = value if result is None else _binary("arith.muli", result, value)
    return index(factor) if result is None else multiply(result, factor)


def byte_length(tensor: ir.RankedTensorType, dims: Sequence[ir.Value]) -> ir.Value:
    """The bytes of a tensor whose dynamic extents are ``dims``."""
    factor = dtypes.storage_bytes(tensor.element_type)
    for i in range(tensor.rank):
        factor *= 1 if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i)
    return product(dims, factor)


def element_code(element: ir.Type) -> int:
    """The element type code with which the host reads a signless MLIR element type."""
    text = str(element)
    if text in _CODES:
        return _CODES[text]
    return next(t.code for t in dtypes.by_code.values() if t.mlir == text)


def to_bits(value: ir.Value) -> ir.Value:
    """A scalar as the 64-bit slot in which kernels get it.

    Integers are sign-extended, ``i1`` zero-extended, floats their bits. Raises ``CompileError`` for other types.
    """
    text = str(value.type)
    i64_type = ir.IntegerType.get_signless(64)
    constant = defining(value, "arith.constant")
    if constant is not None:
        return i64(_constant_bits(constant.attributes["value"], text))
    if text == "i64":
        return value
    if text == "index":
        return _cast("arith.index_cast", value, i64_type)
    if text == "f64":
        return _cast("arith.bitcast", value, i64_type)
    if text == "f32":
        return _cast("arith.extui", _cast("arith.bitcast", value, ir.IntegerType.get_signless(32)), i64_type)
    if isinstance(value.type, ir.IntegerType):
        return _cast("arith.extui" if text == "i1" else "arith.extsi", value, i64_type)
    load = defining(value, "stream.load")
    if text in ("f16", "bf16") and load is not None:
        return _cast("arith.extui", _load_bits(load), i64_type)
    raise CompileError(f"internal: a host scalar of type {text} cannot be passed to a kernel")


def _load_bits(load: ir.Operation) -> ir.Value:
    """The bits of a 16-bit float that the host reads: read again as an integer."""
    with ir.InsertionPoint.after(load):
        integer = ir.IntegerType.get_signless(16)
        code = next(t.code for t in dtypes.by_code.values() if t.name == "uint16")
        return stream.LoadOp(integer, load.operands[0], load.operands[1], i64_attr(code)).operation.results[0]


def _constant_bits(attribute: ir.Attribute, type_: str) -> int:
    if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr):
        return int(attribute.value) & 1 if type_ == "i1" else int(attribute.value)
    element = next(t for t in dtypes.by_code.values() if t.mlir == type_).numpy
    raw = np.asarray(ir.FloatAttr(attribute).value).astype(element).tobytes()
    return int.from_bytes(raw.ljust(8, b"\0"), "little", signed=True)


def _constant(attribute: ir.Attribute) -> ir.Value:
    return ir.Operation.create("arith.constant", [attribute.type], attributes={"value": attribute}).results[0]


def _binary(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return ir.Operation.create(name, [a.type], [a, b]).results[0]


def _cast(name: str, value: ir.Value, to: ir.Type) -> ir.Value:
    return ir.Operation.create(name, [to], [value]).results[0]
