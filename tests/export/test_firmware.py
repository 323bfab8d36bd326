"""The reference networks on emulated microcontrollers: results, instructions, memory.

Instructions are counted exactly and are the same in every run; they are not cycles. The bounds are those the compiler
has to keep, from what the best other compilers for ONNX on bare metal reach under the same emulator.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import models
import rillet
from rillet.driver.module_file import compile_to_bytes
from rillet.frontends.registry import open_model
from rillet.targets import get
from tests.support import export_graphs as graphs
from tests.support import firmware
from tests.support.targets import with_deployment

# Instructions for each multiply-accumulate, at most.
RATIOS = {
    "cortex-m4": {
        "mnist_cnn": 3.0,
        "ds_cnn": 3.0,
        "resnet_8": 2.5,
        "mobilenet_v1_025": 2.5,
        "fc_autoencoder": 3.0,
    },
    "cortex-m55": {
        "mnist_cnn": 1.2,
        "ds_cnn": 1.2,
        "resnet_8": 0.9,
        "mobilenet_v1_025": 0.9,
        "fc_autoencoder": 1.2,
    },
    "riscv32imf": {
        "mnist_cnn": 3.0,
        "ds_cnn": 3.0,
        "resnet_8": 2.5,
        "mobilenet_v1_025": 2.5,
        "fc_autoencoder": 3.0,
    },
}
ARENAS = {
    "mnist_cnn": 50_176,
    "ds_cnn": 64_000,
    "resnet_8": 196_608,
    "mobilenet_v1_025": 294_912,
    "fc_autoencoder": 3_072,
}


def run(
    model: object, arrays: list[np.ndarray], target: str, folder: Path
) -> tuple[rillet.export.Exported, rillet.export.Exported, int]:
    """Compile once; link and run in C and in static mode. Compares the results with this machine's.

    Returns the figures of both, and the instructions of the call in C mode.
    """
    firmware.require_emulator(target)
    module = rillet.compile(model, target=target)
    wanted = rillet.compile(model)(*arrays)
    exported = module.export(folder / "model")
    image = firmware.link(module, exported)
    got, instructions = firmware.run(module, image, arrays)
    check(got, wanted)
    stack, _ = firmware.used_memory(image, got)
    assert exported.figures.stack is not None and stack <= exported.figures.stack
    static = module.export(folder / "static", mode="static")
    image = firmware.link(module, static)
    got, _ = firmware.run(module, image, arrays)
    check(got, wanted)
    stack, peak = firmware.used_memory(image, got)
    print(
        f"{target} static: {stack} of {static.figures.stack} bytes of stack, {peak} of {static.figures.arena} of arena"
    )
    assert 0.5 * static.figures.arena < peak <= static.figures.arena
    assert static.figures.stack is not None and stack <= static.figures.stack <= 4608
    return exported, static, instructions


def check(got: list[np.ndarray], wanted: np.ndarray | tuple[np.ndarray, ...]) -> None:
    for a, b in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ARENAS)
@pytest.mark.parametrize("target", RATIOS)
def test_reference_networks(target: str, name: str, tmp_path: Path) -> None:
    arrays = list(models.inputs(name).values())
    exported, static, instructions = run(models.build(name), arrays, target, tmp_path)
    figures = exported.figures
    print(f"{target} {name}: {instructions / figures.macs:.2f} instructions a MAC; {figures}")
    assert instructions / figures.macs <= RATIOS[target][name]
    assert figures.arena <= ARENAS[name]
    assert figures.arena <= 1.05 * figures.arena_lower_bound
    assert figures.code is not None and figures.stack is not None
    assert figures.code <= 4096
    assert figures.stack <= 2048
    # Session, bytecode, recorded commands and a copy of the outputs come on top of what kernels work on.
    assert static.figures.arena <= figures.arena + 24 * 1024


def test_sizes_of_the_keyword_spotter(tmp_path: Path) -> None:
    exported = rillet.compile(models.build("ds_cnn"), target="cortex-m4", optimize_for_size=True).export(
        tmp_path / "kws"
    )
    assert exported.figures.code is not None
    assert exported.figures.code <= 2048
    assert exported.figures.kernels <= 24 * 1024


# For each target: bytes of kernels with their tables, bytes of the arena, instructions of a frame.
TRANSFORMS = {
    "cortex-m4": (5_120, 2_048, 26_000),
    "cortex-m55": (7_168, 8_192, 10_000),
    "riscv32imf": (5_120, 2_048, 22_000),
}


@pytest.mark.parametrize("target", TRANSFORMS)
def test_fourier_transforms_of_frames(target: str, tmp_path: Path) -> None:
    """Frames of 480 windowed samples, the 30 ms that keyword spotters read."""
    x = np.random.default_rng(0).standard_normal((1, 800)).astype(np.float32) / 32
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    constants = {"step": np.array(160), "window": np.hanning(480).astype(np.float32)}
    inputs, outputs = [graphs.value("x", graphs.FLOAT, [1, 800])], [graphs.value("y", graphs.FLOAT, [1, 3, 241, 2])]
    exported, _, instructions = run(graphs.model([node], inputs, outputs, constants), [x], target, tmp_path)
    print(f"{target}: {instructions // 3} instructions; {exported.figures}")
    most = TRANSFORMS[target]
    assert exported.figures.kernels <= most[0]
    assert exported.figures.arena <= most[1]
    assert instructions <= 3 * most[2]


def test_kernels_are_loaded_into_ram(tmp_path: Path) -> None:
    """A module file in flash: the runtime loads its kernels, an ELF, into memory that the platform has for code."""
    emulator = firmware.require_emulator("cortex-m4")
    target = get("cortex-m4")
    model, (x,) = models.build("ds_cnn"), models.inputs("ds_cnn").values()
    independent = with_deployment(target, has_loader=True, position_independent=True)
    image = firmware.link_loader(
        target, bytes(compile_to_bytes(open_model(model), targets=[independent])), x.nbytes, tmp_path
    )
    (tmp_path / "input.bin").write_bytes(x.tobytes())
    command = [emulator, *firmware.BOARDS[target.name].machine, *firmware.SEMIHOSTING, "-kernel", str(image)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = rillet.compile(model)(x)
    got = np.fromfile(tmp_path / "output.bin", np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", firmware.BOARDS)
def test_host_control_flow(target: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)
    run(graphs.lstm(), [x], target, tmp_path)
