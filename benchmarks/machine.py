"""What this machine can do: its name, its measured multiply-add peak and its measured copy bandwidth."""

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
    with Probe() as probe:
        facts["fma_gflops"] = {n: round(_fma(probe, n), 1) for n in threads}
        facts["copy_gbs"] = {n: round(_copy(probe, n), 1) for n in threads}
    return facts


class Probe:
    """The roofs as loops compiled for one instruction set: a name of a target such as ``x86-64-v2``, or ``native``.

    Without fused multiply-add in the instruction set the peak is that of multiplications and additions in pairs.
    Use it as a context manager; raises `subprocess.CalledProcessError` for an instruction set that clang does not know.
    """

    def __init__(self, isa: str = "native") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rillet-probe-")
        library = Path(self._folder.name) / "probe.so"
        source = Path(__file__).with_name("probe.c")
        march = isa.replace("-", "_")  # zig's spelling
        command = [sys.executable, "-m", "ziglang", "cc", "-O2", f"-march={march}", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", str(library), str(source)], check=True, capture_output=True)
        self._library = ctypes.CDLL(str(library))
        self._library.probe_fma.argtypes = [ctypes.c_long, ctypes.c_float, ctypes.POINTER(ctypes.c_float)]
        self._library.probe_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def multiply_add(self, rounds: int) -> int:
        """Run that many rounds in registers; returns the floating-point operations done."""
        return rounds * int(self._library.probe_fma(rounds, 0.5, ctypes.byref(ctypes.c_float())))

    def copy(self, target: np.ndarray, source: np.ndarray) -> int:
        """Copy one array to another of the same size; returns the bytes moved, reads plus writes."""
        self._library.probe_copy(target.ctypes.data, source.ctypes.data, source.nbytes)
        return 2 * source.nbytes


def _fma(probe: Probe, threads: int) -> float:
    return _best(lambda _: probe.multiply_add(_FMA_ROUNDS), threads, sum) / 1e9


def _copy(probe: Probe, threads: int) -> float:
    buffers = [(np.zeros(_COPY_BYTES, np.uint8), np.ones(_COPY_BYTES, np.uint8)) for _ in range(threads)]
    return _best(lambda index: probe.copy(*buffers[index]), threads, sum) / 1e9


def _best(run: Any, threads: int, amount: Any) -> float:
    """The best rate of five tries with `run` on every thread at once."""
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            results = list(pool.map(run, range(threads)))
            rates.append(amount(results) / (time.perf_counter() - start))
    return max(rates)
