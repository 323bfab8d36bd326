"""Finds divisions of a softmax: each exponential of ``x - max x`` by the sum of all of them.

Such a quotient lies between 0 and 1 and its divisor is the same for the whole row, at least 1 and small, so that
``cpu.math`` can compute it from one reciprocal a row with neither overflow nor a zero to take care of.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.cpu.combiners import combiners_of
from rillet.codegen.cpu.dimensions import Dimension, Dimensions
from rillet.codegen.cpu.dispatch import Dispatch, Generic

SHARE = "rillet.share"  # on an arith.divf


def mark(dispatch: Dispatch, dimensions: Dimensions, fixed: set[Dimension]) -> None:
    """Mark every such division whose sum and maximum are those of one row: all their dimensions are ``fixed``."""
    for generic in dispatch.generics:
        if not generic.is_parallel:
            continue
        for op in generic.body.operations:
            if op.operation.name == "arith.divf" and _is_share(dispatch, dimensions, fixed, generic, op.operation):
                op.operation.attributes[SHARE] = ir.UnitAttr.get()


def _is_share(
    dispatch: Dispatch, dimensions: Dimensions, fixed: set[Dimension], generic: Generic, division: ir.Operation
) -> bool:
    exponential, total = (_origin(dispatch, generic, v) for v in division.operands)
    added = _reduced(dispatch, dimensions, fixed, total, "arith.addf")
    if _name(exponential) != "math.exp" or added is None or added != exponential:
        return False
    owner = _generic_of(dispatch, exponential)
    difference = _origin(dispatch, owner, exponential.owner.operands[0])
    if _name(difference) != "arith.subf":
        return False
    owner = _generic_of(dispatch, difference)
    value, largest = (_origin(dispatch, owner, v) for v in difference.owner.operands)
    reduced = _reduced(dispatch, dimensions, fixed, largest, "arith.maximumf")
    return reduced is not None and reduced == value


def _reduced(
    dispatch: Dispatch, dimensions: Dimensions, fixed: set[Dimension], value: ir.Value, op: str
) -> ir.Value | None:
    """What ``value``, a tensor, is the reduction of a row of; None when it is no such reduction."""
    generic = dispatch.generic_of(value)
    if generic is None or generic.is_parallel or len(generic.results) != 1:
        return None
    loops = {dimensions.loop(generic, n) for n in generic.parallel_loops}
    combiners = combiners_of(generic)
    if not combiners or combiners[0].op != op or not loops <= fixed:
        return None
    *_, terminator = generic.body.operations
    combined = terminator.operation.operands[0].owner
    accumulator = list(generic.body.arguments)[-1]
    (element,) = [v for v in combined.operands if v != accumulator]
    return _origin(dispatch, generic, element)


def _origin(dispatch: Dispatch, generic: Generic, value: ir.Value) -> ir.Value:
    """A scalar of a generic's body traced back through point-wise generics: to the op that computes it, else to the
    tensor it is read from."""
    while isinstance(value.owner, ir.Block) and value.owner == generic.body:
        number = ir.BlockArgument(value).arg_number
        if number >= len(generic.inputs):
            return value
        tensor = generic.inputs[number]
        producer = dispatch.generic_of(tensor)
        if producer is None or not producer.is_parallel:
            return tensor
        *_, terminator = producer.body.operations
        value = terminator.operation.operands[producer.results.index(tensor)]
        generic = producer
    return value


def _generic_of(dispatch: Dispatch, value: ir.Value) -> Generic:
    """The generic in whose body an op's result is computed."""
    return next(g for g in dispatch.generics if g.op == value.owner.parent)


def _name(value: ir.Value) -> str:
    owner = value.owner
    return "" if isinstance(owner, ir.Block) else (owner.operation if isinstance(owner, ir.OpView) else owner).name
