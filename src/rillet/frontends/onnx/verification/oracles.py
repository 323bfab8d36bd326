"""The two numeric oracles: ONNX Runtime (optional) and onnx's reference evaluator.

Both run in a process of their own (``worker.py``): one that crashes or takes all memory costs its values, no more.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rillet.frontends.verification import Arrays, OracleError
from rillet.support import worker_process

if TYPE_CHECKING:
    import onnx


def run_onnxruntime(model: onnx.ModelProto, feeds: Arrays, outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """The model's outputs by name (those named in ``outputs``, else all) from ONNX Runtime, unoptimized, one thread.

    Raises OracleError when ONNX Runtime is not installed, refuses the model or the inputs, or dies of them.
    """
    if find_spec("onnxruntime") is None:
        raise OracleError(
            "ONNX Runtime is not installed; 'pip install onnxruntime', or verify with the reference evaluator only"
        )
    return _PROCESS.run("ONNX Runtime", model, feeds, outputs)


def run_reference(model: onnx.ModelProto, feeds: Arrays, outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """The model's outputs by name (those named in ``outputs``, else all) from onnx's reference evaluator.

    Raises OracleError when it cannot run the model, or dies of it.
    """
    return _PROCESS.run("reference evaluator", model, feeds, outputs)


ORACLES = {"onnxruntime": run_onnxruntime, "reference": run_reference}


class _Process:
    """The process that the oracles run in: started when it is needed, again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the process that started it; a fork must not ask it
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)
        atexit.register(self.close)

    def run(self, oracle: str, model: onnx.ModelProto, feeds: Arrays, outputs: Sequence[str] | None) -> dict[str, Any]:
        """The outputs by name. Raises OracleError."""
        names = list(outputs) if outputs is not None else [o.name for o in model.graph.output]
        try:
            blob = model.SerializeToString()
        except ValueError as error:
            raise OracleError(f"{oracle}: the model is too large to be handed over: {error}") from error
        with self._lock:
            answer = self._ask(oracle, blob, dict(feeds), names)
        if isinstance(answer, str):
            raise OracleError(f"{oracle}: {answer}")
        return dict(zip(names, answer, strict=True))

    def _ask(self, oracle: str, *request: Any) -> Any:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = worker_process.start(_WORKER), os.getpid()
        try:
            return worker_process.ask(self._process, oracle, *request)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            self._process.wait()
            raise OracleError(f"{oracle} {_death(self._process.returncode)} of this model") from None
        except BaseException:  # an interrupt leaves the answer unread
            worker_process.end(self._process)
            raise

    def _renew_lock(self) -> None:
        """Renew the lock in a fork, which may lack the thread that held it."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._owner == os.getpid():
            worker_process.end(self._process)


_WORKER = "rillet.frontends.onnx.verification.worker"
_PROCESS = _Process()


def _death(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"died ({name}{', as happens where memory runs out' if -status == signal.SIGKILL else ''})"
