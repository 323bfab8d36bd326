"""Makes dynamic extents explicit: each ``tensor.dim`` becomes the value that the tensor's definition was given."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import Program, builders
from rillet.ir.extents import extent
from rillet.ir.rewrite import CLEANUP, defining, int_constant, run_upstream
from rillet.ir.structured import walk


def run(program: Program, options: None) -> None:
    """Resolve every ``tensor.dim`` but those of arguments of ``@main`` and of tensors that control flow carries."""
    with program.context, ir.Location.unknown():
        for op in list(walk(program.main())):
            if op.name != "tensor.dim":
                continue
            source, axis = op.operands[0], int_constant(op.operands[1])
            if axis is None or defining(source) is None:
                continue
            with ir.InsertionPoint(op), op.location:
                value = builders.as_index(extent(source, axis))
            if value != op.results[0]:
                op.results[0].replace_all_uses_with(value)
                op.erase()
        run_upstream(program.module.operation, CLEANUP)
