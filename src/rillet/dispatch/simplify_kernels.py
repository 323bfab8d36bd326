"""Cleans up inside kernels: chains of elementwise operations become one, unused parts are removed.

The values between the stages of a chain are kept: an elementwise operation stays in its stage.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program
from rillet.ir.kernels import functions
from rillet.ir.rewrite import run_upstream

_PIPELINE = "builtin.module(builtin.module(builtin.module(func.func(linalg-fuse-elementwise-ops,canonicalize,cse))))"


def run(program: Program, options: None) -> None:
    """Simplify every kernel. Signatures stay as they are."""
    with program.context, ir.Location.unknown():
        if not functions(program):
            return
        kept = {name: _return_passed(function) for name, function in functions(program).items()}
        run_upstream(program.module.operation, _PIPELINE)
        for name, function in functions(program).items():
            if kept[name]:
                _return_less(function, kept[name])


def _return_passed(function: ir.Operation) -> int:
    """Make a chain also return the values between its stages, so that nothing is fused across them. Returns their
    number."""
    *members, end = [op.operation for op in function.regions[0].blocks[0].operations]
    stages = {op: ir.IntegerAttr(op.attributes[flow.STAGE]).value for op in members if flow.STAGE in op.attributes}
    passed = [
        r
        for op, stage in stages.items()
        for r in op.results
        if any(stages.get(u.owner.operation, stage) != stage for u in r.uses)
    ]
    for op in stages:
        del op.attributes[flow.STAGE]
    if passed:
        _set_returned(function, [*end.operands, *passed])
    return len(passed)


def _return_less(function: ir.Operation, count: int) -> None:
    """Drop the last ``count`` results of a function."""
    *_, end = function.regions[0].blocks[0].operations
    _set_returned(function, list(end.operation.operands)[:-count])


def _set_returned(function: ir.Operation, values: list[ir.Value]) -> None:
    *_, end = [op.operation for op in function.regions[0].blocks[0].operations]
    inputs = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
    type_ = ir.FunctionType.get(inputs, [v.type for v in values])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    described = list(ir.ArrayAttr(function.attributes["res_attrs"]))[: len(values)]
    described += [ir.DictAttr.get({})] * (len(values) - len(described))
    function.attributes["res_attrs"] = ir.ArrayAttr.get(described)
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=values)
    end.erase()
