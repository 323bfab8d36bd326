"""Checks that a host program makes, under AddressSanitizer: every dynamic dimension of the runner's inputs is 3."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support import bytecode_assembler as a
from tests.support.session_runner import run


def image(name: str, ints: list[int], *messages: str) -> a.Image:
    """A function that calls the import ``name`` and returns its argument."""
    p = a.Program()
    code = [a.const(i, value) for i, value in enumerate(ints)]
    main = p.function("main", "r", "r", [*code, p.call(name, range(len(ints))), a.ret(0)])
    made = p.image(main, [a.spec("x", a.F32, "n")], [a.spec("y", a.F32, "n")])
    return dataclasses.replace(made, messages=messages)


CASES = [
    ("hal.check.assert", [1, 0, 5, 7], ["{} and {}"], None),
    ("hal.check.assert", [0, 0, 5, -7], ["{}: {} and {}!"], "INVALID_ARGUMENT: {}: 5 and -7!"),
    ("hal.check.assert", [0, 0, 5, 7], ["{}"], "INVALID_ARGUMENT: {}"),
    ("hal.check.assert", [0, 0, 5, 7], ["{"], "INVALID_ARGUMENT: {"),
    ("hal.check.assert", [0, 0, 5, 7], ["%s%n"], "INVALID_ARGUMENT: %s%n"),
    ("hal.check.assert", [0, 1, 5, 7], ["{} {}", ""], "INVALID_ARGUMENT: "),
    ("hal.check.assert", [0, 1, 5, 7], ["{} {}"], "INVALID_ARGUMENT: a check of the program failed"),
    ("hal.check.assert", [0, -1, 5, 7], [], "INVALID_ARGUMENT: a check of the program failed"),
    ("hal.check.size", [0, 1 << 16, 3, 1 << 30], ["n"], None),
    ("hal.check.size", [0, 1 << 16, 1 << 62, 0, 1 << 62], ["n"], None),
    ("hal.check.size", [0, 1 << 16, 1 << 40], ["n"], "OUT_OF_RANGE: n: a tensor of 1099511627776 is too large"),
    ("hal.check.size", [0, 4, 1 << 62, 4], ["n"], "OUT_OF_RANGE: n: a tensor of 4611686018427387904 x 4 is too large"),
    ("hal.check.size", [0, 4, 0, -1], ["n"], "INVALID_ARGUMENT: n: a dimension of -1"),
    ("hal.check.size", [0, 4], ["n"], None),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "ints", "messages", "expected"), CASES)
def test_checks(
    runner: Path, elf: bytes, tmp_path: Path, name: str, ints: list[int], messages: list[str], expected: str | None
) -> None:
    result = run(runner, a.module(image(name, ints, *messages), a.library(elf)), tmp_path, 1)
    lines = ["float32 [3] sum 3"] * 3 if expected is None else [expected]
    assert result.stdout.splitlines() == lines and not result.stderr
