"""One measurement in a fresh process: ``python -m benchmarks.worker compile|load ENGINE FILE FOLDER [THREADS]``.

Prints one JSON object. A fresh process is what makes peak memory and import time mean something.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

INPUTS_FILE = "inputs.npz"


def peak_bytes() -> int:
    """The largest resident set of this process so far (Linux's VmHWM, which starts afresh at exec)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM line")


def measure_compile(engine_name: str, model: Path, folder: Path) -> dict[str, object]:
    """Seconds from nothing to a written artifact, imports included; no seconds where the model is the artifact."""
    start = time.perf_counter()
    from benchmarks.engines import ENGINES

    artifact = ENGINES[engine_name].compile(model, folder)
    seconds = time.perf_counter() - start
    facts: dict[str, object] = {"artifact": str(artifact), "artifact_bytes": artifact.stat().st_size}
    return facts if artifact == model else facts | {"compile_s": seconds}


def measure_load(engine_name: str, artifact: Path, folder: Path, threads: int) -> dict[str, object]:
    """Seconds to load and to the first answer; peak memory above this process as it was with numpy and the inputs."""
    with np.load(folder / INPUTS_FILE) as stored:
        inputs = {name: stored[name] for name in stored.files}
    from benchmarks.engines import ENGINES

    idle = peak_bytes()
    start = time.perf_counter()
    call, stats = ENGINES[engine_name].load(artifact, inputs, threads)
    loaded = time.perf_counter()
    call()
    first = time.perf_counter()
    for _ in range(3):
        call()
    return {"load_s": loaded - start, "first_call_s": first - loaded, "peak_bytes": peak_bytes() - idle, "stats": stats}


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    kind, engine_name, file, folder, *threads = arguments
    measure = {"compile": measure_compile, "load": measure_load}[kind]
    try:
        facts = measure(engine_name, Path(file), Path(folder), *map(int, threads))
    except Exception as error:  # the harness reports any engine's failure and goes on
        facts = {"error": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
