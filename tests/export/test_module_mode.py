"""Module files, bytecode and kernels as an embedded ELF, loaded by the C runtime on Linux without a C library."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest

import models
import rillet
from rillet.driver.module_file import compile_to_bytes
from rillet.frontends.registry import open_model
from rillet.targets import Deployment, Target, get, host
from tests.support import export_graphs as graphs
from tests.support import linux_programs as linux
from tests.support.targets import with_deployment

NETWORKS = ("mnist_cnn", "ds_cnn", "resnet_8", "mobilenet_v1_025", "fc_autoencoder")
TARGETS = ("host", "aarch64", "riscv64gcv")


def check(model: onnx.ModelProto, arrays: list[np.ndarray], target: Target, folder: Path) -> None:
    linux.emulator(target)
    path = folder / "model.rlm"
    rillet.compile(model, target=target.name).save(path)
    wanted = rillet.compile(model)(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for a, b in zip(linux.run(target, path, arrays, list(wanted)), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def target_of(name: str) -> Target:
    """The host's own description says nothing about C; that of its architecture's baseline does."""
    if name != "host":
        return get(name)
    flags = {"x86_64": get("x86-64-v2").deployment.c_flags, "aarch64": get("aarch64").deployment.c_flags}
    deployment = dataclasses.replace(host().deployment, c_flags=flags[host().machine.arch])
    return dataclasses.replace(host(), deployment=deployment)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", TARGETS)
def test_reference_networks(target: str, name: str, tmp_path: Path) -> None:
    check(models.build(name), list(models.inputs(name).values()), target_of(target), tmp_path)


@pytest.mark.parametrize("target", [*TARGETS, "aarch64-dotprod"])
def test_blocks_and_control_flow(target: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    image = random.standard_normal((1, 8, 14, 14)).astype(np.float32)
    check(graphs.inverted_residual(), [image], target_of(target), tmp_path)
    sequence = random.standard_normal((5, 2, 3)).astype(np.float32)
    check(graphs.lstm(), [sequence], target_of(target), tmp_path)


def test_without_a_kernel_the_compiler_says_what_the_processor_has(tmp_path: Path) -> None:
    """A runtime for bare metal counts on the extensions that it is compiled for, and on no others."""
    target, x = get("riscv64gcv"), np.arange(12, dtype=np.float32).reshape(3, 4)
    flags = [f for f in target.deployment.c_flags if not f.startswith("-mcpu")] + ["-U__linux__"]
    path = tmp_path / "model.rlm"
    rillet.compile(graphs.dense(), target=target.name).save(path)
    with_vectors = with_deployment(target, c_flags=(*flags, "-mcpu=baseline_rv64+v"))
    (y,) = linux.run(with_vectors, path, [x], [np.zeros((3, 4), np.float32)])
    np.testing.assert_allclose(y, rillet.compile(graphs.dense())(x), rtol=1e-5)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    without = with_deployment(target, c_flags=(*flags, "-mcpu=baseline_rv64"))
    done = linux.call(without, path, tmp_path / "y.bin", tmp_path / "x.bin")
    assert done.returncode == 1 and "this CPU lacks v" in done.stderr, done.stderr


def test_processors_with_32_bits(tmp_path: Path) -> None:
    """The loader reads ELF-32, whose relocations keep their addends in place on Arm."""
    flags = ("-target", "arm-freestanding-eabihf", "-mcpu=cortex_a7")
    target = dataclasses.replace(get("cortex-m4"), name="arm", deployment=Deployment(c_flags=flags))
    linux.emulator(target)
    path, x = tmp_path / "model.rlm", np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)
    path.write_bytes(compile_to_bytes(open_model(graphs.lstm()), targets=[target]))
    wanted = list(rillet.compile(graphs.lstm())(x))
    for a, b in zip(linux.run(target, path, [x], wanted), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_static_mode_on_linux(tmp_path: Path) -> None:
    """The runtime and the kernels linked into a program for AArch64, without a heap and a C library."""
    target = get("aarch64")
    linux.emulator(target)
    module = rillet.compile(graphs.lstm(), target=target.name)
    x = np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)
    program = linux.link(target, module, module.export(tmp_path / "model", mode="static"))
    wanted = list(rillet.compile(graphs.lstm())(x))
    for a, b in zip(linux.run_program(target, program, [x], wanted), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_the_runner_says(tmp_path: Path) -> None:
    target = target_of("host")
    path, output, empty, data = (tmp_path / n for n in ("model.rlm", "out.bin", "empty.bin", "data.bin"))
    rillet.compile(graphs.dense(), target="host").save(path)
    empty.write_bytes(b"")
    data.write_bytes(bytes(44))

    def says(*arguments: str | Path) -> str:
        done = linux.call(target, *arguments)
        assert done.returncode
        return done.stderr.strip()

    assert says() == "usage: rlt-run MODULE OUTPUT [INPUT...]"
    assert says("none.rlm", output) == "rlt-run: 'none.rlm' cannot be opened"
    assert says(empty, output) == f"rlt-run: '{empty}' is empty or cannot be mapped"
    assert says(data, output).startswith("rlt-run: not a Rillet module")
    assert says(path, output) == "rlt-run: the model has 1 inputs, but 0 files were given"
    assert says(path, output, data).endswith("data.bin' has 44 bytes, but input 'x' takes 48")
    data.write_bytes(bytes(48))
    assert says(path, tmp_path / "no" / "folder", data).endswith("folder' cannot be written")
    rillet.compile(graphs.dense("N"), target="host").save(path)
    assert says(path, output, data) == "rlt-run: input 'x' has a dynamic shape: compile the model with a fixed one"


def test_a_module_for_another_processor(tmp_path: Path) -> None:
    path = tmp_path / "model.rlm"
    rillet.compile(graphs.dense(), target="aarch64", jobs=1).save(path)
    other = target_of("host") if host().machine.arch != "aarch64" else get("riscv64gcv")
    done = linux.call(other, path, tmp_path / "out.bin", path)
    assert done.returncode == 1 and "compiled for aarch64 (aarch64); this CPU is" in done.stderr
