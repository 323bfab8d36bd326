"""The functions of the runtime that a host program calls, by the hal operation that stands for the call."""

from __future__ import annotations

from rillet.ir.image import Import

_TABLE = (
    ("hal.constant", "i", "r"),
    ("hal.buffer.allocate", "ii", "r"),
    ("hal.buffer.transient", "ii", "r"),
    ("hal.buffer.subspan", "rii", "r"),
    ("hal.buffer.load", "rii", "i"),
    ("hal.view.create", "rii*", "r"),
    ("hal.view.buffer", "r", "r"),
    ("hal.view.dim", "ri", "i"),
    ("hal.view.check", "riiii*", ""),
    ("hal.check.dim", "iiii", ""),
    ("hal.check.assert", "iiii", ""),
    ("hal.check.size", "iii*", ""),
    ("hal.cmd.create", "ii", "r"),
    ("hal.cmd.constants", "ri*", ""),
    ("hal.cmd.bind", "riiiii", ""),
    ("hal.cmd.dispatch", "ri", ""),
    ("hal.cmd.fill", "riiiii", ""),
    ("hal.cmd.copy", "riiiii", ""),
    ("hal.cmd.barrier", "r", ""),
    ("hal.cmd.end", "r", ""),
    ("hal.execute", "rr*", ""),
    ("hal.fence.create", "", "r"),
    ("hal.fence.join", "r*", "r"),
    ("hal.fence.await", "r", ""),
    ("hal.queue", "rrrr*", ""),
    ("hal.transfer", "irrr", "r"),
)

BY_NAME = {name: Import(name, arguments, results) for name, arguments, results in _TABLE}
# hal.cmd_bind stands for hal.cmd.bind.
BY_OPERATION = {name.replace(".", "_").replace("hal_", "hal.", 1): value for name, value in BY_NAME.items()}
