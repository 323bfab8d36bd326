"""Gives kernels names that describe their computation, and keeps one of several equal kernels.

Two kernels are equal when their texts differ only in names and locations.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.dispatch.names import name_of
from rillet.ir import Program
from rillet.ir.kernels import called, declarations, functions, modules
from rillet.ir.structured import walk


def run(program: Program, options: None) -> None:
    """Rename and share kernels; calls are redirected."""
    with program.context, ir.Location.unknown():
        taken: set[str] = set()
        kept: dict[str, str] = {}
        renamed: dict[str, str] = {}
        holders, declared = modules(program), declarations(program)
        for old, function in functions(program).items():
            function.attributes["sym_name"] = ir.StringAttr.get("kernel")
            content = function.get_asm(use_local_scope=True, enable_debug_info=False)
            if content in kept:
                renamed[old] = kept[content]
                holders[old].erase()
                declared[old].erase()
                continue
            name = _fresh(name_of(function), taken)
            kept[content] = renamed[old] = name
            for op in (function, holders[old], declared[old]):
                op.attributes["sym_name"] = ir.StringAttr.get(name)
            declared[old].attributes[flow.KERNEL] = ir.Attribute.parse(f"@kernels::@{name}")
        for op in walk(program.main()):
            if op.name == "func.call":
                callee = called(op)
                op.attributes["callee"] = ir.FlatSymbolRefAttr.get(renamed[callee])


def _fresh(stem: str, taken: set[str]) -> str:
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name
