"""The C that a host program becomes, compiled for this machine under the sanitizers' checks and called."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import rillet
from rillet.driver.export import cross_compile
from rillet.export import runtime_library
from tests.support import export_graphs as graphs

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs a C compiler for x86-64"
)
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def call(model: onnx.ModelProto, folder: Path, arrays: list[np.ndarray], mode: str = "c") -> list[np.ndarray]:
    module = cross_compile(model, target="x86-64-v2", jobs=1)
    exported = module.export(folder / "model", mode=mode)
    library = folder / "model.so"
    sources = [folder / "model" / "model.c", folder / "model" / "libmodel_kernels.a"]
    flags = [*FLAGS]
    if mode == "static":
        sources.append(folder / "model" / "librillet_runtime.a")
        flags += ["-I", str(folder / "model"), *(f"-D{d}" for d in runtime_library.STATIC.definitions)]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", *sources, "-o", library], check=True)
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
        (graphs.search(), [abs(X)]),
        (graphs.search("ten"), [abs(X) * 1e-4]),
        (graphs.search("n"), [abs(X), np.array(2)]),
        (graphs.condition(), [np.array(True), X]),
        (graphs.condition(), [np.array(False), X]),
        (graphs.passed_through(), [X]),
    ],
    ids=[
        "dense",
        "lstm",
        "loop of none",
        "loop",
        "search",
        "search of ten",
        "search of n",
        "then",
        "else",
        "no dispatch",
    ],
)
def test_results_are_those_of_the_runtime(model: onnx.ModelProto, arrays: list[np.ndarray], tmp_path: Path) -> None:
    got = call(model, tmp_path, arrays)
    wanted = rillet.compile(model, target="x86-64-v2", jobs=1, cache=False)(*arrays)
    for a, b in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [graphs.lstm(), graphs.inverted_residual()], ids=["lstm", "block"])
def test_static_mode_gives_the_same(model: onnx.ModelProto, tmp_path: Path) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    arrays = [np.random.default_rng(1).standard_normal(shape).astype(np.float32)]
    for a, b in zip(call(model, tmp_path / "a", arrays, "static"), call(model, tmp_path / "b", arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_static_mode_reports_status_codes(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Gather", ["w", "i"], ["y"], name="gather")
    inputs = [graphs.value("i", graphs.INT64, [1])]
    model = graphs.model([node], inputs, [graphs.value("y", graphs.FLOAT, [1, 4])], {"w": graphs.weights(3, 4)})
    assert call(model, tmp_path / "fine", [np.array([2])], "static")[0].shape == (1, 4)
    run = ctypes.CDLL(str(tmp_path / "fine" / "model.so")).model_run
    index, output = np.array([7]), np.zeros((1, 4), np.float32)
    trapped = 11  # RLT_TRAP
    assert run(*(a.ctypes.data_as(ctypes.c_void_p) for a in (index, output))) == trapped
    # The session goes on working.
    index[0] = 1
    assert run(*(a.ctypes.data_as(ctypes.c_void_p) for a in (index, output))) == 0
    np.testing.assert_array_equal(output[0], graphs.weights(3, 4)[1])


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
