"""Marks the parts of a softmax, so that emission may use what ``recognize.softmax`` knows about them."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.recognize.accumulation import QUIET
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.codegen.recognize.softmax import NONPOSITIVE, SCALED, SHARE, SoftmaxRows, combining


def mark_softmax(function: KernelFunction, dimensions: Dimensions, fixed: set[Dimension]) -> None:
    """Mark every such op whose maximum and sum are those of one row: all their dimensions are ``fixed``."""
    rows = SoftmaxRows(function, dimensions, fixed)
    for generic in function.generics:
        if not generic.is_parallel:
            continue
        for op in generic.body.operations:
            if op.operation.name == "math.exp" and rows.is_nonpositive(op.operation.results[0]):
                op.operation.attributes[NONPOSITIVE] = ir.UnitAttr.get()
            if op.operation.name == "arith.divf" and rows.is_share(generic, op.operation):
                op.operation.attributes[SHARE] = ir.UnitAttr.get()
    for generic in function.reductions:
        exponential = rows.closed_softmax(generic)
        if exponential is not None:
            combining(generic).attributes[QUIET] = ir.UnitAttr.get()
            exponential.attributes[SCALED] = ir.UnitAttr.get()
