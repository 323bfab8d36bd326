"""The flow dialect: a host program of dispatches over tensors (docs/reference/flow-form.md).

Annotations are evaluated by the dialect machinery, so this file has no ``from __future__ import annotations``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext
from torch_mlir.dialects.ext import Operand, Result

from rillet.dialects.verifying import error

# Attributes of kernels.
KERNEL = "flow.kernel"  # on a kernel's module: marks it; on its declaration: the symbol of the module
DIMS = "flow.dims"  # on an argument or result: the numbers of the arguments that hold its dynamic extents
TIED = "flow.tied"  # on a function: pairs (result, argument) whose result is the argument's memory
MAY_ALIAS = "flow.may_alias"  # on a function: pairs (result, argument) that may share memory
WINOGRAD = "flow.winograd"  # on a function: the numbers of the argument with weights and of the one with transforms
ADDS_NOTHING = "flow.adds_nothing"  # on a pad that its reader bound-checks: products with its value are zero

# Attributes that operations have only while dispatches are formed.
REGION = "flow.region"  # the number of the dispatch
STAGE = "flow.stage"  # on the members of a chain, until kernels are simplified
LONG = "flow.long"  # within a chain: the axis of a value along which a row's length must be checked at run time
ARGUMENT = "flow.argument"  # on a constant that every kernel takes as an argument

# Tiles of Winograd's algorithm along one image axis.
WINOGRAD_WINDOW, WINOGRAD_OUTPUTS, WINOGRAD_INPUTS = 3, 2, 4


# On a dispatch or a fill: the name of the device that runs it; on the module: the program's devices, by ordinal.
DEVICE, DEVICES = "flow.device", "flow.devices"


class Flow(ext.Dialect, name="flow"):
    """Host-side views and accesses of tensors. A dispatch itself is a ``func.call`` of a kernel's declaration."""


class ReshapeOp(Flow.Operation, name="reshape", traits=[ext.Pure]):
    """The same elements in the same order under another shape."""

    out: Result[Any]
    source: Operand[Any]
    result_dims: Sequence[Operand[Any]]

    def verify_invariants(self) -> bool:
        """Requires equal element types, equal element counts and an operand for each dynamic extent of the result."""
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
        """Requires equal element types, at most the source's elements, and an operand for each dynamic extent."""
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
        """Requires a result of the source's element type."""
        return _verify_elements(self.operation, self.source.type, self.operation.results[0].type)


class SplatOp(Flow.Operation, name="splat", traits=[ext.Pure]):
    """A tensor filled with one scalar."""

    out: Result[Any]
    value: Operand[Any]
    result_dims: Sequence[Operand[Any]]

    def verify_invariants(self) -> bool:
        """Requires a value of the result's element type and an operand for each dynamic extent of the result."""
        if not _verify_elements(self.operation, self.operation.results[0].type, self.value.type):
            return False
        return _verify_dims(self.operation, [self.operation.results[0].type], self.result_dims)


def dims(function: ir.Operation, side: str, number: int) -> tuple[int, ...]:
    """For each dynamic extent of an argument (``side`` is "arg_attrs") or result ("res_attrs") of a kernel's function
    or declaration: the number of the argument that holds it.
    """
    if side not in function.attributes:
        return ()
    described = ir.DictAttr(ir.ArrayAttr(function.attributes[side])[number])
    return tuple(ir.DenseI64ArrayAttr(described[DIMS])) if DIMS in described else ()


def pairs(function: ir.Operation, attribute: str) -> list[tuple[int, int]]:
    """The pairs (result, argument) of ``TIED`` or ``MAY_ALIAS`` on a kernel's function or declaration."""
    if attribute not in function.attributes:
        return []
    flat = list(ir.DenseI64ArrayAttr(function.attributes[attribute]))
    return list(zip(flat[::2], flat[1::2], strict=True))


class TransferOp(Flow.Operation, name="transfer", traits=[ext.Pure]):
    """The source in memory that the device called ``device`` can use."""

    out: Result[Any]
    source: Operand[Any]
    device: Any

    def verify_invariants(self) -> bool:
        """Requires the same tensor type on both sides and the name of a device."""
        op = self.operation
        if not isinstance(self.source.type, ir.RankedTensorType) or self.source.type != op.results[0].type:
            return error(op, "must have a ranked tensor as its source and a result of the same type")
        if not isinstance(self.device, ir.StringAttr):
            return error(op, "must name a device")
        return True


@dataclass(frozen=True)
class DeviceFacts:
    """One of a program's devices; ``host_memory``: whether it works in the host's memory; ``kernels``: the number of
    the set of kernels that it runs, which devices of one target share.
    """

    name: str
    driver: str
    host_memory: bool
    kernels: int = 0


def devices(module: ir.Module) -> tuple[DeviceFacts, ...]:
    """The program's devices, by ordinal; one CPU when the module names none."""
    if DEVICES not in module.operation.attributes:
        return (DeviceFacts("cpu", "cpu", True),)
    return tuple(
        DeviceFacts(
            ir.StringAttr(facts["name"]).value,
            ir.StringAttr(facts["driver"]).value,
            bool(ir.BoolAttr(facts["host_memory"]).value),
            int(ir.IntegerAttr(facts["kernels"]).value),
        )
        for facts in map(ir.DictAttr, ir.ArrayAttr(module.operation.attributes[DEVICES]))
    )


def load() -> None:
    """Load the dialect into the current context."""
    Flow.load()


def _size(tensor: ir.RankedTensorType) -> int:
    size = 1
    for extent in tensor.shape:
        size *= extent
    return size


def _verify_elements(op: ir.Operation, tensor: ir.Type, other: ir.Type) -> bool:
    """Whether ``tensor`` is a tensor, and ``other`` is a tensor or a scalar of the same element type."""
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
