"""Whose turn it is to work with MLIR."""

from __future__ import annotations

import os
import threading

from rillet.errors import CompileError


class Turn:
    """A lock that threads hold while they work with MLIR, whose bindings keep tables of all contexts without a lock.

    A process that is forked while another thread holds it has MLIR's state as that thread left it, with nobody to
    finish its work. There each attempt raises ``CompileError``, where a lock would be waited for forever.
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
        if self._lock.acquire(blocking=False):  # nobody holds it, or the thread that forks
            self._lock.release()
        else:
            self._is_lost = True
