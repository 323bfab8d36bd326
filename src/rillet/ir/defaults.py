"""Inputs that calls may leave out."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.attributes import NAME
from rillet.ir.constants import constant
from rillet.ir.program import Program


def hold(program: Program) -> None:
    """Make constants of the inputs that have defaults, for programs that are called with all their inputs."""
    if not program.defaults:
        return
    main = program.main()
    block = main.regions[0].blocks[0]
    attributes = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
    names = [ir.StringAttr(ir.DictAttr(a)[NAME]).value for a in attributes]
    with program.context, ir.Location.unknown():
        for number in reversed(range(len(names))):
            if names[number] not in program.defaults:
                continue
            argument = block.arguments[number]
            with ir.InsertionPoint.at_block_begin(block):
                argument.replace_all_uses_with(constant(program, program.defaults[names[number]], names[number]))
            block.erase_argument(number)
            del attributes[number]
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        type_ = ir.FunctionType.get([a.type for a in block.arguments], results)
        main.attributes["function_type"] = ir.TypeAttr.get(type_)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    program.defaults.clear()
