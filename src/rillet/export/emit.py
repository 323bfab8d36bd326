"""Builds the few ``emitc`` operations that a host program needs, at the current insertion point.

Host integers of every width are ``int64_t`` and sign-extended, as in the VM; conditions are ``bool``.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import cf

_INT32 = range(-(1 << 31), 1 << 31)


class Emit:
    """Needs a current context and location."""

    def __init__(self) -> None:
        self.i1 = ir.IntegerType.get_signless(1)
        self.i32 = ir.IntegerType.get_signless(32)
        self.i64 = ir.IntegerType.get_signless(64)
        self.u64 = ir.IntegerType.get_unsigned(64)
        self.pointer = ir.Type.parse('!emitc.ptr<!emitc.opaque<"uint8_t">>')
        self.void_pointer = ir.Type.parse('!emitc.ptr<!emitc.opaque<"void">>')
        self.input_pointer = ir.Type.parse('!emitc.ptr<!emitc.opaque<"const void">>')

    def opaque(self, name: str) -> ir.Type:
        """A C type by its name."""
        return ir.Type.parse(f'!emitc.opaque<"{name}">')

    def type_of(self, host: ir.Type) -> ir.Type:
        """The C type of a host value."""
        if str(host).startswith("!hal.buffer"):
            return self.pointer
        if isinstance(host, ir.IntegerType) and host.width == 1:
            return self.i1
        return self.i64

    def function(self, name: str, arguments: Sequence[ir.Type]) -> ir.Operation:
        """A function that returns ``int``; its region is empty."""
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(arguments), [self.i32])),
        }
        return ir.Operation.create("emitc.func", attributes=attributes, regions=1)

    def literal(self, text: str, type_: ir.Type) -> ir.Value:
        """A C expression."""
        return _create("emitc.literal", [type_], [], value=ir.StringAttr.get(text))

    def constant(self, value: int, type_: ir.Type | None = None) -> ir.Value:
        """An integer."""
        type_ = type_ or self.i64
        return _create("emitc.constant", [type_], [], value=ir.IntegerAttr.get(type_, value))

    def cast(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        """The value as another C type."""
        return value if value.type == type_ else _create("emitc.cast", [type_], [value])

    def offset(self, pointer: ir.Value, distance: int | ir.Value) -> ir.Value:
        """``pointer + distance`` bytes."""
        if isinstance(distance, int):
            if distance == 0:
                return pointer
            distance = self.constant(distance)
        return self.binary("add", pointer, distance, pointer.type)

    def binary(self, name: str, a: ir.Value, b: ir.Value, type_: ir.Type | None = None) -> ir.Value:
        """The ``emitc`` op ``name`` on two operands; the result has ``a``'s type unless ``type_`` says otherwise."""
        return _create(f"emitc.{name}", [type_ or a.type], [a, b])

    def compare(self, predicate: int, a: ir.Value, b: ir.Value) -> ir.Value:
        """``predicate``: emitc's eq 0, ne 1, lt 2, le 3, gt 4, ge 5."""
        return _create("emitc.cmp", [self.i1], [a, b], predicate=ir.IntegerAttr.get(self.i64, predicate))

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """``condition ? a : b``."""
        return _create("emitc.conditional", [a.type], [condition, a, b])

    def array(self, count: int, element: ir.Type) -> ir.Value:
        """A local array."""
        type_ = ir.Type.parse(f"!emitc.array<{count}x{element}>")
        return _create("emitc.variable", [type_], [], value=ir.Attribute.parse('#emitc.opaque<"">'))

    def store(self, array: ir.Value, number: int, value: ir.Value) -> None:
        """``array[number] = value``"""
        element = ir.Type.parse(str(array.type).split("x", 1)[1].removesuffix(">"))
        index = self.constant(number, ir.IndexType.get())
        place = _create("emitc.subscript", [ir.Type.parse(f"!emitc.lvalue<{element}>")], [array, index])
        ir.Operation.create("emitc.assign", operands=[place, self.cast(value, element)])

    def load(self, pointer: ir.Value, element: ir.Type) -> ir.Value:
        """``*pointer``"""
        zero = self.constant(0, ir.IndexType.get())
        place = _create("emitc.subscript", [ir.Type.parse(f"!emitc.lvalue<{element}>")], [pointer, zero])
        return _create("emitc.load", [element], [place])

    def call(self, name: str, arguments: Sequence[ir.Value | str], result: ir.Type | None = None) -> ir.Value | None:
        """A call of a C function or macro; a text argument is inserted as it is."""
        operands = [a for a in arguments if not isinstance(a, str)]
        places = iter(range(len(operands)))
        index = ir.IndexType.get()
        printed = [
            ir.Attribute.parse(f'#emitc.opaque<"{a}">')
            if isinstance(a, str)
            else ir.IntegerAttr.get(index, next(places))
            for a in arguments
        ]
        op = ir.Operation.create(
            "emitc.call_opaque",
            results=[result] if result is not None else [],
            operands=operands,
            attributes={"callee": ir.StringAttr.get(name), "args": ir.ArrayAttr.get(printed)},
        )
        return op.results[0] if result is not None else None

    def verbatim(self, text: str, operands: Sequence[ir.Value]) -> None:
        """C text with ``{}`` for each operand."""
        ir.Operation.create("emitc.verbatim", operands=list(operands), attributes={"value": ir.StringAttr.get(text)})

    def branch(self, target: ir.Block, operands: Sequence[ir.Value]) -> None:
        """Jumps to a block with these arguments."""
        cf.BranchOp(list(operands), target)

    def branch_if(
        self,
        condition: ir.Value,
        first: ir.Block,
        first_operands: Sequence[ir.Value],
        second: ir.Block,
        second_operands: Sequence[ir.Value],
    ) -> None:
        """Jumps to ``first`` when ``condition`` holds, else to ``second``."""
        cf.CondBranchOp(condition, list(first_operands), list(second_operands), first, second)

    def return_(self, value: ir.Value) -> None:
        """Returns the value from the function."""
        ir.Operation.create("emitc.return", operands=[value])


def _create(
    name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value], **attributes: ir.Attribute
) -> ir.Value:
    return ir.Operation.create(name, results=list(results), operands=list(operands), attributes=attributes).results[0]
