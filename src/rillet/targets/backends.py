"""The backends: Rillet's own, and those of other packages (entry points ``rillet.backends``).

The list stands here, below the code generator, since a target's description cannot be read without its backend, which
defines the content of ``[machine]``. ``codegen/backend.py`` defines the rest of a backend.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rillet.support.plugins import Plugins
from rillet.targets.target import Machine


@runtime_checkable
class MachineOwner(Protocol):
    """The part of a backend that a target's description needs."""

    name: str
    machine: type[Machine]  # a frozen dataclass


BACKENDS: Plugins[MachineOwner] = Plugins("backend", MachineOwner, {"cpu": "rillet.codegen.cpu.backend:CpuBackend"})
