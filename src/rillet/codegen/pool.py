"""Compiles kernels in this process and in worker processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from rillet.codegen.backends import backend_of
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.errors import CompileError
from rillet.support import worker_process
from rillet.targets import Target

# A process costs about as much to start as this many jobs.
_JOBS_WORTH_A_PROCESS = 10
_WORKER = "rillet.codegen.worker"


@dataclass(frozen=True)
class Job:
    """One kernel to compile: its name, its module's text, target and options."""

    name: str
    text: str
    target: Target
    options: CodegenOptions


Finish = Callable[[int, CompiledKernel | CompileError], None]  # (number of the job, outcome)


class Pool:
    """At most ``workers`` processes, this one included (None: one for each core). The others start when there is work
    for them (``eager``: with the first jobs, however few) and end with ``close``."""

    def __init__(self, workers: int | None = None, *, eager: bool = False):
        self._eager = eager
        self._workers = workers or os.cpu_count() or 1
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._lock = threading.Lock()  # held to replace a process and to end all

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def compile(self, jobs: Sequence[Job], finish: Finish) -> None:
        """Compile all jobs, calling ``finish`` with each outcome as it comes. When ``finish`` raises, the pool must be
        closed.

        This process compiles too, and begins while the others still start.
        """
        worthwhile = len(jobs) if self._eager else len(jobs) // _JOBS_WORTH_A_PROCESS
        wanted = min(self._workers - 1, worthwhile)
        self._processes += [worker_process.start(_WORKER) for _ in range(wanted - len(self._processes))]
        # Long texts first: they tend to be the long compiles, and the tail of the schedule stays short.
        pending: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in sorted(range(len(jobs)), key=lambda n: -len(jobs[n].text)):
            pending.put(number)
        finished: queue.SimpleQueue[tuple[int, CompiledKernel | CompileError]] = queue.SimpleQueue()
        for slot in range(len(self._processes)):
            threading.Thread(target=self._drive, args=(slot, pending, finished, jobs), daemon=True).start()
        for _ in jobs:
            with contextlib.suppress(queue.Empty):
                number = pending.get_nowait()
                job = jobs[number]
                finished.put((number, outcome_of(job.text, job.target, job.options)))
            finish(*finished.get())

    def close(self) -> None:
        """End the processes at once, even in the middle of a job."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                worker_process.end(process)

    def _drive(
        self,
        slot: int,
        pending: queue.SimpleQueue[int],
        finished: queue.SimpleQueue[tuple[int, CompiledKernel | CompileError]],
        jobs: Sequence[Job],
    ) -> None:
        """Feed one process from the queue until the queue is empty; a process that dies costs its job and is
        replaced."""
        while True:
            try:
                number = pending.get_nowait()
            except queue.Empty:
                return
            job, process = jobs[number], self._processes[slot]
            try:
                finished.put((number, worker_process.ask(process, job.text, job.target, job.options)))
            except (OSError, EOFError, ValueError, pickle.UnpicklingError):
                with self._lock:
                    if self._closed:
                        return
                    code = process.poll()
                    worker_process.end(process)
                    self._processes[slot] = worker_process.start(_WORKER)
                message = f"the compiler process died (status {code}) while compiling kernel '{job.name}'"
                finished.put((number, CompileError(message)))


def outcome_of(text: str, target: Target, options: CodegenOptions) -> CompiledKernel | CompileError:
    """Compile a kernel's text. Errors are returned; a bug of the code generator is returned with its traceback."""
    try:
        compiled: CompiledKernel = backend_of(target).compile(text, target, options)
        return compiled
    except CompileError as error:
        return error
    except Exception:
        return CompileError(f"internal error in code generation:\n{traceback.format_exc()}")
