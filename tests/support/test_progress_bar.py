"""Progress: a caller's own report, or a bar for a person who watches, or nothing."""

from __future__ import annotations

import io
import sys

import pytest

from rillet.support import progress_bar


def test_a_callers_report_is_used_as_it_is() -> None:
    seen: list[tuple[int, int]] = []
    with progress_bar.bar("compile", lambda *numbers: seen.append(numbers)) as report:
        report(1, 2)
    assert seen == [(1, 2)]


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["closed", "no terminal"])
def test_nothing_is_shown_where_nobody_watches(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar.bar("compile") as report:
        report(1, 2)
    assert stream is None or stream.getvalue() == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(progress_bar, "_SHOW_AFTER_SECONDS", 0.0)
    with progress_bar.bar("compile") as report:
        report(3, 4)
    assert "compile" in terminal.getvalue() and "3/4" in terminal.getvalue()
