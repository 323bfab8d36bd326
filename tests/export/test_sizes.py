"""Bounds of what the deployment modes take, in bytes (``python -m benchmarks.sizes`` prints the measured sizes)."""

from __future__ import annotations

import dataclasses

import models
from benchmarks import sizes
from rillet.export import runtime_library
from rillet.targets import get


def test_runtime_with_its_elf_loader() -> None:
    assert sizes.runtime_size(get("cortex-m4"), runtime_library.MODULE).flash <= 40_000  # error messages included
    quiet = dataclasses.replace(runtime_library.MODULE, definitions=runtime_library.STATIC.definitions)
    assert sizes.runtime_size(get("cortex-m4"), quiet).flash <= 30_000
    assert sizes.runtime_size(get("x86-64-v2"), runtime_library.MODULE).flash <= 60_000


def test_keyword_spotter_in_every_mode() -> None:
    on_arm = sizes.measure(models.build("ds_cnn"), get("cortex-m4"))
    assert set(on_arm) == {"static", "C"}
    assert on_arm["C"].program <= 2_000 and on_arm["C"].runtime == 0
    assert on_arm["C"].kernels <= 24_000
    assert on_arm["static"].total <= 40_000
    here = sizes.measure(models.build("ds_cnn"), get("x86-64-v2"))
    assert list(sorted(here)) == sorted(sizes.MODES)
    assert here["embedded ELF"].kernels < here["shared library"].kernels < here["debug shared library"].kernels
    assert here["C"].total < here["static"].total < here["embedded ELF"].total <= 80_000
