"""Compiling for devices whose kernels are of different targets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rillet
from rillet import module as files
from rillet.errors import CompileError
from rillet.placement import assign
from rillet.support.plugins import Plugins
from rillet.targets import devices

TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[8,16] x) => (float[8,16] y) <float[16,16] w>
{ a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) d = Softmax(c) y = Add(d, x) }"""
_OTHERS = {name: f"tests.support.devices:{name}" for name in ("old", "small")}


def model() -> onnx.ModelProto:
    proto = onnx.parser.parse_model(TEXT)
    weights = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    del proto.graph.value_info[:]
    return proto


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more devices."""
    own = {name: f"rillet.targets.devices:{name.replace('-', '_')}" for name in ("cpu-sync", "cpu-task")}
    monkeypatch.setattr(devices, "DEVICES", Plugins("device", devices.Device, own | _OTHERS))


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of x86-64-v2 that runs every other dispatch."""
    register(monkeypatch)
    monkeypatch.setattr(assign, "place", lambda tasks, crossing: [i % 2 for i in range(len(tasks))])


@pytest.mark.usefixtures("old")
def test_each_device_has_a_library_of_what_it_runs() -> None:
    divided = rillet.compile(model(), target=["x86-64-v2", "x86-64-v3"], device=("cpu-sync", "old"), threads=2)
    assert isinstance(divided, rillet.Module)
    contents = files.read_module(divided.to_bytes())
    here, there = contents.devices
    assert (here.libraries, here.first_fact) == ((0, 1), 0)
    assert (there.libraries, there.first_fact) == ((2,), len(contents.libraries[0].entries))
    assert [library.target for library in contents.libraries] == ["x86-64-v3", "x86-64-v2", "x86-64-v2"]
    own, others = (set(contents.libraries[number].entries) for number in (0, 2))
    assert own and others and not own & others
    x = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    alone = rillet.compile(model(), threads=1)
    np.testing.assert_allclose(divided(x), alone(x), rtol=1e-5, atol=1e-6)  # other instructions, other roundings


@pytest.mark.usefixtures("old")
def test_facts_belong_to_their_entries() -> None:
    divided = rillet.compile(model(), device=("cpu-sync", "old"), threads=1)
    alone = rillet.compile(model(), threads=1)
    assert isinstance(divided, rillet.Module) and isinstance(alone, rillet.Module)
    known = {entry["name"]: entry for entry in alone.entries}
    assert {entry["name"]: entry for entry in divided.entries} == known


@pytest.mark.parametrize(
    ("device", "name", "driver", "target"),
    [
        ("cpu-sync", "cpu-sync", "cpu-sync", "host"),
        (("cpu-sync",), "cpu-sync", "cpu-sync", "host"),
        ("cpu-task", "cpu-task", "cpu-task", "host"),
        ("old", "old", "cpu-task", "x86-64-v2"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_device_runs_it_all(
    device: str | tuple[str], name: str, driver: str, target: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    named = rillet.compile(model(), device=device, threads=threads)
    assert isinstance(named, rillet.Module)
    contents = files.read_module(named.to_bytes())
    assert [(d.name, d.driver, d.libraries) for d in contents.devices] == [(name, driver, (0,))]
    assert [library.target for library in contents.libraries] == [target]
    assert [d["runs_on"] for d in named.devices] == [driver]
    x = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32)
    np.testing.assert_allclose(named(x), rillet.compile(model(), threads=1)(x), rtol=1e-5, atol=1e-6)


def test_any_cpu_is_the_default() -> None:
    default, named = rillet.compile(model(), threads=1), rillet.compile(model(), device="cpu", threads=1)
    assert isinstance(default, rillet.Module) and isinstance(named, rillet.Module)
    assert default.to_bytes() == named.to_bytes()
    assert [(d["name"], d["driver"]) for d in default.devices] == [("cpu", "cpu")]


def test_targets_of_devices_share_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    with pytest.raises(CompileError, match="targets host, cortex-m4 of devices cpu-sync, small cannot share constants"):
        rillet.compile(model(), device=("cpu-sync", "small"))
