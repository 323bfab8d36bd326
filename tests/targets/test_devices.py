"""Devices that other packages describe wrongly are named, with the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rillet
from rillet.errors import CompileError
from rillet.support.plugins import Plugins
from rillet.targets import devices
from rillet.targets.devices import Device, resolve

IDENTITY = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"


def made() -> Device:
    """What the entry point gives; each case replaces it."""
    raise NotImplementedError


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package whose device "npu" is what ``made`` gives."""
    folder = tmp_path / "rillet_npu-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: rillet-npu\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[rillet.devices]\nnpu = {__name__}:made\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(devices, "DEVICES", Plugins("device", Device, devices._BUILT_IN))
    yield


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"macs_per_us": 0}, "macs_per_us must be a finite number above 0, not 0"),
        ({"bytes_per_us": -1}, "bytes_per_us must be a finite number above 0, not -1"),
        ({"macs_per_us": float("nan")}, "macs_per_us must be a finite number above 0, not nan"),
        ({"bytes_per_us": float("inf")}, "bytes_per_us must be a finite number above 0, not inf"),
        ({"macs_per_us": 10**400}, "macs_per_us must be a finite number above 0, not 1"),
        ({"macs_per_us": True}, "macs_per_us must be a finite number above 0, not True"),
        ({"bytes_per_us": None}, "bytes_per_us must be a finite number above 0, not None"),
        ({"link_bytes_per_us": 0.0}, "link_bytes_per_us must be a finite number above 0, not 0.0"),
        ({"launch_us": -1.0}, "launch_us must be a finite number from 0 on, not -1.0"),
        ({"sync_us": "3"}, "sync_us must be a finite number from 0 on, not '3'"),
        ({"driver": ""}, "driver must be the name of a driver, not ''"),
        ({"driver": None}, "driver must be the name of a driver, not None"),
        ({"target": 3}, "target must be the name of a target, not 3"),
        ({"target": "vax"}, "target: unknown target 'vax'; known targets: host, "),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_wrong_field_is_named(fields: dict[str, object], fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"name": "npu", "driver": "npu", "macs_per_us": 1.0, "bytes_per_us": 1.0}
    monkeypatch.setitem(globals(), "made", lambda: Device(**{**right, **fields}))
    message = re.escape(f"device 'npu' of the package rillet-npu: {fault}")
    with pytest.raises(CompileError, match=message):
        resolve("npu")
    with pytest.raises(CompileError, match=message):
        rillet.compile(IDENTITY, device=("cpu-sync", "npu"))


@pytest.mark.usefixtures("installed")
def test_the_fewest_and_the_least_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device("npu", "npu", 1, 0.5, launch_us=0, sync_us=0, link_bytes_per_us=1, target="x86-64-v2")
    monkeypatch.setitem(globals(), "made", lambda: device)
    assert resolve(("cpu-sync", "npu"))[1] is device


def test_a_built_in_one_has_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "made", lambda: Device("npu", "npu", 0, 1))
    monkeypatch.setattr(devices, "DEVICES", Plugins("device", Device, {"npu": f"{__name__}:made"}))
    with pytest.raises(CompileError, match=r"^device 'npu': macs_per_us must be"):
        resolve("npu")
