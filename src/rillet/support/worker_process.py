"""Worker processes: separate interpreters that answer requests, one pickle after another.

They are no forks, since MLIR and LLVM state cannot be shared across a fork. They do not use ``multiprocessing``, whose
spawn would import the caller's ``__main__`` again. Both ends are this package, so pickle crosses no trust boundary.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def start(module: str) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs ``module``, which calls ``serve``."""
    source_root = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(p for p in (source_root, environment.get("PYTHONPATH")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the parent, which ends its workers itself
    )


def ask(process: subprocess.Popen[bytes], *request: Any) -> Any:
    """Send a request and return the worker's answer. Raises OSError, EOFError, ValueError or UnpicklingError when it
    died."""
    assert process.stdin and process.stdout
    pickle.dump(request, process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a worker at once, even in the middle of a request."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(OSError):  # unsent data has no reader any more
                stream.close()


def serve(answer: Callable[..., Any]) -> None:
    """In the worker: answer requests from standard input on standard output until input ends."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    elsewhere = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    os.dup2(elsewhere, sys.stdout.fileno())  # a stray print must not corrupt the replies
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            pickle.dump(answer(*request), replies)
            replies.flush()
        except BrokenPipeError:  # the parent is gone
            return
