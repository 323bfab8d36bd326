"""One measurement in a fresh process: ``python -m benchmarks.worker compile|load ENGINE FILE FOLDER [THREADS]``.

Prints one JSON object. A fresh process is what makes peak memory and import time mean something.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from benchmarks import inputs
from benchmarks.engines import ENGINES


def peak_bytes() -> int:
    """The largest resident set of this process so far (Linux's VmHWM, which starts afresh at exec)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM line")


def measure_compile(engine_name: str, model: Path, folder: Path) -> dict[str, object]:
    """Seconds from nothing to a written artifact, imports included; none where the model is the artifact.

    ``compile_s``: by the clock; ``compile_cpu_s``: of the processors, child processes included.
    """
    start, used = time.perf_counter(), _processor_seconds()
    artifact = ENGINES[engine_name].compile(model, folder)
    seconds, used = time.perf_counter() - start, _processor_seconds() - used
    facts: dict[str, object] = {"artifact": str(artifact), "artifact_bytes": artifact.stat().st_size}
    return facts if artifact == model else facts | {"compile_s": seconds, "compile_cpu_s": used}


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure_load(engine_name: str, artifact: Path, folder: Path, threads: int) -> dict[str, object]:
    """Seconds to load and to the first answer; peak memory above this process as it was with numpy and the inputs."""
    arrays = inputs.load(folder)
    idle = peak_bytes()
    start = time.perf_counter()
    call, stats = ENGINES[engine_name].load(artifact, arrays, threads)
    loaded = time.perf_counter()
    call()
    first = time.perf_counter()
    for _ in range(3):
        call()
    return {"load_s": loaded - start, "first_call_s": first - loaded, "peak_bytes": peak_bytes() - idle, "stats": stats}


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    kind, engine_name, file, folder, *threads = arguments
    try:
        if kind == "compile":
            facts = measure_compile(engine_name, Path(file), Path(folder))
        else:
            facts = measure_load(engine_name, Path(file), Path(folder), int(threads[0]))
    except Exception as error:  # the harness reports any engine's failure and goes on
        facts = {"error": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
