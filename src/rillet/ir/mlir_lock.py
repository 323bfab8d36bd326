"""The lock on MLIR."""

from __future__ import annotations

import os
import threading

from rillet.errors import CompileError


class Turn:
    """A lock that threads hold while they work with MLIR, whose bindings keep tables of all contexts without a lock.

    A process that is forked while another thread holds the lock has MLIR's state in the middle of that thread's work,
    which nobody finishes. Each attempt to take the lock there raises ``CompileError``, where a plain lock would wait
    forever.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_lost = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._look)

    def __enter__(self) -> None:
        if self._is_lost:
            raise CompileError(
                "this process was forked while another thread of its parent compiled, so it cannot compile: fork "
                "before that, or start the process by spawning, as multiprocessing.get_context('spawn') does"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _look(self) -> None:
        if self._lock.acquire(blocking=False):  # no thread holds it, or the forking thread does
            self._lock.release()
        else:
            self._is_lost = True
