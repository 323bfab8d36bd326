"""FileCheck for passes: runs them on a module and matches what ``@main`` became with the CHECK lines of a text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from rillet.ir import Program
from rillet.ir.passes import Pass


def lower(
    text: str, passes: Iterable[Pass], until: str | None = None, constants: Mapping[str, np.ndarray] | None = None
) -> Program:
    """Parse ``text``, run ``passes`` up to and including the one named ``until``, verifying after each."""
    program = Program.parse(text)
    for name, array in (constants or {}).items():
        program.constants[name] = array
    for step in passes:
        step(program)
        program.module.operation.verify()
        if step.name == until:
            break
    return program


def main_text(program: Program) -> str:
    """``@main`` as text. (An operation does not keep its module alive: never print one of a temporary program.)"""
    return str(program.main())


def check(output: str, checks: str) -> None:
    """Assert that ``output`` matches the CHECK lines of ``checks``."""
    with tempfile.NamedTemporaryFile("w", suffix=".check") as file:
        file.write(checks)
        file.flush()
        options = Options(match_filename=file.name)
        matcher = Matcher(options, FInput("output", output), Parser.from_opts(options))
        assert matcher.run() == 0, f"{Path(file.name).name} does not match:\n{output}"
