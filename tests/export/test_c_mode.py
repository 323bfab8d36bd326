"""The C that a host program becomes, compiled for this machine under the sanitizers' checks and called."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import graphs
import numpy as np
import onnx
import pytest

import rillet
from rillet.compiler import cross_compile

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs a C compiler for x86-64"
)
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def call(model: onnx.ModelProto, folder: Path, arrays: list[np.ndarray]) -> list[np.ndarray]:
    module = cross_compile(model, target="x86-64-v2", cache=False, jobs=1)
    exported = module.export(folder / "model")
    library = folder / "model.so"
    sources = [folder / "model" / "model.c", folder / "model" / "libmodel_kernels.a"]
    subprocess.run(["cc", *FLAGS, "-shared", "-fPIC", *sources, "-o", library], check=True)
    outputs = [np.zeros(s.shape, s.dtype) for s in module.outputs]
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in [*arrays, *outputs]]
    assert ctypes.CDLL(str(library))[f"{exported.name}_run"](*pointers) == 0
    return outputs


X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
SEQUENCE = np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "arrays"),
    [
        (graphs.dense(), [X]),
        (graphs.lstm(), [SEQUENCE]),
        (graphs.loop(), [X, np.array(0)]),
        (graphs.loop(), [X, np.array(5)]),
        (graphs.condition(), [np.array(True), X]),
        (graphs.condition(), [np.array(False), X]),
        (graphs.passed_through(), [X]),
    ],
    ids=["dense", "lstm", "loop of none", "loop", "then", "else", "no dispatch"],
)
def test_results_are_those_of_the_runtime(model: onnx.ModelProto, arrays: list[np.ndarray], tmp_path: Path) -> None:
    got = call(model, tmp_path, arrays)
    wanted = rillet.compile(model, target="x86-64-v2", jobs=1, cache=False)(*arrays)
    for a, b in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_kernel_that_fails_ends_the_call(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Gather", ["w", "i"], ["y"], name="gather")
    inputs = [graphs.value("i", graphs.INT64, [1])]
    model = graphs.model([node], inputs, [graphs.value("y", graphs.FLOAT, [1, 4])], {"w": graphs.weights(3, 4)})
    exported = cross_compile(model, target="x86-64-v2", cache=False, jobs=1).export(tmp_path / "model")
    library = tmp_path / "model.so"
    sources = [tmp_path / "model" / "model.c", tmp_path / "model" / "libmodel_kernels.a"]
    subprocess.run(["cc", *FLAGS, "-shared", "-fPIC", *sources, "-o", library], check=True)
    index, output = np.array([7]), np.zeros((1, 4), np.float32)
    run = ctypes.CDLL(str(library))[f"{exported.name}_run"]
    assert run(*(a.ctypes.data_as(ctypes.c_void_p) for a in (index, output))) == 1


def test_export_is_deterministic(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        exported = cross_compile(graphs.lstm(), target="cortex-m4", cache=False, jobs=1).export(
            tmp_path / name, name="m"
        )
        files.append([(tmp_path / name / f).read_bytes() for f in exported.files])
    assert files[0] == files[1]
