"""Interleaved timing in this process, and compile, load and memory figures from fresh ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.engines import Call

_SETTLE_S = 0.02
"""Pause before an engine's turn: thread pools of the engine before it may still spin."""


def interleaved(calls: Mapping[str, Call], seconds: float, rounds: int) -> dict[str, list[float]]:
    """Seconds of each call by engine, over `rounds` turns each of about ``seconds / rounds``.

    Every turn begins with one call that does not count. The order rotates, so that no engine always follows the
    same one.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        first = turn % max(len(names), 1)
        for name in names[first:] + names[:first]:
            call, samples = calls[name], times[name]
            time.sleep(_SETTLE_S)
            call()
            end = time.perf_counter() + seconds / rounds
            while True:
                start = time.perf_counter()
                call()
                stop = time.perf_counter()
                samples.append(stop - start)
                if stop >= end:
                    break
    return times


def in_fresh_process(kind: str, engine: str, file: Path, folder: Path, *threads: int) -> dict[str, Any]:
    """Run `benchmarks.worker` and return its facts, with ``tree_peak_bytes`` of it and its children together."""
    root = Path(__file__).resolve().parent.parent
    paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # Installed packages come with their bytecode; a checkout makes its own the first time, unless it is told not to.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks.worker", kind, engine, str(file), str(folder), *map(str, threads)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=root
    )
    watcher = _TreePeak(process.pid)
    watcher.start()
    out, err = process.communicate()
    watcher.stop()
    lines = out.strip().splitlines()
    if process.returncode or not lines:
        reason = err.strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        return {"error": reason[0][:500]}
    return json.loads(lines[-1]) | {"tree_peak_bytes": watcher.peak}


class _TreePeak(threading.Thread):
    """Samples the resident memory of a process and its descendants; shared pages count once for each process."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._pid, self._done = pid, threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.02):
            self.peak = max(self.peak, _tree_resident(self._pid))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _tree_resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0  # it has just ended
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_tree_resident(int(child)) for child in children)
