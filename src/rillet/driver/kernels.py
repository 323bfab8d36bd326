"""A program's kernels after dispatch: their text, what each does, and which source nodes it came from."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import Program, locations
from rillet.ir.image import EntryFacts
from rillet.ir.structured import walk

# Names beyond this many say no more.
_MOST_SOURCES = 8


def entry_facts(program: Program) -> tuple[EntryFacts, ...]:
    """The facts of a program's kernels after dispatch, in ordinal order."""
    sources: dict[str, list[str]] = {}
    for op in walk(program.main()):
        if op.name == "func.call":
            names = sources.setdefault(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, [])
            names += [name for name in locations.names(op.location) if name not in names]
    declarations = {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in program.module.body.operations
        if "flow.kernel" in op.attributes
    }
    return tuple(
        EntryFacts(
            macs=ir.IntegerAttr(declarations[name].attributes["rillet.macs"]).value,
            bytes=ir.IntegerAttr(declarations[name].attributes["rillet.bytes"]).value,
            sources=_listed(sources.get(name, [])),
        )
        for name, _ in _modules(program)
    )


def kernel_texts(program: Program) -> list[tuple[str, str]]:
    """The kernels of a program after dispatch, in ordinal order: (name, module text)."""
    return [(name, module.get_asm()) for name, module in _modules(program)]


def _modules(program: Program) -> list[tuple[str, ir.Operation]]:
    for op in program.module.body.operations:
        if op.operation.name == "builtin.module" and _symbol(op.operation) == "kernels":
            return [(_symbol(inner.operation), inner.operation) for inner in op.regions[0].blocks[0].operations]
    return []


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _listed(names: list[str]) -> str:
    shown = ["".join(c if c.isprintable() else "?" for c in name) for name in names[:_MOST_SOURCES]]
    if len(names) > _MOST_SOURCES:
        shown.append(f"{len(names) - _MOST_SOURCES} more")
    return ", ".join(shown)
