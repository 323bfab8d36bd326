"""C identifiers for a model, its inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A model of these names would have a header that hides one of the C library's or of a board's, a source file that
# overwrites the example, or a library that CMake takes for one of its own commands.
_TAKEN_NAMES = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
alloca features fcntl malloc memory new poll sched strings types unistd arduino
main rillet rlt
all all_build clean depend edit_cache help install list_install_components none package package_source
rebuild_cache run_tests test uninstall zero_check app zephyr
"""
_TAKEN = frozenset(_TAKEN_NAMES.split())


def identifier(text: str) -> str:
    """``text`` as part of a C (and C++) identifier: no digit first, no two underscores."""
    name = re.sub(r"[\W_]+", "_", text, flags=re.ASCII).strip("_") or "model"
    return f"m{name}" if name[0].isdigit() else name


def model_name(text: str) -> str:
    """The name of a model's functions, files and library."""
    name = identifier(text)
    return f"{name}_model" if name.lower() in _TAKEN else name


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
