"""Compiles the executables of a program for one target: cached by content, in parallel, linked into one ELF."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rillet.codegen import cache
from rillet.codegen.link import link_embedded_elf
from rillet.codegen.result import CodegenOptions, CompiledExecutable
from rillet.errors import CompileError
from rillet.targets import Target

Progress = Callable[[int, int], None]  # (finished, total)

# Below this many misses a worker's start-up costs more than it saves.
_MISSES_WORTH_WORKERS = 3


def compile_library(
    executables: Sequence[tuple[str, str]],
    target: Target,
    options: CodegenOptions,
    *,
    jobs: int | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[bytes, list[CompiledExecutable]]:
    """``compile_parts``, linked into an embedded ELF: its bytes, and the parts."""
    compiled = compile_parts(
        executables, target, options, jobs=jobs, cache_directory=cache_directory, progress=progress
    )
    return link_embedded_elf(compiled, target), compiled


def compile_parts(
    executables: Sequence[tuple[str, str]],
    target: Target,
    options: CodegenOptions,
    *,
    jobs: int | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> list[CompiledExecutable]:
    """Compile ``executables``, pairs of (name, module text), in order.

    ``jobs`` is the number of worker processes (default: one a core); ``cache_directory`` None means no cache.
    Raises ``CompileError`` naming the executable that failed.
    """
    store = cache.ObjectCache(cache_directory) if cache_directory else None
    keys = [cache.key(text, target, options) for _, text in executables]
    results: list[CompiledExecutable | None] = [store.get(k) if store else None for k in keys]
    misses = [i for i, result in enumerate(results) if result is None]
    report = progress or (lambda finished, total: None)
    report(len(results) - len(misses), len(results))

    def finish(index: int, compiled: CompiledExecutable) -> None:
        results[index] = compiled
        if store:
            store.put(keys[index], compiled)
        report(sum(r is not None for r in results), len(results))

    workers = min(jobs or os.cpu_count() or 1, len(misses))
    if workers <= 1 or len(misses) < _MISSES_WORTH_WORKERS:
        _compile_here(executables, misses, target, options, finish)
    else:
        _compile_in_workers(executables, misses, target, options, workers, finish)
    return [r for r in results if r is not None]


def _compile_here(
    executables: Sequence[tuple[str, str]],
    indices: Sequence[int],
    target: Target,
    options: CodegenOptions,
    finish: Callable[[int, CompiledExecutable], None],
) -> None:
    from rillet import codegen

    for index in indices:
        finish(index, codegen.compile_executable(executables[index][1], target, options))


def _compile_in_workers(
    executables: Sequence[tuple[str, str]],
    indices: Sequence[int],
    target: Target,
    options: CodegenOptions,
    workers: int,
    finish: Callable[[int, CompiledExecutable], None],
) -> None:
    """Feed ``workers`` subprocesses from one queue, each by a thread; the first failure ends all of them."""
    # Long texts first: they tend to be the long compiles, and the tail of the schedule stays short.
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in sorted(indices, key=lambda i: -len(executables[i][1])):
        pending.put(index)
    finished: queue.SimpleQueue[tuple[int, CompiledExecutable | BaseException]] = queue.SimpleQueue()
    processes = [_start_worker() for _ in range(workers)]
    threads = [
        threading.Thread(target=_drive, args=(process, pending, finished, executables, target, options), daemon=True)
        for process in processes
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in indices:
            index, outcome = finished.get()
            if isinstance(outcome, BaseException):
                raise outcome
            finish(index, outcome)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()


def _drive(
    process: subprocess.Popen[bytes],
    pending: queue.SimpleQueue[int],
    finished: queue.SimpleQueue[tuple[int, CompiledExecutable | BaseException]],
    executables: Sequence[tuple[str, str]],
    target: Target,
    options: CodegenOptions,
) -> None:
    assert process.stdin and process.stdout
    while True:
        try:
            index = pending.get_nowait()
        except queue.Empty:
            return
        name, text = executables[index]
        try:
            pickle.dump((text, target, options), process.stdin)
            process.stdin.flush()
            finished.put((index, pickle.load(process.stdout)))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = process.poll()
            message = f"the compiler process died (status {code}) while compiling executable '{name}'"
            finished.put((index, CompileError(message)))
            return


def _start_worker() -> subprocess.Popen[bytes]:
    source_root = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(p for p in (source_root, environment.get("PYTHONPATH")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", "rillet.codegen.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the parent, which ends its workers itself
    )
