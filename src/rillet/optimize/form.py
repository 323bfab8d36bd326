"""Checks the tensor form (docs/reference/tensor-form.md)."""

from __future__ import annotations

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import Program, tensor_form
from rillet.ir.structured import walk


def check(program: Program) -> None:
    """Raise ``CompileError`` unless the program is in tensor form."""
    program.module.operation.verify()
    for op in program.module.body.operations:
        _check_top(program, op.operation)
    for op in walk(program.main()):
        if not tensor_form.has_op(op.name):
            raise CompileError(f"internal: '{op.name}' is not part of the tensor form")
        if op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType) and not _is_shape(op):
            attribute = op.attributes["value"]
            if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
                raise CompileError("internal: a constant that is not a splat must be an external global")


def _is_shape(constant: ir.Operation) -> bool:
    """Whether a constant is only the target shape of reshapes, which never reaches memory."""
    uses = list(constant.results[0].uses)
    return bool(uses) and all(u.owner.name == "tensor.reshape" and u.operand_number == 1 for u in uses)


def _check_top(program: Program, op: ir.Operation) -> None:
    if op.name not in ("func.func", "ml_program.global"):
        raise CompileError(f"internal: '{op.name}' beside @main")
    name = ir.StringAttr(op.attributes["sym_name"]).value
    if op.name == "func.func" and name != "main":
        raise CompileError(f"internal: function @{name} beside @main")
    if op.name != "ml_program.global":
        return
    type_ = ir.RankedTensorType(ir.TypeAttr(op.attributes["type"]).value)
    array = program.constants.get(name)
    if array is None:
        raise CompileError(f"internal: external constant @{name} has no array")
    if tuple(array.shape) != tuple(type_.shape):
        raise CompileError(f"internal: constant @{name} is {type_}, its array has shape {array.shape}")
