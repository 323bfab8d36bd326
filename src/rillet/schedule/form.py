"""The form after the stage ``schedule``."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import stream
from rillet.errors import CompileError
from rillet.ir import Program

_DIALECTS = ("stream", "arith", "math", "scf", "func")


def check(program: Program) -> None:
    """Raise ``CompileError`` when ``@main`` still has a tensor, an unordered command or an unpacked constant."""
    with program.context:
        for attribute in ("stream.segments", "stream.entries", "stream.arena_bytes"):
            if attribute not in program.module.operation.attributes:
                raise CompileError(f"internal: the scheduled module lacks '{attribute}'")
        _check(program.main())


def _check(op: ir.Operation) -> None:
    if op.name.split(".")[0] not in _DIALECTS:
        raise CompileError(f"internal: '{op.name}' is left after schedule")
    if op.name == "stream.constant":
        raise CompileError("internal: a constant is left unpacked after schedule")
    if op.name in stream.COMMANDS and op.parent.name != "stream.execute":
        raise CompileError(f"internal: '{op.name}' is outside stream.execute after schedule")
    if op.name == "stream.transfer" and len(op.results) < 2:
        raise CompileError("internal: a transfer signals no fence after schedule")
    for value in (*op.operands, *op.results):
        if isinstance(value.type, ir.RankedTensorType):
            raise CompileError(f"internal: '{op.name}' has a tensor after schedule")
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _check(inner.operation)
