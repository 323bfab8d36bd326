"""Worker processes: answers in turn, prints that do no harm, and an end at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rillet.support import worker_process

Start = Callable[[str], worker_process.subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a worker whose ``answer`` is this function's text."""
    started = []

    def begin(answer: str) -> worker_process.subprocess.Popen[bytes]:
        text = f"import os\nfrom rillet.support import worker_process\n{answer}\nworker_process.serve(answer)\n"
        (tmp_path / "answering_worker.py").write_text(text)
        started.append(worker_process.start("answering_worker"))
        return started[-1]

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield begin
    for process in started:
        worker_process.end(process)


def test_requests_are_answered_in_turn_whatever_is_printed(start: Start) -> None:
    process = start("def answer(a, b):\n    print('noise')\n    return {'sum': a + b}")
    assert [worker_process.ask(process, n, 1) for n in range(3)] == [{"sum": 1}, {"sum": 2}, {"sum": 3}]


def test_a_worker_that_dies_is_noticed(start: Start) -> None:
    process = start("def answer():\n    os._exit(3)")
    with pytest.raises((OSError, EOFError)):
        worker_process.ask(process)
    assert process.wait() == 3


def test_a_busy_worker_is_ended(start: Start) -> None:
    process = start("import time\ndef answer():\n    time.sleep(600)")
    assert process.poll() is None
    worker_process.end(process)
    assert process.poll() is not None
