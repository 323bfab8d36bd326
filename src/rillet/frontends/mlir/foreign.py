"""What conversions have left behind: operations and types that the tensor form lacks."""

from __future__ import annotations

from torch_mlir import ir

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.mlir import conversion
from rillet.ir import locations, tensor_form
from rillet.ir.structured import walk

_UNKNOWN_OP = "no conversion to linalg on tensors is known for it"
_UNKNOWN_TYPE = "{} is no type that Rillet computes with"
_ADVICE = "lower it to linalg, tensor, arith and scf before"
_TYPE_ADVICE = "convert to a numpy type before"
_STATE = "it keeps state between calls"
_STATE_ADVICE = "make the state an argument and a result of the function"
_STATE_OPS = ("tosa.variable_read", "tosa.variable_write", "ml_program.global_load", "ml_program.global_store")
_CALL = "it calls a function that cannot be inlined"
_CALL_ADVICE = "give the function a body that does not call itself"


def set_state_aside(module: ir.Module) -> None:
    """Make ops on variables opaque: without the variables, which nothing here keeps, they are invalid."""
    for op in [o for o in walk(module.operation) if o.name.startswith("tosa.variable_")]:
        conversion.set_aside(op)
    for op in [o.operation for o in module.body.operations if o.operation.name == "tosa.variable"]:
        op.erase()


def refuse(module: ir.Module) -> None:
    """Raise UnsupportedError, which names every foreign op of ``module`` with its place, if there is one."""
    nodes = []
    for op in walk(module.operation):
        is_frame = op.name in ("func.func", "ml_program.global") and op.parent == module.operation
        if not is_frame and (node := _unsupported(op)):
            nodes.append(node)
    if nodes:
        raise UnsupportedError(list(dict.fromkeys(nodes)))


def node_of(op: ir.Operation, reason: str, advice: str = "") -> UnsupportedNode:
    """``op`` as one that is not supported, called by its node in the source model or its place in the text."""
    found = locations.names(op.location)
    where = ", ".join([*found, locations.place(op.location)]) if found else locations.place(op.location)
    return UnsupportedNode(where.rstrip(", "), op.name.removeprefix(conversion.OPAQUE), 0, reason, advice)


def _unsupported(op: ir.Operation) -> UnsupportedNode | None:
    if op.name.removeprefix(conversion.OPAQUE) in _STATE_OPS:
        return node_of(op, _STATE, _STATE_ADVICE)
    if op.name == "func.call":
        return node_of(op, _CALL, _CALL_ADVICE)
    if not tensor_form.has_op(op.name):
        return node_of(op, _UNKNOWN_OP, _ADVICE)
    values = [*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)]
    if strange := next((v.type for v in values if not tensor_form.has_type(v.type)), None):
        return node_of(op, _UNKNOWN_TYPE.format(strange), _TYPE_ADVICE)
    return None
