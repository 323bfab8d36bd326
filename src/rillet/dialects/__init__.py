"""Rillet's dialects on upstream MLIR: flow, stream, hal, vm. One file each. ``linalg.py`` has upstream's op classes."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects._ods_common import _cext

# Where the bindings look for an operation's class. Ours come first: upstream's package is searched in vain for our
# operations, and its linalg is slow to import.
_cext.globals.dialect_search_modules = [__name__, *_cext.globals.dialect_search_modules]


def load(context: ir.Context) -> None:
    """Load Rillet's dialects into ``context``."""
    from rillet.dialects import flow, hal, stream, vm

    with context, ir.Location.unknown(context):
        flow.load()
        stream.load()
        hal.load()
        vm.load()
