"""The number of threads worth using on this machine."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable

_SYSTEM = "/sys"


@functools.cache
def available_cores() -> int:
    """Cores that this process may use: those of its CPU affinity, at most what its control group grants.

    Hyper-threads of one core count once: kernels keep a core's arithmetic units busy with one thread.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = count_cores(os.sched_getaffinity(0), _SYSTEM)
    quota = cpu_quota(_SYSTEM)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def count_cores(cpus: Iterable[int], system: str) -> int:
    """The number of cores that ``cpus`` belong to, by ``system``'s topology; without one, each is its own."""
    siblings = set()
    for cpu in cpus:
        try:
            siblings.add(_read(f"{system}/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        except OSError:
            siblings.add(str(cpu))
    return max(1, len(siblings))


def cpu_quota(system: str) -> float | None:
    """CPUs' worth of time that the control group grants (version 2 of the interface); None for no limit."""
    try:
        quota, period = _read(f"{system}/fs/cgroup/cpu.max").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
