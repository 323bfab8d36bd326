"""Every refusal of a node says what the user can do."""

from __future__ import annotations

import ast
from pathlib import Path

import rillet.frontends.onnx

_FOLDER = Path(rillet.frontends.onnx.__file__).parent


def test_refusals_have_advice() -> None:
    bare = []
    for path in sorted(_FOLDER.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "UnsupportedFeature":
                continue
            starred = any(isinstance(a, ast.Starred) for a in call.args)
            if not starred and len(call.args) + len(call.keywords) < 2:
                bare.append(f"{path.relative_to(_FOLDER)}:{call.lineno}")
    assert not bare, "UnsupportedFeature without advice: " + ", ".join(bare)
