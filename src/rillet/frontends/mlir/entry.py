"""Which function of a module is compiled. Everything else in the module is its helper."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir.kernels import name

_VISIBILITY = "sym_visibility"


def entry(module: ir.Module) -> ir.Operation:
    """The function to compile: ``@main``, or the only public one. Raises CompileError when there is none.

    It is at the top of the module, or of the only module nested in that, and so on.
    """
    public = [f for f in _functions(_innermost(module.operation)) if _is_public(f)]
    named = [f for f in public if name(f) == "main"]
    chosen = named or public
    if len(chosen) != 1:
        names = ", ".join(name(f) for f in public) or "none"
        raise CompileError(
            f"the MLIR module needs a public function @main, or exactly one public function; found: {names}"
        )
    return chosen[0]


def isolate(module: ir.Module) -> ir.Operation:
    """Make the entry the only public symbol, called ``@main``, at the top of ``module``, and return it.

    Modules beside the functions are erased: calls cannot reach into them.
    """
    main = entry(module)
    inner = _innermost(module.operation)
    if inner != module.operation:
        for op in list(inner.regions[0].blocks[0].operations):
            module.body.append(op)
        inner.erase()
    for op in list(module.body.operations):
        operation = op.operation
        if operation.name == "builtin.module":
            operation.erase()
        elif "sym_name" in operation.attributes and operation != main:
            operation.attributes[_VISIBILITY] = ir.StringAttr.get("private")
    if _VISIBILITY in main.attributes:
        del main.attributes[_VISIBILITY]
    main.attributes["sym_name"] = ir.StringAttr.get("main")
    return main


def _innermost(module: ir.Operation) -> ir.Operation:
    """The module that has the functions: while one holds a single module and no function, that one."""
    modules = [o.operation for o in module.regions[0].blocks[0].operations if o.operation.name == "builtin.module"]
    if len(modules) != 1 or next(_functions(module), None) is not None:
        return module
    return _innermost(modules[0])


def _functions(module: ir.Operation) -> Iterator[ir.Operation]:
    return (o.operation for o in module.regions[0].blocks[0].operations if o.operation.name == "func.func")


def _is_public(function: ir.Operation) -> bool:
    attributes = function.attributes
    return _VISIBILITY not in attributes or ir.StringAttr(attributes[_VISIBILITY]).value == "public"
