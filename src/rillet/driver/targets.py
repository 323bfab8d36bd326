"""The targets of one compilation: their order, and the packing that their files share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rillet.errors import CompileError
from rillet.targets import Packing, Target, get
from rillet.targets.devices import Device


def resolve_targets(target: str | Sequence[str]) -> list[Target]:
    """The named targets, best first, in the order in which the loader tries them."""
    if isinstance(target, bytes | bytearray) or not isinstance(target, str | Sequence):
        raise CompileError(f"target must be a name or several, not {target!r}; 'rillet targets' lists them")
    names = [target] if isinstance(target, str) else list(target)
    if not names:
        raise CompileError("name at least one target; 'rillet targets' lists them")
    targets = list(dict.fromkeys(get(name) for name in names))
    if len({(t.packing.columns, t.machine.arch) for t in targets}) > 1:
        raise CompileError(
            f"targets {', '.join(names)} cannot share one file, since they differ in architecture or packing: "
            "compile for each by itself"
        )
    return sorted(targets, key=lambda t: t.machine.rank, reverse=True)


def targets_of_devices(devices: Sequence[Device], targets: Sequence[Target]) -> list[list[Target]]:
    """The targets of each set of kernels: devices of one target share a set; devices without a target use
    ``targets``."""
    names = dict.fromkeys(device.target for device in devices)
    sets = [list(targets) if name is None else [get(name)] for name in names]
    if len({target.packing.columns for those in sets for target in those}) > 1:
        shown = ", ".join(dict.fromkeys(target.name for those in sets for target in those))
        raise CompileError(
            f"targets {shown} of devices {', '.join(device.name for device in devices)} cannot share constants, since "
            "they differ in packing: choose another target"
        )
    return sets


def packed_alike(targets: Sequence[Target]) -> Target:
    """The first target; its 8-bit constants are packed for the others too, step by step where those differ."""
    first, *others = targets
    if all(t.packing == first.packing for t in others):
        return first
    return dataclasses.replace(first, packing=Packing(first.packing.columns))
