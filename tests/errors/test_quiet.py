"""Library code prints nothing: it warns, and logs to loggers below ``rillet``. Commands print."""

from __future__ import annotations

import ast

from tests.support.paths import ROOT


def test_the_library_does_not_print() -> None:
    source = ROOT / "src" / "rillet"
    for file in sorted(set(source.rglob("*.py")) - set((source / "cli").rglob("*.py"))):
        calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        names = {function.id for function in calls if isinstance(function, ast.Name)}
        assert "print" not in names, f"{file.relative_to(ROOT)} prints"
