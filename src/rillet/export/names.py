"""C identifiers for a model, its inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RESERVED = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
bool true false asm class delete new operator private protected public template this throw try catch using
virtual main arena
"""
_KEYWORDS = frozenset(_RESERVED.split())


def identifier(text: str) -> str:
    """``text`` as a C (and C++) identifier."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "model"
    if name[0].isdigit():
        name = f"m{name}"
    return f"{name}_" if name in _KEYWORDS else name


def distinct(texts: Iterable[str]) -> list[str]:
    """Identifiers for ``texts``; a number tells equal ones apart."""
    names: list[str] = []
    for text in texts:
        name, suffix = identifier(text), 1
        while name.lower() in {n.lower() for n in names}:
            suffix += 1
            name = f"{identifier(text)}_{suffix}"
        names.append(name)
    return names
