"""Counts work: multiply-accumulates and bytes touched by each executable, and the whole model's, as attributes.

A declaration gets ``rillet.macs`` and ``rillet.bytes``; the module gets ``rillet.macs`` (the sum over calls),
``rillet.dispatch_count`` and ``rillet.weight_bytes``. What depends on a dynamic extent is counted with extent 1.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from rillet.dispatch.executables import declarations, functions
from rillet.ir import Program, dtypes
from rillet.ir.contraction import is_multiply_add
from rillet.ir.structured import DYNAMIC, structured, walk


def run(program: Program, options: None) -> None:
    """Attach the counts."""
    with program.context, ir.Location.unknown():
        declared = declarations(program)
        macs = {}
        for name, function in functions(program).items():
            macs[name] = sum(_macs(op) for op in walk(function))
            declared[name].attributes["rillet.macs"] = _i64(macs[name])
            declared[name].attributes["rillet.bytes"] = _i64(_bytes(function))
        calls = [op for op in walk(program.main()) if op.name == "func.call"]
        total = sum(macs[ir.FlatSymbolRefAttr(op.attributes["callee"]).value] for op in calls)
        weights = sum(program.constants[name].nbytes for name in program.constants)
        attributes = program.module.operation.attributes
        attributes["rillet.macs"] = _i64(total)
        attributes["rillet.dispatch_count"] = _i64(len(calls))
        attributes["rillet.weight_bytes"] = _i64(weights)


def _macs(op: ir.Operation) -> int:
    view = structured(op)
    if view is None or all(view.parallel) or len(view.inits) != 1 or not is_multiply_add(view):
        return 0
    return math.prod(1 if e == DYNAMIC else e for e in view.extents())


def _bytes(function: ir.Operation) -> int:
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    tensors = [ir.RankedTensorType(t) for t in (*type_.inputs, *type_.results) if isinstance(t, ir.RankedTensorType)]
    return sum(
        math.prod(1 if e == DYNAMIC else e for e in t.shape) * dtypes.storage_bytes(t.element_type) for t in tensors
    )


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
