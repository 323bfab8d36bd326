"""What this machine can do: its name, its measured multiply-add peak and its measured copy bandwidth."""

from __future__ import annotations

import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rillet import targets
from rillet.analysis.roofs import Roofs

_COPY_BYTES = 128 << 20
_FMA_ROUNDS = 20_000_000


def cpu_name() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def identify() -> dict[str, Any]:
    """CPU, cores, load."""
    return {"cpu": cpu_name(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def describe(threads: list[int]) -> dict[str, Any]:
    """`identify`; by thread count the FMA peak (GFLOP/s) and the copy bandwidth (GB/s, reads plus writes)."""
    facts = identify()
    roofs = Roofs(targets.host())
    facts["fma_gflops"] = {n: round(_fma(roofs, n), 1) for n in threads}
    facts["copy_gbs"] = {n: round(_copy(roofs, n), 1) for n in threads}
    return facts


def _fma(roofs: Roofs, threads: int) -> float:
    return _best(lambda _: roofs.multiply_add(_FMA_ROUNDS), threads, sum) / 1e9


def _copy(roofs: Roofs, threads: int) -> float:
    buffers = [(np.zeros(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)) for _ in range(threads)]
    return _best(lambda index: roofs.copy(*buffers[index]), threads, sum) / 1e9


def _best(run: Any, threads: int, amount: Any) -> float:
    """The best rate of five tries with `run` on every thread at once."""
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            results = list(pool.map(run, range(threads)))
            rates.append(amount(results) / (time.perf_counter() - start))
    return max(rates)
