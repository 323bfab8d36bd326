"""The roofs of this machine: what the loops count, how shares are taken, which target a module's code was made for."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.analysis import roofs
from rillet.analysis.roofs import Roofline, Roofs
from rillet.errors import CompileError


def smallest_target() -> targets.Target:
    """One that any machine of this architecture runs."""
    here = [t for t in map(targets.get, targets.names()) if t.runs_here]
    return min(here, key=lambda t: t.machine.rank)


@pytest.mark.parametrize("target", [targets.host(), smallest_target()], ids=lambda t: t.name)
def test_work_is_counted(target: targets.Target) -> None:
    machine = Roofs(target)
    chains = 3 * target.machine.vector_registers // 4
    assert machine.multiply_add(10) == 10 * 2 * chains * target.machine.lanes(32)
    source, copied = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    assert machine.copy(copied, source) == 128
    np.testing.assert_array_equal(source, copied)
    assert machine.copy(copied, source, times=3) == 3 * 128


def test_both_roofs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofs, "_PEAK_SECONDS", 0.001)
    monkeypatch.setattr(roofs, "_COPY_SECONDS", 0.001)
    monkeypatch.setattr(roofs, "_LARGEST_COPY", 1 << 16)
    roofline = roofs.measure(Roofs(targets.host()), [1 << 12, 0, 1, 1 << 12, 1 << 20])
    assert roofline.peak > 1e8
    assert set(roofline.copies) == {1, 1 << 12, 1 << 20} and roofline.copies[1 << 20] > 1e8


def test_the_roof_that_binds_is_named() -> None:
    roofline = Roofline(peak=100e9, copies={1000: 10e9})
    assert roofline.share(operations=50, size=0, seconds=1e-9) == (pytest.approx(0.5), "compute")
    assert roofline.share(operations=50, size=1000, seconds=1e-6) == (pytest.approx(0.1), "memory")
    assert roofline.share(operations=50_000, size=1000, seconds=1e-6) == (pytest.approx(0.5), "compute")


def test_code_is_of_the_target_with_its_features() -> None:
    target = smallest_target()
    assert roofs.target_of(target.machine.arch, reversed(target.machine.features)) == target
    with pytest.raises(CompileError, match="no target of this version has exactly the features avx512_new"):
        roofs.target_of(target.machine.arch, ["avx512_new"])
