"""Prints an ``emitc.func`` as C11: the operations that ``convert_to_emitc`` uses.

Values that are used once and have no side effects are written where they are used; loads and calls keep their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch_mlir import ir

from rillet.errors import CompileError

_BINARY = {
    "emitc.add": "+",
    "emitc.sub": "-",
    "emitc.mul": "*",
    "emitc.div": "/",
    "emitc.rem": "%",
    "emitc.bitwise_and": "&",
    "emitc.bitwise_or": "|",
    "emitc.bitwise_xor": "^",
}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_PURE = frozenset({*_BINARY, "emitc.cast", "emitc.cmp", "emitc.conditional", "emitc.subscript"})
_INTEGERS = {"i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "ui64": "uint64_t"}
_INT32 = range(-(1 << 31) + 1, 1 << 31)


def print_body(function: ir.Operation, arguments: Sequence[str]) -> str:
    """The lines between the braces of ``function``, whose parameters are called ``arguments``."""
    return _Printer(function, arguments).run()


def c_type(type_: ir.Type) -> str:
    """A type's C spelling."""
    text = str(type_)
    if text in _INTEGERS:
        return _INTEGERS[text]
    if text == "index":
        return "size_t"
    if match := re.fullmatch(r'!emitc\.opaque<"(.*)">', text):
        return match[1]
    if match := re.fullmatch(r"!emitc\.ptr<(.*)>", text):
        return f"{c_type(ir.Type.parse(match[1]))}*".replace("**", "* *")
    raise CompileError(f"internal: type {text} has no spelling in C")


class _Printer:
    def __init__(self, function: ir.Operation, arguments: Sequence[str]) -> None:
        self.blocks = list(function.regions[0].blocks)
        self.names: dict[ir.Value, str] = dict(zip(self.blocks[0].arguments, arguments, strict=True))
        self.lines: list[str] = []
        self.declarations: list[str] = []  # of values, where jumps would skip their initialization, which C++ forbids
        self.count = 0

    def run(self) -> str:
        for argument in (a for block in self.blocks[1:] for a in block.arguments):
            initial = " = NULL" if c_type(argument.type).endswith("*") else ""
            self.lines.append(f"{c_type(argument.type)} {self._name(argument)}{initial};")
        end = len(self.lines)
        for number, block in enumerate(self.blocks):
            if number:
                self.lines.append(f"block{number}:;")
            for view in block.operations:
                self._print(view.operation)
        self.lines[end:end] = self.declarations
        return "".join(f"  {line}\n" if not line.endswith(":;") else f"{line}\n" for line in self.lines)

    def _name(self, value: ir.Value) -> str:
        self.names[value] = f"v{self.count}"
        self.count += 1
        return self.names[value]

    def _print(self, op: ir.Operation) -> None:
        if op.name in ("emitc.constant", "emitc.literal") or (op.name in _PURE and self._is_inlined(op)):
            return
        if op.name == "emitc.variable":
            self._array(op)
        elif op.name == "emitc.assign":
            self.lines.append(f"{self._use(op.operands[0])} = {self._bare(op.operands[1])};")
        elif op.name == "emitc.verbatim":
            text = ir.StringAttr(op.attributes["value"]).value
            self.lines.append(text.format(*(self._use(v) for v in op.operands)))
        elif op.name == "emitc.return":
            self.lines.append(f"return {self._bare(op.operands[0])};")
        elif op.name == "cf.br":
            self._jump(op.successors[0], list(op.operands))
        elif op.name == "cf.cond_br":
            self._jump_if(op)
        elif op.results:
            result = op.results[0]
            expression = self._expression(op)
            type_ = c_type(result.type)
            if len(self.blocks) > 1:
                name = self._name(result)
                self.declarations.append(f"{type_} {name};")
                self.lines.append(f"{name} = {expression};")
                return
            constant = f"{type_} const" if type_.endswith("*") else f"const {type_}"
            self.lines.append(f"{constant} {self._name(result)} = {expression};")
        else:
            self.lines.append(f"{self._expression(op)};")

    def _array(self, op: ir.Operation) -> None:
        match = re.fullmatch(r"!emitc\.array<(\d+)x(.*)>", str(op.results[0].type))
        if match is None:
            raise CompileError("internal: only arrays are variables")
        self.lines.append(f"{c_type(ir.Type.parse(match[2]))} {self._name(op.results[0])}[{match[1]}];")

    def _is_inlined(self, op: ir.Operation) -> bool:
        uses = list(op.results[0].uses)
        if op.name in ("emitc.subscript", "emitc.cast"):
            return True
        return len(uses) == 1 and uses[0].owner.operation.block == op.block

    def _use(self, value: ir.Value) -> str:
        """An expression that can stand in any operator's operand."""
        text = self._bare(value)
        return text if re.fullmatch(r"-?\w+(\[\w+\])?|INT64_C\(-?\d+\)", text) else f"({text})"

    def _bare(self, value: ir.Value) -> str:
        if value in self.names:
            return self.names[value]
        return self._expression(value.owner.operation)

    def _expression(self, op: ir.Operation) -> str:
        operands = list(op.operands)
        if op.name == "emitc.constant":
            value = ir.IntegerAttr(op.attributes["value"]).value
            return str(value) if value in _INT32 else f"INT64_C({value})"
        if op.name == "emitc.literal":
            return ir.StringAttr(op.attributes["value"]).value
        if op.name in _BINARY:
            return f"{self._use(operands[0])} {_BINARY[op.name]} {self._use(operands[1])}"
        if op.name == "emitc.cmp":
            operator = _COMPARISONS[ir.IntegerAttr(op.attributes["predicate"]).value]
            return f"{self._use(operands[0])} {operator} {self._use(operands[1])}"
        if op.name == "emitc.conditional":
            condition, a, b = (self._use(v) for v in operands)
            return f"{condition} ? {a} : {b}"
        if op.name == "emitc.cast":
            return f"({c_type(op.results[0].type)}){self._use(operands[0])}"
        if op.name == "emitc.subscript":
            return f"{self._use(operands[0])}[{self._bare(operands[1])}]"
        if op.name == "emitc.load":
            return self._bare(operands[0])
        if op.name == "emitc.call_opaque":
            return f"{ir.StringAttr(op.attributes['callee']).value}({', '.join(self._arguments(op))})"
        raise CompileError(f"internal: '{op.name}' has no spelling in C")

    def _arguments(self, op: ir.Operation) -> list[str]:
        printed = []
        for attribute in ir.ArrayAttr(op.attributes["args"]):
            if isinstance(attribute, ir.IntegerAttr):
                printed.append(self._bare(op.operands[ir.IntegerAttr(attribute).value]))
            else:
                match = re.fullmatch(r'#emitc\.opaque<"(.*)">', str(attribute))
                assert match is not None
                printed.append(match[1])
        return printed

    def _jump(self, target: ir.Block, operands: list[ir.Value]) -> None:
        self.lines += self._moves(target, operands)
        self.lines.append(f"goto block{self.blocks.index(target)};")

    def _jump_if(self, op: ir.Operation) -> None:
        _, count, _ = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        condition, *rest = op.operands
        first, second = op.successors
        self.lines.append(f"if ({self._bare(condition)}) {{")
        moves = self._moves(first, rest[:count])
        self.lines += [f"  {line}" for line in [*moves, f"goto block{self.blocks.index(first)};"]]
        self.lines.append("}")
        self._jump(second, rest[count:])

    def _moves(self, target: ir.Block, operands: list[ir.Value]) -> list[str]:
        """Parallel assignment of a block's arguments, through copies where one reads a variable that another writes."""
        pairs = [(self.names[a], self._bare(v)) for a, v in zip(target.arguments, operands, strict=True)]
        pairs = [(name, value) for name, value in pairs if name != value]
        written = {name for name, _ in pairs}
        if not any(written & set(re.findall(r"\w+", value)) for _, value in pairs):
            return [f"{name} = {value};" for name, value in pairs]
        types = {self.names[a]: c_type(a.type) for a in target.arguments}
        copies = [f"{types[name]} next_{name} = {value};" for name, value in pairs]
        return ["{", *(f"  {line}" for line in copies), *(f"  {name} = next_{name};" for name, _ in pairs), "}"]
