"""Moves assertions out of the bodies of structured ops, since the tensor form has them on the host only.

An assertion about each element becomes a count of the elements that violate it. The host asserts before the op that the
count is zero.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.mlir.foreign import node_of
from rillet.ir import builders, locations, tensor_form
from rillet.ir.rewrite import clone_operations, defining, generic_with
from rillet.ir.structured import Structured, captures, structured, walk

# Assertions of torch-mlir without need: floats may be divided by zero, and kernels check the indices that they read at.
_NEEDLESS = (
    "unimplemented: tensor with zero element",
    "index must be larger or equal to 0",
    "index must be smaller than dim size",
)
_ADVICE = "assert it of the op's operands or results instead"


def hoist(main: ir.Operation) -> None:
    """Move every assertion out of device code. Raises UnsupportedError for one whose condition only device code has."""
    refused: list[UnsupportedNode] = []
    for op in [o for o in walk(main) if o.name == "cf.assert"]:
        holder = _holder(op)
        if holder is None:
            continue
        view = structured(holder)
        if _message(op) in _NEEDLESS:
            op.erase()
        elif view is None or op.parent != holder:
            refused.append(node_of(op, f"it stands inside of a {holder.name}, where nothing can fail", _ADVICE))
        elif reason := _why_not(view, op):
            refused.append(node_of(op, reason, _ADVICE))
        else:
            with ir.InsertionPoint(holder), op.location:
                _hoist(view, op)
    if refused:
        raise UnsupportedError(refused)


def _holder(op: ir.Operation) -> ir.Operation | None:
    """The outermost op around ``op`` that becomes device code; None for an assertion of the host."""
    holder, around = None, op.parent.operation
    while around.name != "func.func":
        if not around.name.startswith("scf.") or tensor_form.is_device_loop(around):
            holder = around
        around = around.parent.operation
    return holder


def _message(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["msg"]).value


def _needed(view: Structured, value: ir.Value) -> tuple[list[ir.Operation], set[ir.Value]]:
    """The operations of the body that ``value`` takes, in order, and the values of the body that are not theirs."""
    inside = {o: None for o in view.body_ops()}
    operations: set[ir.Operation] = set()
    leaves: set[ir.Value] = set()
    open_ = [value]
    while open_:
        current = open_.pop()
        owner = defining(current)
        if owner is None or owner not in inside:
            leaves.add(current)
        elif owner not in operations:
            operations.add(owner)
            open_ += [*owner.operands, *captures(owner)]
    return [o for o in inside if o in operations], leaves


def _why_not(view: Structured, op: ir.Operation) -> str:
    accumulators = list(view.body.arguments)[len(view.inputs) :]
    _, leaves = _needed(view, op.operands[0])
    reduces = not all(view.parallel)
    return "it asserts something of a value that the op accumulates" if reduces and leaves & {*accumulators} else ""


def _hoist(view: Structured, op: ir.Operation) -> None:
    operations, _ = _needed(view, op.operands[0])
    i64 = ir.IntegerType.get_signless(64)
    zero = arith.ConstantOp(i64, ir.IntegerAttr.get(i64, 0)).result

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        mapping = dict(zip(view.body.arguments, arguments, strict=False))
        clone_operations(operations, mapping)
        holds = mapping.get(op.operands[0], op.operands[0])
        wrong = arith.xori(holds, arith.ConstantOp(holds.type, ir.IntegerAttr.get(holds.type, 1)).result)
        return [arith.addi(arguments[-1], arith.extui(i64, wrong))]

    count = generic_with(
        [*view.inputs, *view.inits], [builders.fill(zero, [])], [*view.maps, ()], [False] * view.loops, body
    )
    found = arith.index_cast(ir.IndexType.get(), builders.extract(count.results[0], []))
    condition = arith.cmpi(arith.CmpIPredicate.eq, found, builders.index(0))
    cf.assert_(condition, f"{locations.label(op.location)}: {_message(op)}")
    op.erase()
