"""Facts about the inner loops of a kernel, read from its assembly.

A loop is what lies between a label and the last branch back to it; an innermost loop holds no other. Kernels are
emitted so that the compiler lays each inner loop out in one piece.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.cpu.object_code import elf
from rillet.codegen.result import CodegenOptions
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir.kernels import kernel_texts
from rillet.targets import Target

_LABEL = re.compile(r"(\.LBB\w+):")
_INSTRUCTION = re.compile(r"\s+([a-zA-Z][\w.]*)\s*(.*)")
_BLOCK = re.compile(r"\.LBB\w+")


@dataclass(frozen=True)
class _Syntax:
    """How an architecture's assembly tells what counts."""

    comment: str
    multiply_add: re.Pattern[str]
    stack: re.Pattern[str]
    load: re.Pattern[str]  # of mnemonics; for x86, whose instructions read memory as operands, see below
    store: re.Pattern[str]


_X86 = _Syntax(
    "#",
    re.compile(r"v?fn?madd|mul[ps][sd]$"),
    re.compile(r"\(%rsp"),
    re.compile(r""),
    re.compile(r"v?mov\w*$|v?maskmov\w*$|vextract\w*$"),
)
_SYNTAX = {
    "x86_64": _X86,
    "aarch64": _Syntax(
        "//", re.compile(r"fn?ml[as]|fn?madd|[su]{1,2}dot"), re.compile(r"\[sp\b"), re.compile(r"ld"), re.compile(r"st")
    ),
    "arm": _Syntax(
        "@",
        re.compile(r"vfma|vmla|vfms|smla|mla"),
        re.compile(r"\[sp\b"),
        re.compile(r"v?ld"),
        re.compile(r"v?st"),
    ),
    "riscv32": _Syntax(
        "#",
        re.compile(r"fn?madd|vfn?macc"),
        re.compile(r"\(sp\)"),
        re.compile(r"f?l[bhwd]u?$"),
        re.compile(r"f?s[bhwd]$"),
    ),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction: its mnemonic and what follows it."""

    mnemonic: str
    operands: str


@dataclass(frozen=True)
class InnerLoop:
    """An innermost loop's instructions, and how many of them are what."""

    instructions: tuple[Instruction, ...]
    multiply_adds: int
    loads: int  # reads of memory, operands of arithmetic included
    stores: int
    spills: int  # accesses to the stack

    def count(self, pattern: str) -> int:
        """How many instructions match ``pattern`` from their mnemonic on (one blank before the operands)."""
        return sum(re.match(pattern, f"{i.mnemonic} {i.operands}") is not None for i in self.instructions)


def inner_loops(assembly: str, name: str, target: Target) -> list[InnerLoop]:
    """The innermost loops of the kernel ``name``, in the order of the text."""
    lines = _function(assembly, name, _SYNTAX[target.machine.arch].comment)
    starts: dict[str, int] = {}
    spans: dict[int, int] = {}  # first instruction of a loop -> the one after its last
    instructions: list[Instruction] = []
    for line in lines:
        if isinstance(line, str):
            starts[line] = len(instructions)
            continue
        instructions.append(line)
        for label in _BLOCK.findall(line.operands):
            if label in starts:
                spans[starts[label]] = len(instructions)
    innermost = [
        (a, b) for a, b in spans.items() if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in spans.items())
    ]
    return [_summed(instructions[a:b], _SYNTAX[target.machine.arch]) for a, b in sorted(innermost)]


def main_loop(assembly: str, name: str, target: Target) -> InnerLoop:
    """The innermost loop with the most multiply-adds, of several the longest."""
    return max(inner_loops(assembly, name, target), key=lambda loop: (loop.multiply_adds, len(loop.instructions)))


def _function(assembly: str, name: str, comment: str) -> list[Instruction | str]:
    """The instructions and labels of ``name__body``."""
    _, _, rest = assembly.partition(f"\n{name}__body:")
    body, _, _ = rest.partition("\n.Lfunc_end")
    found: list[Instruction | str] = []
    for line in body.splitlines():
        code = line.partition(comment)[0] if comment != "#" else re.sub(r"\s#.*|^#.*", "", line)
        if match := _LABEL.match(code):
            found.append(match[1])
        elif (match := _INSTRUCTION.match(code)) and not match[1].startswith("."):
            found.append(Instruction(match[1], match[2].strip()))
    return found


def _summed(instructions: list[Instruction], syntax: _Syntax) -> InnerLoop:
    accesses = [_access(i, syntax) for i in instructions]
    return InnerLoop(
        tuple(instructions),
        multiply_adds=sum(syntax.multiply_add.match(i.mnemonic) is not None for i in instructions),
        loads=accesses.count("load"),
        stores=accesses.count("store"),
        spills=sum(syntax.stack.search(i.operands) is not None for i in instructions),
    )


def _access(instruction: Instruction, syntax: _Syntax) -> str:
    if syntax is _X86:
        if "(" not in instruction.operands or instruction.mnemonic.startswith(("lea", "nop", "prefetch")):
            return ""
        to_memory = instruction.operands.endswith(")")
        return "store" if to_memory and syntax.store.match(instruction.mnemonic) else "load"
    if syntax.load.match(instruction.mnemonic):
        return "load"
    return "store" if syntax.store.match(instruction.mnemonic) else ""


@dataclass(frozen=True)
class Listing:
    """A compiled kernel: its assembly and the size of its code."""

    name: str
    target: Target
    strategy: str
    assembly: str
    code_bytes: int

    @property
    def main_loop(self) -> InnerLoop:
        return main_loop(self.assembly, self.name, self.target)


def listings(source: bytes, target: Target) -> list[Listing]:
    """Every kernel of an ONNX model, compiled for ``target``."""
    found = []
    for name, text in kernel_texts(lower_until(open_model(source), "dispatch", target=target)):
        compiled = compile_kernel(text, target, CodegenOptions(keep_intermediates=True))
        size = elf.sizes(compiled.object).text
        found.append(Listing(name, target, compiled.strategy, compiled.assembly, size))
    return found
