"""Operations and types that the tensor form lacks and that no conversion has removed."""

from __future__ import annotations

from torch_mlir import ir

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.mlir import conversion, host_scalars
from rillet.ir import locations, tensor_form
from rillet.ir.rewrite import defining
from rillet.ir.structured import dims_in, structured, walk

_UNKNOWN_OP = "no conversion to linalg on tensors is known for it"
_UNKNOWN_TYPE = "{} is no type that Rillet computes with"
_ADVICE = "lower it to linalg, tensor, arith and scf before"
_TYPE_ADVICE = "convert to a numpy type before"
_STATE = "it keeps state between calls"
_STATE_ADVICE = "make the state an argument and a result of the function"
_STATE_OPS = ("tosa.variable_read", "tosa.variable_write", "ml_program.global_load", "ml_program.global_store")
_UNKNOWN_TARGET = "no implementation of the call target @{} is known"
_HOST_SCALAR = "the host would have to compute a scalar of type {}, which it cannot do like this"
_HOST_SCALAR_ADVICE = "compute it by a linalg.generic on a tensor without dimensions"
_PAD = "it pads by a value that depends on the position"
_PAD_ADVICE = "pad by one value, and compute the others by a linalg.generic"
_SCAN = "a result of it has a dimension that the op reduces"
_SCAN_ADVICE = "compute that result by an op of its own"
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
        is_end = op.name.endswith((".return", ".yield"))  # of a region whose op is refused
        if not (is_frame or is_end) and (node := _unsupported(op)):
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
    if op.name == "stablehlo.custom_call":
        return node_of(op, _UNKNOWN_TARGET.format(ir.StringAttr(op.attributes["call_target_name"]).value), _ADVICE)
    if tensor_form.is_of_host(op) and host_scalars.is_strange(op) and next(iter(op.results[0].uses), None):
        return node_of(op, _HOST_SCALAR.format(op.results[0].type), _HOST_SCALAR_ADVICE)
    if not tensor_form.has_op(op.name):
        return node_of(op, _UNKNOWN_OP, _ADVICE)
    if op.name == "tensor.pad" and defining(op.regions[0].blocks[0].operations[-1].operands[0]) in list(walk(op)):
        return node_of(op, _PAD, _PAD_ADVICE)
    if (view := structured(op)) and any(not view.parallel[d] for m in view.init_maps for e in m for d in dims_in(e)):
        return node_of(op, _SCAN, _SCAN_ADVICE)
    values = [*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)]
    if strange := next((v.type for v in values if not tensor_form.has_type(v.type)), None):
        return node_of(op, _UNKNOWN_TYPE.format(strange), _TYPE_ADVICE)
    return None
