"""Makes one result of a kernel's results that turned out to be the same tensor.

Simplification may find two results equal. Code generation writes each tensor to one place.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.kernels import called, declarations, functions
from rillet.ir.rewrite import create_like
from rillet.ir.structured import walk


def run(program: Program, options: None) -> None:
    """Change kernels, their declarations and their calls."""
    with program.context, ir.Location.unknown():
        declared = declarations(program)
        calls: dict[str, list[ir.Operation]] = {}
        for op in walk(program.main()):
            if op.name == "func.call":
                calls.setdefault(called(op), []).append(op)
        for name, function in functions(program).items():
            *_, end = (op.operation for op in function.regions[0].blocks[0].operations)
            values = list(end.operands)
            first = [values.index(value) for value in values]
            kept = sorted(set(first))
            if len(kept) == len(values):
                continue
            with ir.InsertionPoint(end), end.location:
                create_like(end, [values[n] for n in kept])
            end.erase()
            for op in (function, declared[name]):
                _keep_results(op, kept)
            for call in calls.get(name, []):
                _read(call, first, kept)


def _keep_results(function: ir.Operation, kept: Sequence[int]) -> None:
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    new = ir.FunctionType.get(type_.inputs, [type_.results[n] for n in kept])
    function.attributes["function_type"] = ir.TypeAttr.get(new)
    if "res_attrs" in function.attributes:
        described = list(ir.ArrayAttr(function.attributes["res_attrs"]))
        function.attributes["res_attrs"] = ir.ArrayAttr.get([described[n] for n in kept])


def _read(call: ir.Operation, first: Sequence[int], kept: Sequence[int]) -> None:
    """Read, instead of each result, the first one that is the same."""
    with ir.InsertionPoint(call), call.location:
        new = create_like(call, list(call.operands), [call.results[n].type for n in kept])
    for result, source in zip(call.results, first, strict=True):
        result.replace_all_uses_with(new.results[kept.index(source)])
    call.erase()
