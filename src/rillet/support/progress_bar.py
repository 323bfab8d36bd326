"""A progress bar for compiles that take long, when a person is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]

# A bar that flashes by is noise.
_SHOW_AFTER_SECONDS = 1.0


@contextmanager
def bar(title: str, custom: Progress | None = None) -> Iterator[Progress]:
    """Yield a function to report (finished, total) to: ``custom``, a terminal bar, or one that does nothing without a
    terminal."""
    if custom is not None:
        yield custom
        return
    if sys.stderr is None or not sys.stderr.isatty():  # None: it was closed before the start, as daemons do
        yield lambda finished, total: None
        return
    from tqdm import tqdm

    started = time.monotonic()
    display = tqdm(desc=title, unit="kernel", leave=False, file=sys.stderr, delay=_SHOW_AFTER_SECONDS)

    def report(finished: int, total: int) -> None:
        display.total = total
        display.n = finished
        if time.monotonic() - started >= _SHOW_AFTER_SECONDS:
            display.refresh()

    try:
        yield report
    finally:
        display.close()
