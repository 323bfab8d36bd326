"""Rillet's dialects on upstream MLIR: flow, stream, hal, vm. One file each."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects._ods_common import _cext

# Without this the bindings search upstream's package in vain each time they wrap one of our operations.
_cext.globals.append_dialect_search_prefix(__name__)


def load(context: ir.Context) -> None:
    """Load Rillet's dialects into ``context``."""
    from rillet.dialects import flow, hal, stream, vm

    with context, ir.Location.unknown(context):
        flow.load()
        stream.load()
        hal.load()
        vm.load()
