"""Submitted calls: ``Module.submit`` returns them."""

from __future__ import annotations

import numbers
import threading
from collections.abc import Callable

import numpy as np

from rillet.errors import RunError
from rillet.runtime import _native

Results = tuple[np.ndarray, ...]


class Pending:
    """A submitted call. It keeps its module and its inputs until the work is done; any thread may ask for the results.

    It can be dropped at any time: the work goes on, and its results are lost.
    """

    def __init__(
        self,
        native: _native.Pending,
        finish: Callable[[Results], np.ndarray | Results],
        blame: Callable[[RunError], RunError],
    ) -> None:
        """``finish`` makes the caller's results from the runtime's arrays; ``blame`` puts an error in the model's
        words."""
        self._native = native
        self._finish = finish
        self._blame = blame
        self._waiting = threading.Lock()  # the native object is for one thread at a time

    def done(self) -> bool:
        """Whether ``result`` would not wait."""
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._native.done()
        finally:
            self._waiting.release()

    def result(self, timeout: float | None = None) -> np.ndarray | Results:
        """Wait for the call, at most ``timeout`` seconds (None: no limit), and return what calling the module returns.

        Every call gives the same results. Raises ``RunError`` with the error of the work, and ``TimeoutError`` when it
        is not done in time; ``result`` can be called again then. Raises ``RunError`` for a timeout that is no number
        from 0 on, too; infinity is no limit.
        """
        seconds = _seconds(timeout)
        if not self._waiting.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError("the call is not done yet")
        try:
            results = self._native.result(None if seconds is None else int(seconds * 1e9))
        except RunError as error:
            raise self._blame(error) from None
        finally:
            self._waiting.release()
        return self._finish(results)


def _seconds(timeout: float | None) -> float | None:
    """How long ``result`` waits; None, no limit, also where ``timeout`` is more than the system's clocks can count."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real) or not timeout >= 0:
        raise RunError(f"timeout must be a number of seconds from 0 on, or None for no limit, not {timeout!r}")
    return None if timeout > threading.TIMEOUT_MAX else float(timeout)
