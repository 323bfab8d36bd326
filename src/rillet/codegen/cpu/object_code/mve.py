"""Avoids a wrong encoding in LLVM's M-profile vector code (MVE).

A vector integer-to-float conversion followed by a multiplication by 2^-n is fused into ``vcvt`` with an immediate n.
When the integer n is also live in a register, LLVM 22 prints and encodes that register instead, and the result is
wrong. The same holds for a multiplication before a conversion to integer. A fence between the two keeps them apart.
"""

from __future__ import annotations

import re

from rillet.codegen.cpu.machine import CpuTarget
from rillet.errors import CompileError

_TO_FLOAT = re.compile(r"^  (%[\w.]+) = ([su]itofp <\d+ x i\d+> .* to (<(\d+) x (float|half)>).*)$")
_TO_INTEGER = re.compile(r"^  (%[\w.]+) = (fpto[su]i) (<(\d+) x (float|half)>) ([^ ]+) to (.*)$")
_SUFFIX = {"float": "f32", "half": "f16"}
_WRONG = re.compile(r"^\s*vcvt\.\S+\s+q\d+,\s*q\d+,\s*(?!#)\S+", re.MULTILINE)


def is_affected(target: CpuTarget) -> bool:
    """Whether the target's vector unit is MVE."""
    return any(f.startswith("mve") for f in target.machine.features)


def fence_conversions(text: str) -> str:
    """Optimized LLVM IR with a fence at every vector conversion between integers and floats."""
    lines: list[str] = []
    declared: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n")):
        if match := _TO_FLOAT.match(line):
            result, operation, type_, count, element = match.groups()
            fence = f"@llvm.arithmetic.fence.v{count}{_SUFFIX[element]}"
            lines.append(f"  %fence{number} = {operation}")
            lines.append(f"  {result} = call {type_} {fence}({type_} %fence{number})")
        elif match := _TO_INTEGER.match(line):
            result, operation, type_, count, element, value, rest = match.groups()
            fence = f"@llvm.arithmetic.fence.v{count}{_SUFFIX[element]}"
            lines.append(f"  %fence{number} = call {type_} {fence}({type_} {value})")
            lines.append(f"  {result} = {operation} {type_} %fence{number} to {rest}")
        else:
            lines.append(line)
            continue
        declared.add((type_, fence))
    lines += [f"declare {type_} {fence}({type_})" for type_, fence in sorted(declared)]
    return "\n".join(lines)


def check(assembly: str) -> None:
    """Raise ``CompileError`` when the wrong encoding still occurs."""
    if match := _WRONG.search(assembly):
        raise CompileError(f"internal: the vector conversion '{match[0].strip()}' would compute a wrong result")
