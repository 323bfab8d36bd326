"""The device on which a tensor of the host program lives."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir.rewrite import defining

# The same memory under another shape.
VIEWS = ("flow.reshape", "flow.slice")


def home(value: ir.Value) -> str | None:
    """The name of the device that a tensor lives on; None: the first device.

    Arguments, constants of the file and values that control flow carries live on the first device.
    """
    source = defining(viewed(value))
    if source is None:
        return None
    if isinstance(source.attributes.get(flow.DEVICE, None), ir.StringAttr):
        return str(ir.StringAttr(source.attributes[flow.DEVICE]).value)
    return str(ir.StringAttr(source.attributes["device"]).value) if source.name == "flow.transfer" else None


def viewed(value: ir.Value) -> ir.Value:
    """The tensor that a chain of views starts from."""
    while (op := defining(value)) is not None and op.name in VIEWS:
        value = op.operands[0]
    return value


def tensors(op: ir.Operation) -> Iterator[int]:
    """The numbers of the operands that are tensors."""
    return (i for i, value in enumerate(op.operands) if isinstance(value.type, ir.RankedTensorType))


def is_fill(op: ir.Operation) -> bool:
    """Whether ``op`` makes a tensor that a device may have to fill."""
    is_constant = op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType)
    return op.name == "flow.splat" or is_constant
