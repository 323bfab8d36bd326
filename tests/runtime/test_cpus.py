"""The default number of threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rillet.runtime.cpus import available_cores, count_cores, cpu_quota


def test_this_machine() -> None:
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))


def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert count_cores({0, 1, 2, 3}, str(tmp_path)) == 2
    assert count_cores({0, 2}, str(tmp_path)) == 1
    assert count_cores({0, 7, 8}, str(tmp_path)) == 3
    assert count_cores((), str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", None), ("150000 100000", 1.5), ("x", None), ("5 0", None)]
)
def test_quotas(tmp_path: Path, text: str, expected: float | None) -> None:
    assert cpu_quota(str(tmp_path)) is None
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpu.max").write_text(text)
    assert cpu_quota(str(tmp_path)) == expected
