"""Submitted calls: ``Module.submit`` returns them."""

from __future__ import annotations

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
        is not done in time; ``result`` can be called again then.
        """
        if not self._waiting.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError("the call is not done yet")
        try:
            results = self._native.result(None if timeout is None else int(max(0.0, timeout) * 1e9))
        except RunError as error:
            raise self._blame(error) from None
        finally:
            self._waiting.release()
        return self._finish(results)
