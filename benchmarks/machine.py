"""What this machine can do: its name, its measured FMA peak and its measured copy bandwidth."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

_COPY_BYTES = 128 << 20
_FMA_ROUNDS = 20_000_000


def cpu_name() -> str:
    """The processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe(threads: list[int]) -> dict[str, Any]:
    """CPU, cores, load; by thread count the FMA peak (GFLOP/s) and the copy bandwidth (GB/s, reads plus writes)."""
    facts: dict[str, Any] = {"cpu": cpu_name(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}
    with tempfile.TemporaryDirectory() as folder:
        library = _build(Path(folder))
        facts["fma_gflops"] = {n: round(_fma(library, n), 1) for n in threads}
        facts["copy_gbs"] = {n: round(_copy(library, n), 1) for n in threads}
    return facts


def _build(folder: Path) -> ctypes.CDLL:
    library = folder / "probe.so"
    source = Path(__file__).with_name("probe.c")
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-march=native", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True, capture_output=True)
    loaded = ctypes.CDLL(str(library))
    loaded.probe_fma.argtypes = [ctypes.c_long, ctypes.c_float, ctypes.POINTER(ctypes.c_float)]
    loaded.probe_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return loaded


def _fma(library: ctypes.CDLL, threads: int) -> float:
    def run(_: int) -> int:
        return library.probe_fma(_FMA_ROUNDS, 0.5, ctypes.byref(ctypes.c_float()))

    return _best(run, threads, lambda results: sum(results) * _FMA_ROUNDS) / 1e9


def _copy(library: ctypes.CDLL, threads: int) -> float:
    buffers = [(np.zeros(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)) for _ in range(threads)]

    def run(index: int) -> int:
        target, source = buffers[index]
        library.probe_copy(target.ctypes.data, source.ctypes.data, _COPY_BYTES)
        return 2 * _COPY_BYTES

    return _best(run, threads, sum) / 1e9


def _best(run: Any, threads: int, amount: Any) -> float:
    """The best rate of five tries with `run` on every thread at once."""
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            results = list(pool.map(run, range(threads)))
            rates.append(amount(results) / (time.perf_counter() - start))
    return max(rates)
