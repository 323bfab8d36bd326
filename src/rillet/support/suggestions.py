"""What somebody who misspelled a name may have meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

_LIKENESS = 0.7  # of difflib, from 0 to 1: "npu" and "cpu", which are 0.67, are two names

P = ParamSpec("P")
T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the known name that is most like ``name``; "" where none is like it."""
    names = {k.lower(): k for k in known}
    close = get_close_matches(name.lower(), names, 1, _LIKENESS)
    return f" (did you mean '{names[close[0]]}'?)" if close else ""


def suggests_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, whose ``TypeError`` for a keyword that it does not take names the one that may be meant."""
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.POSITIONAL_ONLY]

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                close = did_you_mean(name, known)
                text = f"{function.__name__}() got an unexpected keyword argument '{name}'"
                raise TypeError(f"{text}{close}" if close else f"{text}; it takes {', '.join(known)}")
        return function(*arguments, **keywords)

    return checked
