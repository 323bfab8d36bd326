"""Results of a model that C has no type for: maps become the tensor of their values, strings are refused."""

from __future__ import annotations

import warnings

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.attributes import NAME
from rillet.targets import Target

_KEYS, _VALUES = "[keys]", "[values]"


def replace_maps(program: Program) -> None:
    """Give the values of each sequence of maps alone, under its name. Warns (RuntimeWarning) that it does.

    The keys are the same in each call: the classes' labels, which the model knows.
    """
    names = _names(program)
    maps = [n.removesuffix(_VALUES) for n in names if n.endswith(_VALUES)]
    keys = tuple(f"{name}{_KEYS}" for name in maps)
    if not maps:
        return
    main = program.main()
    end = main.regions[0].blocks[0].operations[len(main.regions[0].blocks[0].operations) - 1]
    kept = [number for number, name in enumerate(names) if not name.startswith(keys)]
    given = ir.ArrayAttr(main.attributes["res_attrs"])
    values = [end.operands[number] for number in kept]
    with program.context, end.location:
        with ir.InsertionPoint(end):
            ir.Operation.create("func.return", operands=values)
        end.operation.erase()
        inputs = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [v.type for v in values]))
        main.attributes["res_attrs"] = ir.ArrayAttr.get([_renamed(ir.DictAttr(given[n]), maps) for n in kept])
    for name in maps:
        warnings.warn(
            f"output '{name}' is a sequence of maps; in C it is the tensor of their values, in the order of their keys",
            RuntimeWarning,
            stacklevel=2,
        )


def refuse_strings(program: Program, target: Target) -> None:
    """Raise ``CompileError`` naming an output that holds strings."""
    for name in _names(program):
        if name.endswith("[ends]"):
            raise CompileError(
                f"target {target.name} has static memory, but output '{name.removesuffix('[ends]')}' holds strings, "
                "which have no fixed size; let the model give numbers (a classifier: number the classes)"
            )


def _names(program: Program) -> list[str]:
    """The names of the results of ``@main``."""
    attributes = program.main().attributes
    given = ir.ArrayAttr(attributes["res_attrs"]) if "res_attrs" in attributes else ()
    return [ir.StringAttr(ir.DictAttr(a)[NAME]).value if NAME in ir.DictAttr(a) else "" for a in given]


def _renamed(edge: ir.DictAttr, maps: list[str]) -> ir.DictAttr:
    name = ir.StringAttr(edge[NAME]).value if NAME in edge else ""
    if name.removesuffix(_VALUES) not in maps:
        return edge
    entries = {edge[i].name: edge[i].attr for i in range(len(edge))}
    return ir.DictAttr.get({**entries, NAME: ir.StringAttr.get(name.removesuffix(_VALUES))})
