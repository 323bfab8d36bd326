"""Calls in a child process that may die: an oracle that crashes or hangs is one that cannot run the model."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from rillet.frontends.verification import OracleError


class Isolated:
    """``function`` (found by name in its module) with arguments and results that can be pickled.

    Its process starts with the first call, and anew after it has died. Raises the OracleErrors of the function, and one
    of its own when the process dies or takes more than ``seconds``.
    """

    def __init__(self, function: Callable[..., Any], name: str, seconds: float):
        self._function, self._name, self._seconds = function, name, seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection

    def __call__(self, *arguments: Any) -> Any:
        if self._process is None:
            self._start()
        try:
            self._connection.send(arguments)
            if not self._connection.poll(self._seconds):
                raise OracleError(f"{self._name} takes more than {self._seconds} s{self._end()}")
            result = self._connection.recv()
        except (EOFError, ConnectionError):
            raise OracleError(f"{self._name} crashes{self._end()}") from None
        if isinstance(result, OracleError):
            raise result
        return result

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._function, other), daemon=True)
        self._process.start()
        other.close()

    def _end(self) -> str:
        """End the process; its status, where it has ended by itself."""
        assert self._process is not None
        self._connection.close()
        self._process.join(1)
        status = self._process.exitcode
        self._process.kill()
        self._process.join()
        self._process = None
        return "" if status is None else f" (status {status})"


def _serve(function: Callable[..., Any], connection: Connection) -> None:
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            result = function(*arguments)
        except OracleError as error:
            result = error
        connection.send(result)
