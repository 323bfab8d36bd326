"""Device descriptions: the driver that makes a program's device, the place of its memory, and its speed."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rillet.errors import CompileError
from rillet.support.plugins import Plugins
from rillet.targets import catalog


@dataclass(frozen=True)
class Device:
    """Something that executes command buffers.

    - ``driver``: the name of the runtime's driver that makes it.
    - ``target``: the name of its kernels' target; None: the targets that the program is compiled for.
    - ``link_bytes_per_us``: how fast memory is copied between the host and the device's own memory; None where the
      device works in the host's memory.

    Placement compares the other numbers: multiply-accumulates and operand bytes in each microsecond, the fixed
    microseconds of a dispatch, and the microseconds until another device goes on with its results.
    """

    name: str
    driver: str
    macs_per_us: float
    bytes_per_us: float
    launch_us: float = 1.0
    sync_us: float = 10.0
    link_bytes_per_us: float | None = None
    target: str | None = None

    @property
    def has_host_memory(self) -> bool:
        """Whether it reads and writes the host's memory, as every CPU device does."""
        return self.link_bytes_per_us is None


# The program's only device, unless other devices are named: any CPU driver runs it.
CPU = Device("cpu", "cpu", macs_per_us=20_000, bytes_per_us=10_000)


def cpu() -> Device:
    """Any CPU driver."""
    return CPU


def cpu_sync() -> Device:
    """One core, which takes its commands in order."""
    return Device("cpu-sync", "cpu-sync", macs_per_us=20_000, bytes_per_us=10_000)


def cpu_task() -> Device:
    """A pool of threads, whose number is only known where the file is loaded."""
    return Device("cpu-task", "cpu-task", macs_per_us=30_000, bytes_per_us=15_000, launch_us=2.0)


_BUILT_IN = {name: f"{__name__}:{name.replace('-', '_')}" for name in ("cpu", "cpu-sync", "cpu-task")}
# Devices of other packages are found by the entry points ``rillet.devices``.
DEVICES: Plugins[Device] = Plugins("device", Device, _BUILT_IN)


def resolve(names: str | Sequence[str] | None) -> tuple[Device, ...]:
    """The devices called ``names``, in order; None: the one device "cpu".

    Raises ``CompileError`` for an unknown name, a name that is given twice, a device with a field that cannot be, and a
    first device with memory of its own: the first one holds the program's inputs and results.
    """
    if names is None:
        return (CPU,)
    known = f"known devices: {', '.join(DEVICES.names())}"
    if isinstance(names, bytes | bytearray) or not isinstance(names, str | Sequence):
        raise CompileError(f"device must be a name or several, not {names!r}; {known}")
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise CompileError(f"name at least one device; {known}")
    for name in wanted:
        if wanted.count(name) > 1:
            raise CompileError(f"device '{name}' is named twice: a program has each device once")
    return check([_get(name) for name in wanted])


def check(devices: Sequence[Device]) -> tuple[Device, ...]:
    """``devices``, if a program can have them in this order; see ``resolve``."""
    first, *others = devices
    if not first.has_host_memory:
        advice = f"name a device that works in the host's memory first, such as '{CPU.name}'"
        raise CompileError(f"device '{first.name}' cannot come first, since inputs and results live there: {advice}")
    return (first, *others)


def _get(name: str) -> Device:
    """The device called ``name``, with fields that make sense."""
    device = DEVICES.get(name)
    fault = _fault(device)
    if fault:
        package = DEVICES.package(name)
        raise CompileError(f"device '{name}'{f' of the package {package}' if package else ''}: {fault}")
    return device


def _fault(device: Device) -> str | None:
    """What is wrong with the first field that cannot be as it is; None: nothing."""
    if not isinstance(device.driver, str) or not device.driver:
        return f"driver must be the name of a driver, not {device.driver!r}"
    for field in ("macs_per_us", "bytes_per_us", "link_bytes_per_us"):
        speed = getattr(device, field)
        if field == "link_bytes_per_us" and speed is None:
            continue
        if not (_is_number(speed) and speed > 0):
            return f"{field} must be a finite number above 0, not {speed!r}"
    for field in ("launch_us", "sync_us"):
        time = getattr(device, field)
        if not (_is_number(time) and time >= 0):
            return f"{field} must be a finite number from 0 on, not {time!r}"
    if device.target is None:
        return None
    if not isinstance(device.target, str):
        return f"target must be the name of a target, not {device.target!r}"
    try:
        catalog.get(device.target)
    except CompileError as error:
        return f"target: {error}"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and value <= sys.float_info.max
