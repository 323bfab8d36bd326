"""Regions on tensors without dimensions, such as a comparison or an update, as code on scalars.

Upstream's conversion makes ``linalg.generic``s of their ops. In a device loop there are scalars only.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.errors import UnsupportedFeature
from rillet.ir import builders
from rillet.ir.rewrite import clone_operations, defining
from rillet.ir.structured import structured

_SAME = ("tensor.cast", "tensor.extract", "tensor.from_elements", "tensor.collapse_shape", "tensor.expand_shape")


def compute(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """The results of ``block`` for scalar ``arguments``, computed at the insertion point.

    Raises UnsupportedFeature for a region that is more than arithmetic on scalars.
    """
    scalars: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
    *operations, terminator = (o.operation for o in block.operations)
    for op in operations:
        _compute(op, scalars)
    return [_scalar(v, scalars) for v in terminator.operands]


def _compute(op: ir.Operation, scalars: dict[ir.Value, ir.Value]) -> None:
    view = structured(op)
    if view is not None and view.loops == 0:
        inner = {a: _scalar(v, scalars) for a, v in zip(view.body.arguments, view.inputs, strict=False)}
        clone_operations(view.body_ops(), inner)
        scalars.update(zip(op.results, (inner.get(v, v) for v in view.yielded()), strict=True))
    elif op.name == "linalg.fill" or (op.name in _SAME and len(op.operands) == 1):
        scalars[op.results[0]] = _scalar(op.operands[0], scalars)
    elif op.name.startswith(("arith.", "math.", "complex.")) and not _has_tensors(op):
        clone_operations([op], scalars)
    elif op.name not in ("tensor.empty", "arith.constant"):  # these are made where they are needed
        raise UnsupportedFeature(f"its region holds {op.name}, which is no arithmetic on scalars")


def _scalar(value: ir.Value, scalars: dict[ir.Value, ir.Value]) -> ir.Value:
    if value in scalars or not isinstance(value.type, ir.RankedTensorType):
        return scalars.get(value, value)
    owner = defining(value)
    if owner is not None and owner.name == "arith.constant":
        element = ir.DenseElementsAttr(owner.attributes["value"]).get_splat_value()
        return arith.ConstantOp(ir.RankedTensorType(value.type).element_type, element).result
    return builders.extract(value, [])  # from around the region


def _has_tensors(op: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.ShapedType) for v in (*op.operands, *op.results))
