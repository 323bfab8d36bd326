"""The flow dialect: a host program of dispatches over tensors (docs/reference/flow-form.md).

Annotations are evaluated by the dialect machinery, so this file has no ``from __future__ import annotations``.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Result

from rillet.dialects.verifying import error


class Flow(ext.Dialect, name="flow"):
    """Host-side views and accesses of tensors. A dispatch itself is a ``func.call`` of a kernel's declaration."""


class ReshapeOp(Flow.Operation, name="reshape", traits=[ext.Pure]):
    """The same elements in the same order under another shape."""

    out: Result[Any]
    source: Operand[Any]
    result_dims: Sequence[Operand[Any]]

    def verify_invariants(self) -> bool:
        op = self.operation
        if not _verify_elements(op, self.source.type, op.results[0].type):
            return False
        source, out = ir.RankedTensorType(self.source.type), ir.RankedTensorType(op.results[0].type)
        if source.has_static_shape and out.has_static_shape and _size(source) != _size(out):
            return error(op, "source and result must have the same number of elements")
        return _verify_dims(op, [out], self.result_dims)


class SliceOp(Flow.Operation, name="slice", traits=[ext.Pure]):
    """A contiguous run of elements of the source, starting at element ``offset``."""

    out: Result[Any]
    source: Operand[Any]
    offset: Operand[ir.IndexType]
    result_dims: Sequence[Operand[Any]]

    def verify_invariants(self) -> bool:
        op = self.operation
        if not _verify_elements(op, self.source.type, op.results[0].type):
            return False
        source, out = ir.RankedTensorType(self.source.type), ir.RankedTensorType(op.results[0].type)
        if source.has_static_shape and out.has_static_shape and _size(source) < _size(out):
            return error(op, "the result must not have more elements than the source")
        return _verify_dims(op, [out], self.result_dims)


class LoadOp(Flow.Operation, name="load", traits=[ext.Pure]):
    """The host reads the element at linear position ``offset``."""

    out: Result[Any]
    source: Operand[Any]
    offset: Operand[ir.IndexType]

    def verify_invariants(self) -> bool:
        return _verify_elements(self.operation, self.source.type, self.operation.results[0].type)


class SplatOp(Flow.Operation, name="splat", traits=[ext.Pure]):
    """A tensor filled with one scalar."""

    out: Result[Any]
    value: Operand[Any]
    result_dims: Sequence[Operand[Any]]

    def verify_invariants(self) -> bool:
        if not _verify_elements(self.operation, self.operation.results[0].type, self.value.type):
            return False
        return _verify_dims(self.operation, [self.operation.results[0].type], self.result_dims)


def load() -> None:
    """Load the dialect into the current context."""
    Flow.load()


def _size(tensor: ir.RankedTensorType) -> int:
    size = 1
    for extent in tensor.shape:
        size *= extent
    return size


def _verify_elements(op: ir.Operation, tensor: ir.Type, other: ir.Type) -> bool:
    """``tensor`` is a tensor; ``other`` is a tensor or a scalar of the same element type."""
    if not isinstance(tensor, ir.RankedTensorType):
        return error(op, f"takes and makes ranked tensors, not '{tensor}'")
    element = ir.RankedTensorType(other).element_type if isinstance(other, ir.RankedTensorType) else other
    if ir.RankedTensorType(tensor).element_type != element:
        return error(op, "must have one element type throughout")
    return True


def _verify_dims(op: ir.Operation, types: Sequence[ir.Type], dims: Sequence[ir.Value]) -> bool:
    dynamic = sum(ir.RankedTensorType(t).is_dynamic_dim(i) for t in types for i in range(ir.RankedTensorType(t).rank))
    if dynamic != len(dims):
        return error(op, f"has {len(dims)} result dimensions for {dynamic} dynamic extents")
    if any(not isinstance(d.type, ir.IndexType) for d in dims):
        return error(op, "result dimensions must be of type index")
    return True
