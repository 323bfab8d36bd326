"""The nodes of the source model that an operation comes from, read from its location."""

from __future__ import annotations

from torch_mlir import ir

# A message names this many nodes of an operation that is fused from more.
_MOST_NAMES = 3


def names(location: ir.Location) -> list[str]:
    """The names in a location, in order, without repetition."""
    if isinstance(location, ir.NameLoc):
        return [location.name_str]
    if isinstance(location, ir.FusedLoc):
        return list(dict.fromkeys(name for part in location.locations for name in names(part)))
    if isinstance(location, ir.CallSiteLoc):
        return list(dict.fromkeys([*names(location.callee), *names(location.caller)]))
    return []


def place(location: ir.Location) -> str:
    """Where an operation stands in a file: ``line 12:8``, after the file's name where it has one. "" if not known."""
    if isinstance(location, ir.FileLineColLoc):
        file = "" if location.filename == "-" else f"{location.filename}:"
        return f"{file or 'line '}{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return place(location.child_loc)
    parts: list[ir.Location] = []
    if isinstance(location, ir.FusedLoc):
        parts = list(location.locations)
    elif isinstance(location, ir.CallSiteLoc):
        parts = [location.callee, location.caller]
    return next((found for part in parts if (found := place(part))), "")


def label(location: ir.Location) -> str:
    """The name of an operation in messages: ``node 'add_3'``, or its place in a file where it has no name.

    Characters that do not print are shown as ``?``.
    """
    found = ["".join(c if c.isprintable() else "?" for c in name) for name in names(location)]
    if not found:
        return place(location) or "the model"
    more = ", ..." if len(found) > _MOST_NAMES else ""
    return f"node{'s' if len(found) > 1 else ''} {', '.join(repr(n) for n in found[:_MOST_NAMES])}{more}"
