"""flow → flow: which device runs each dispatch, and transfers where a value crosses devices."""

from __future__ import annotations

from collections.abc import Sequence

from rillet.ir.passes import Pass
from rillet.placement import assign, transfers
from rillet.placement.form import check
from rillet.targets.devices import CPU, Device

__all__ = ["check", "passes"]


def passes(devices: Sequence[Device]) -> list[Pass]:
    """The passes of this stage, in order. A program for any one CPU needs none: a module that names no devices is for
    that."""
    if tuple(devices) == (CPU,):
        return []
    return [
        Pass("assign-devices", "placement", assign.run, assign.Options(tuple(devices))),
        Pass("insert-transfers", "placement", transfers.run),
    ]
