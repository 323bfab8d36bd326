"""The nodes of the source model that an operation comes from, read from its location."""

from __future__ import annotations

from torch_mlir import ir

# Of an operation that is fused from many nodes, a message names this many.
_MOST_NAMES = 3


def names(location: ir.Location) -> list[str]:
    """The names in a location, in order, without repetition."""
    if isinstance(location, ir.NameLoc):
        return [location.name_str]
    if isinstance(location, ir.FusedLoc):
        return list(dict.fromkeys(name for part in location.locations for name in names(part)))
    return []


def label(location: ir.Location) -> str:
    """How a message calls an operation: ``node 'add_3'``. Characters that do not print are shown as ``?``."""
    found = ["".join(c if c.isprintable() else "?" for c in name) for name in names(location)]
    if not found:
        return "the model"
    more = ", ..." if len(found) > _MOST_NAMES else ""
    return f"node{'s' if len(found) > 1 else ''} {', '.join(repr(n) for n in found[:_MOST_NAMES])}{more}"
