"""Exports built by GNU tools, in C and in static mode, run on emulated boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rillet
from tests.support import export_graphs as graphs
from tests.support import firmware, gnu_tools


@pytest.mark.parametrize(("mode", "level"), [("c", "-O2"), ("static", "-Os")])
@pytest.mark.parametrize("target", gnu_tools.GNU)
def test_a_recurrence(target: str, mode: str, level: str, tmp_path: Path) -> None:
    gnu_tools.require(target)
    firmware.require_emulator(target)
    module = rillet.compile(graphs.lstm(), target=target)
    exported = module.export(tmp_path / "model", mode=mode)

    def build(target: str, folder: Path, name: str, *own: str) -> Path:
        return gnu_tools.build(target, folder, name, level, *own)

    image = firmware.link(module, exported, build)
    x = np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)
    got, _ = firmware.run(module, image, [x])
    for a, b in zip(got, rillet.compile(graphs.lstm())(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    stack, peak = firmware.used_memory(image, got)
    assert exported.figures.stack is not None and stack <= exported.figures.stack
    assert peak <= exported.figures.arena
