"""Runs seeds in a child process, which is started anew after a crash or a hang: each is reported with its seed."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.paths import ROOT


def results(module: str, first: int, count: int, seconds: float) -> Iterator[tuple[int, Any]]:
    """(seed, what the worker reports) for each seed.

    ``module`` is run with ``--worker --seed S --count N`` and calls ``work``. What a seed that ends the process, or
    takes more than ``seconds``, gets is ``("crash", why)``.
    """
    seed, end = first, first + count
    while seed < end:
        command = [sys.executable, "-m", module, "--worker", "--seed", str(seed), "--count", str(end - seed)]
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
            for line in _lines(child, seconds):
                yield seed, json.loads(line)
                seed += 1
            hung = child.poll() is None and not _ends(child)
            if hung:
                child.kill()
            status = child.wait()
            if seed < end:
                errors.seek(0)
                yield seed, ["crash", "hang" if hung else f"status {status}: {errors.read()[-2000:]}"]
                seed += 1


def work(seeds: Iterable[int], run: Callable[[int], Any]) -> None:
    """The child's side: report ``run(seed)``, which is JSON, for each seed."""
    for seed in seeds:
        print(json.dumps(run(seed)), flush=True)


def _ends(child: subprocess.Popen[str]) -> bool:
    """Whether the child's output has ended, so that the child is about to."""
    assert child.stdout is not None
    return bool(selectors_ready(child.stdout, 0)) and not child.stdout.readline()


def selectors_ready(stream: Any, seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _lines(child: subprocess.Popen[str], seconds: float) -> Iterator[str]:
    """Lines of the child's output until it ends or says nothing for too long."""
    assert child.stdout is not None
    while selectors_ready(child.stdout, seconds):
        line = child.stdout.readline()
        if not line:
            return
        yield line
