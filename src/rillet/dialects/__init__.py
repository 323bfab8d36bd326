"""Rillet's dialects on upstream MLIR: flow, stream, hal, vm. One file each."""

from __future__ import annotations

from torch_mlir import ir


def load(context: ir.Context) -> None:
    """Load Rillet's dialects into ``context``."""
    from rillet.dialects import flow, hal, stream, vm

    with context, ir.Location.unknown(context):
        flow.load()
        stream.load()
        hal.load()
        vm.load()
