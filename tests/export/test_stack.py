"""The stack that C mode states is enough for the C file, at whatever level GNU compilers and Clang build it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import models
import rillet
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.export.figures import kernel_stack
from rillet.targets import get
from tests.support import export_graphs as graphs
from tests.support import firmware, gnu_tools

MODELS = {
    "many dispatches": lambda: models.build("ds_cnn"),
    "recurrence": graphs.lstm,
    "loop": graphs.loop,
    "condition": graphs.condition,
}


def exported(model: onnx.ModelProto, target: str, folder: Path) -> int:
    """The stated stack for the host program, in bytes."""
    module = rillet.compile(model, target=target)
    figures = module.export(folder, name="m").figures
    kernels = kernel_stack(module._build())
    assert figures.stack is not None
    assert f"The stack is {kernels} bytes for the kernels" in (folder / "README.md").read_text()
    return figures.stack - kernels


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", gnu_tools.GNU)
def test_gnu_compilers_keep_within_the_stack(target: str, name: str, tmp_path: Path) -> None:
    gnu = gnu_tools.require(target)
    stated = exported(MODELS[name](), target, tmp_path)
    for level in gnu_tools.LEVELS:
        options = [*gnu.options, level, "-std=c11", "-ffreestanding", "-fstack-usage"]
        gnu_tools.run(gnu, [*options, "-c", "m.c", "-o", "m.o"], tmp_path)
        frames = [line.split("\t") for line in (tmp_path / "m.su").read_text().splitlines()]
        assert all(kind == "static" for _, _, kind in frames), frames
        assert 0 < sum(int(size) for _, size, _ in frames) <= stated, level


@pytest.mark.parametrize("target", gnu_tools.GNU)
def test_clang_keeps_within_the_stack(target: str, tmp_path: Path) -> None:
    stated = exported(graphs.lstm(), target, tmp_path)
    for level in gnu_tools.LEVELS:
        options = [*get(target).deployment.c_flags, *firmware.COMPILE, level, "-Wno-unused-command-line-argument"]
        firmware.zig("cc", *options, "-S", tmp_path / "m.c", "-o", tmp_path / "m.s")
        assert 0 < stack_bytes((tmp_path / "m.s").read_text()) <= stated, level
