"""Counts what a piece of code calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def called(body: Callable[[], object]) -> int:
    """How many functions of Python and of C ``body`` calls, those that they call included; the second time, so that
    what is remembered is."""
    body()
    calls: list[str] = []

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(event)

    sys.setprofile(count)
    try:
        body()
    finally:
        sys.setprofile(None)
    return len(calls) - 2  # ``body`` itself, and ``setprofile``
