"""What grows: a compile in this process, the table, and the exit status."""

from __future__ import annotations

import pytest

from benchmarks import growth


def test_one_compile_is_measured() -> None:
    cpu, memory = growth.measure("fan-out", 3)
    assert 0 < cpu < 60
    assert 50 < memory < 4000


@pytest.mark.parametrize(("seconds", "megabytes", "status"), [(0.2, 300.0, 0), (0.6, 300.0, 1), (0.2, 1200.0, 1)])
def test_bounds(
    seconds: float,
    megabytes: float,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(growth, "_in_fresh_process", lambda name, nodes: (seconds, megabytes))
    assert growth.main(["--graphs", "chain", "split", "--nodes", "100"]) == status
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table] == ["graph", "chain", "split"]
    assert f"{seconds * 10:.2f} ms" in table[1]
