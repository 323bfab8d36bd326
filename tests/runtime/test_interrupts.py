"""Signals that arrive during a call."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import rillet
from tests.support import bytecode_assembler as a

_LONG = 1 << 40  # hours


@pytest.fixture(scope="module")
def loop() -> rillet.Module:
    """A module that branches as often as its argument, int64[1], says, and returns it."""
    p = a.Program()
    start = [
        p.call("hal.view.buffer", (), [0], (), [1]),
        a.const(0, 0),
        a.const(1, a.I64),
        p.call("hal.buffer.load", [0, 1], [1], [2]),
        a.const(3, 1),
    ]
    head = sum(map(len, start))
    subtract, branch_if, words = 17, 6, 4 + 6
    code = [*start, [subtract, 2, 2, 3], [branch_if, 2, head, 0, head + words, 0], a.ret(0)]
    image = p.image(p.function("main", "r", "r", code), [a.spec("x", a.I64, 1)], [a.spec("y", a.I64, 1)])
    return rillet.load(a.module(image), threads=1)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def as_ctrl_c() -> Iterator[None]:
    """SIGALRM does what SIGINT does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("as_ctrl_c")
def test_an_interrupt_ends_a_long_loop_and_the_module_can_be_called_again(loop: rillet.Module) -> None:
    for _ in range(2):
        begun = time.monotonic()
        with alarm(0.1), pytest.raises(KeyboardInterrupt):
            loop(np.array([_LONG]))
        assert 0.1 <= time.monotonic() - begun < 10
        np.testing.assert_array_equal(loop(np.array([1000])), [1000])


def test_a_handler_that_raises_nothing_lets_the_call_go_on(loop: rillet.Module) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        with alarm(0.02):
            while not seen:
                loop(np.array([1 << 24]))
    finally:
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(loop(np.array([1000])), [1000])


@pytest.mark.usefixtures("as_ctrl_c")
def test_only_the_main_thread_is_interrupted(loop: rillet.Module) -> None:
    results: list[object] = []
    other = threading.Thread(target=lambda: results.append(loop(np.array([1 << 26]))))
    other.start()
    with alarm(0.05), pytest.raises(KeyboardInterrupt):
        loop(np.array([_LONG]))
    other.join()
    np.testing.assert_array_equal(np.asarray(results[0]), [1 << 26])
