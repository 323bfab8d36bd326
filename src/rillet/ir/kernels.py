"""The kernels of a program after dispatch: their modules, functions, declarations and texts, and the work of each."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import locations
from rillet.ir.attributes import BYTES, MACS
from rillet.ir.image import EntryFacts
from rillet.ir.program import Program
from rillet.ir.structured import walk

# More names than this tell a reader no more.
_MOST_SOURCES = 8


def modules(program: Program) -> dict[str, ir.Operation]:
    """The module of each kernel, by name, in order."""
    for op in program.module.body.operations:
        if op.operation.name == "builtin.module":
            return {name(m.operation): m.operation for m in op.operation.regions[0].blocks[0].operations}
    return {}


def functions(program: Program) -> dict[str, ir.Operation]:
    """The function of each kernel, by name, in order."""
    found = {}
    for module in modules(program).values():
        function = module.regions[0].blocks[0].operations[0].operation
        found[name(function)] = function
    return found


def declarations(program: Program) -> dict[str, ir.Operation]:
    """The declaration that calls of each kernel refer to, by name."""
    return {
        name(op.operation): op.operation
        for op in program.module.body.operations
        if op.operation.name == "func.func" and flow.KERNEL in op.operation.attributes
    }


def called(dispatch: ir.Operation) -> str:
    """The name of the kernel that a dispatch, a ``func.call``, calls."""
    return ir.FlatSymbolRefAttr(dispatch.attributes["callee"]).value


def name(op: ir.Operation) -> str:
    """The symbol name of ``op``."""
    return ir.StringAttr(op.attributes["sym_name"]).value


def kernel_texts(program: Program) -> list[tuple[str, str]]:
    """The kernels of a verified program in ordinal order: (name, module text)."""
    # Any other way of printing looks at the whole program for each kernel.
    return [
        (name, module.get_asm(use_local_scope=True, assume_verified=True)) for name, module in modules(program).items()
    ]


def entry_facts(program: Program) -> tuple[EntryFacts, ...]:
    """The facts of the kernels, in ordinal order."""
    sources: dict[str, list[str]] = {}
    for op in walk(program.main()):
        if op.name == "func.call":
            names = sources.setdefault(called(op), [])
            names += [name for name in locations.names(op.location) if name not in names]
    declared = declarations(program)
    return tuple(
        EntryFacts(
            macs=ir.IntegerAttr(declared[kernel].attributes[MACS]).value,
            bytes=ir.IntegerAttr(declared[kernel].attributes[BYTES]).value,
            sources=_listed(sources.get(kernel, [])),
        )
        for kernel in modules(program)
    )


def _listed(names: list[str]) -> str:
    shown = ["".join(c if c.isprintable() else "?" for c in name) for name in names[:_MOST_SOURCES]]
    if len(names) > _MOST_SOURCES:
        shown.append(f"{len(names) - _MOST_SOURCES} more")
    return ", ".join(shown)
