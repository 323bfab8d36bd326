"""The most stack that a function of generated assembly takes, from what its instructions subtract from the stack
pointer.

Kernels call at most one other function (the ABI function calls its body) and never recurse, so the sum over a kernel's
functions bounds its depth. Every subtraction counts, wherever it stands; code whose frame is not a constant is refused.
"""

from __future__ import annotations

import re

from rillet.errors import CompileError

# A register list counts by its members: core registers 4 bytes, d registers 8, ranges included.
_PUSH = re.compile(r"^\s*(?:push(?:\.w)?|stmdb\s+sp!,|stmdb\.w\s+sp!,|vpush|pushw)\s*\{([^}]*)\}")
_PRE_DECREMENT = re.compile(r"\[sp,\s*#-(\d+)\]!")
_SUB_IMMEDIATE = re.compile(r"^\s*sub(?:w|\.w)?\s+sp,\s*(?:sp,\s*)?#(\d+)(?:,\s*lsl\s*#(\d+))?")
_RISCV = re.compile(r"^\s*addi\s+sp,\s*sp,\s*-(\d+)")
_WASM = re.compile(r"global\.get\s+__stack_pointer\n(?:\s*i32\.const\s+(\d+)\n\s*i32\.sub)?")
_UNKNOWN = re.compile(
    r"^\s*(?:sub(?:w|\.w)?\s+sp,\s*(?:sp,\s*)?[a-z]|mov(?:w|\.w)?\s+sp,\s*r(?!7)|add\s+sp,\s*sp,\s*[a-z])"
)


def stack_bytes(assembly: str) -> int:
    """Bytes that all functions of ``assembly`` take together (Arm, AArch64, RISC-V, the WebAssembly data stack).

    Raises ``CompileError`` when a frame is not a constant.
    """
    total = 0
    for line in assembly.splitlines():
        if match := _PUSH.match(line):
            total += sum(map(_register_bytes, match[1].split(",")))
        elif match := _PRE_DECREMENT.search(line):
            total += int(match[1])
        elif match := _SUB_IMMEDIATE.match(line):
            total += int(match[1]) << int(match[2] or 0)
        elif match := _RISCV.match(line):
            total += int(match[1])
        elif _UNKNOWN.match(line):
            raise CompileError(f"internal: the stack a kernel needs is not a constant: '{line.strip()}'")
    for match in _WASM.finditer(assembly):
        if match[1] is None:
            raise CompileError("internal: the stack a kernel needs is not a constant: '__stack_pointer' is computed")
        total += int(match[1])
    return total


def _register_bytes(text: str) -> int:
    names = [name.strip() for name in text.split("-")]
    width = 8 if names[0].startswith("d") else 4
    if len(names) == 1:
        return width
    first, last = (int(re.sub(r"\D", "", name)) for name in names)
    return width * (last - first + 1)
