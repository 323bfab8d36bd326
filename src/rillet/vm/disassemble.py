"""Bytecode as text, one instruction a line (docs/reference/bytecode.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rillet.dialects import vm
from rillet.ir.image import Function, Import

# Operands: i, r registers; w word; L branch target; q literal; I, R counted register lists.
_FORMATS = {
    vm.TRAP: ("trap", "w"),
    vm.CONST: ("const", "iq"),
    vm.MOV: ("mov", "ii"),
    vm.MOV_REF: ("mov.ref", "rr"),
    vm.NULL_REF: ("null.ref", "r"),
    vm.BRANCH: ("branch", "L"),
    vm.BRANCH_IF: ("branch.if", "iLL"),
    vm.CALL: ("call", "wIRIR"),
    vm.RETURN: ("return", "IR"),
    vm.GLOBAL_LOAD: ("global.load", "iw"),
    vm.GLOBAL_STORE: ("global.store", "wi"),
    vm.GLOBAL_LOAD_REF: ("global.load.ref", "rw"),
    vm.GLOBAL_STORE_REF: ("global.store.ref", "wr"),
    vm.CMP_NULL: ("cmp.null", "ir"),
    vm.SELECT: ("select", "iiii"),
    vm.SELECT_REF: ("select.ref", "rirr"),
    **{opcode: (name.replace("_", "."), "iii") for name, opcode in vm.BINARY.items()},
    **{opcode: (name.replace("_", "."), "ii") for name, opcode in vm.UNARY.items()},
}


@dataclass(frozen=True)
class Instruction:
    """One instruction; ``position`` and branch targets are word offsets from the function's start."""

    position: int
    opcode: int
    name: str
    operands: tuple[tuple[str, int | tuple[int, ...]], ...]  # (kind, value) as in the format


def decode(code: Sequence[int]) -> Iterator[Instruction]:
    """The instructions of one function. Raises ``ValueError`` on an opcode that does not exist."""
    at = 0
    while at < len(code):
        start, opcode = at, code[at]
        if opcode not in _FORMATS:
            raise ValueError(f"unknown opcode {opcode} at word {at}")
        name, kinds = _FORMATS[opcode]
        at += 1
        operands: list[tuple[str, int | tuple[int, ...]]] = []
        for kind in kinds:
            if kind in "IR":
                count = code[at]
                operands.append((kind, tuple(code[at + 1 : at + 1 + count])))
                at += 1 + count
                continue
            width = {"L": 2, "q": 4}.get(kind, 1)
            value = sum(word << (16 * i) for i, word in enumerate(code[at : at + width]))
            operands.append((kind, value - (1 << 64) if kind == "q" and value >> 63 else value))
            at += width
        yield Instruction(start, opcode, name, tuple(operands))


def disassemble(function: Function, imports: Sequence[Import], functions: Sequence[Function] = ()) -> str:
    """The text of one function; calls are written as ``results = name(integers; references)``."""
    lines = [f"{function.name}({function.arguments}) -> ({function.results})"]
    lines += [f"  {i.position:5}  {_text(i, imports, functions)}" for i in decode(function.code)]
    return "\n".join(lines)


def _text(instruction: Instruction, imports: Sequence[Import], functions: Sequence[Function]) -> str:
    if instruction.opcode != vm.CALL:
        texts = (_operand(kind, value) for kind, value in instruction.operands)
        return f"{instruction.name} {', '.join(filter(None, texts))}".rstrip()
    (_, target), ints, refs, int_results, ref_results = instruction.operands
    assert isinstance(target, int)
    name = imports[target & 0x7FFF].name if target & 0x8000 else functions[target].name
    results = ", ".join(filter(None, (_operand(*int_results), _operand(*ref_results))))
    arguments = "; ".join(filter(None, (_operand(*ints), _operand(*refs))))
    return f"{results} = {name}({arguments})" if results else f"{name}({arguments})"


def _operand(kind: str, value: int | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{kind.lower()}{register}" for register in value)
    if kind in "ir":
        return f"{kind}{value}"
    return f"@{value}" if kind == "L" else str(value)
