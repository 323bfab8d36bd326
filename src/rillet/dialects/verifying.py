"""Parts that the verifiers of several dialects share. A verifier reports at the operation and returns whether it is
valid."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir


def error(op: ir.Operation, message: str) -> bool:
    """Report that ``op`` is invalid; False, for the verifier to return."""
    op.location.emit_error(f"'{op.name}' {message}")
    return False


def one_of(op: ir.Operation, name: str, allowed: Sequence[str] | Sequence[int]) -> bool:
    """Whether attribute ``name``, a string or an integer, has one of the ``allowed`` values."""
    attribute = op.attributes.get(name, None)
    if isinstance(attribute, ir.StringAttr | ir.IntegerAttr) and attribute.value in allowed:
        return True
    return error(op, f"{name} must be one of {', '.join(map(str, allowed))}")
