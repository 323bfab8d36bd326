"""Sets of code points as sorted runs, and the named ones of RE2's syntax."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

Runs = tuple[tuple[int, int], ...]  # first and last code point of each, ascending, not touching

LAST = 0x10FFFF
LAST_CASED = 0x1FFFF  # upper and lower case lie in the first two planes
ANY: Runs = ((0, LAST),)


def union(runs: Iterable[tuple[int, int]]) -> Runs:
    """The code points of any of ``runs``, which may overlap."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return tuple(result)


def complement(runs: Runs) -> Runs:
    """All code points but these."""
    result = []
    start = 0
    for first, last in runs:
        if start < first:
            result.append((start, first - 1))
        start = last + 1
    return (*result, (start, LAST)) if start <= LAST else tuple(result)


def of(characters: str) -> Runs:
    """The code points of a text; ``a-z`` stands for a run where the dash is between two characters."""
    runs = []
    at = 0
    while at < len(characters):
        if at + 2 < len(characters) and characters[at + 1] == "-":
            runs.append((ord(characters[at]), ord(characters[at + 2])))
            at += 3
        else:
            runs.append((ord(characters[at]), ord(characters[at])))
            at += 1
    return union(runs)


# Perl's classes are ASCII in RE2, and \s has no vertical tab.
PERL: dict[str, Runs] = {"d": of("0-9"), "s": of("\t\n\f\r "), "w": of("0-9A-Za-z_")}
POSIX: dict[str, Runs] = {
    "alnum": of("0-9A-Za-z"),
    "alpha": of("A-Za-z"),
    "ascii": ((0, 0x7F),),
    "blank": of("\t "),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": of("0-9"),
    "graph": of("!-~"),
    "lower": of("a-z"),
    "print": of(" -~"),
    "punct": of("!-/:-@[-`{-~"),
    "space": ((9, 13), (32, 32)),
    "upper": of("A-Z"),
    "word": of("0-9A-Za-z_"),
    "xdigit": of("0-9A-Fa-f"),
}


@cache
def category(name: str) -> Runs | None:
    """The code points of a Unicode general category (``L``, ``Lu``) of the version that this Python knows, or None."""
    if name == "Any":
        return ANY
    found = union((c, c) for c in range(LAST + 1) if unicodedata.category(chr(c)).startswith(name))
    return found or None


@cache
def _orbits() -> dict[int, tuple[int, ...]]:
    """The code points that are equal when case does not count, for each that is not alone."""
    groups: dict[str, list[int]] = {}
    for code_point in range(LAST_CASED + 1):
        character = chr(code_point)
        upper = character.upper()
        lower = (upper if len(upper) == 1 else character).lower()
        key = lower if len(lower) == 1 else character
        groups.setdefault(key, []).append(code_point)
    return {c: tuple(group) for group in groups.values() if len(group) > 1 for c in group}


def fold(runs: Runs) -> Runs:
    """The code points of ``runs`` and those that differ from one of them by case only."""
    added = [
        (other, other)
        for code_point, others in _orbits().items()
        if any(first <= code_point <= last for first, last in runs)
        for other in others
    ]
    return union([*runs, *added])
