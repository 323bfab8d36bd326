"""Extents of the kernel's inner tensors, derived from the ops that make them."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen import index
from rillet.codegen.emit import views
from rillet.codegen.emit.views import Scalars
from rillet.codegen.index import Index
from rillet.errors import CompileError
from rillet.ir.extents import reassociation
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC


def extents_of(kernel: Scalars, value: ir.Value) -> list[Index]:
    """The extents of a tensor that an op computes. Raises ``CompileError`` for an op that does not say its shape."""
    op = defining(value)
    if op is None:
        raise CompileError(f"kernel @{kernel.function.name}: a loop-carried tensor must have static extents")
    shape = list(ir.RankedTensorType(value.type).shape)
    if op.name in ("tensor.empty", "tensor.splat"):
        dynamic_sizes = iter(list(op.operands)[1 if op.name == "tensor.splat" else 0 :])
        return [kernel.scalar(next(dynamic_sizes)) if s == DYNAMIC else s for s in shape]
    if op.name in ("linalg.generic", "linalg.fill"):
        results = len(op.results)
        number = ir.OpResult(value).result_number
        return kernel.extents(list(op.operands)[len(op.operands) - results + number])
    if op.name == "tensor.cast":
        return kernel.extents(op.operands[0])
    if op.name == "tensor.insert_slice":
        return kernel.extents(op.operands[1])
    if op.name == "tensor.insert":
        return kernel.extents(op.operands[1])
    if op.name == "tensor.extract_slice":
        _, sizes, _ = views.slice_parameters(kernel, op)
        kept = views.kept_axes(len(sizes), sizes, shape, value.type)
        return [s for axis, s in enumerate(sizes) if axis in kept]
    if op.name == "tensor.pad":
        low, high = views.pad_amounts(kernel, op)
        source = kernel.extents(op.operands[0])
        return [index.add(index.add(lo, s), hi) for lo, s, hi in zip(low, source, high, strict=True)]
    if op.name == "tensor.concat":
        axis = ir.IntegerAttr(op.attributes["dim"]).value
        extents = kernel.extents(op.operands[0])
        for operand in list(op.operands)[1:]:
            extents[axis] = index.add(extents[axis], kernel.extents(operand)[axis])
        return extents
    if op.name == "tensor.expand_shape":
        return views.mixed(
            kernel, list(ir.DenseI64ArrayAttr(op.attributes["static_output_shape"])), list(op.operands)[1:]
        )
    if op.name == "tensor.collapse_shape":
        source = kernel.extents(op.operands[0])
        return [index.product([source[a] for a in group]) for group in reassociation(op)]
    if op.name == "tensor.reshape":
        return _reshape_extents(kernel, op, shape)
    raise CompileError(f"kernel @{kernel.function.name}: the extents of {op.name}'s result are not known")


def _reshape_extents(kernel: Scalars, op: ir.Operation, shape: list[int]) -> list[Index]:
    source = op.operands[1].owner
    if isinstance(source, ir.Block) or source.operation.name != "tensor.from_elements":
        raise CompileError(f"kernel @{kernel.function.name}: tensor.reshape needs its shape as tensor.from_elements")
    sizes: list[Index] = []
    for extent, operand in zip(shape, source.operation.operands, strict=True):
        if extent != DYNAMIC:
            sizes.append(extent)
            continue
        scalar = kernel.scalar(operand)
        if not isinstance(scalar.type, ir.IndexType):
            scalar = arith.IndexCastOp(ir.IndexType.get(), scalar).result
        sizes.append(scalar)
    return sizes
