"""The C example, with the runtime as an installed package and from its sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import rillet
from tests.support.build_folder import build_folder
from tests.support.paths import ROOT, RUNTIME

EXAMPLE = ROOT / "examples" / "c_runtime"


def run(*command: str | Path) -> str:
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command[0]} failed:\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path_factory.mktemp("module") / "exp.rlm"
    rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)).save(path)
    return path


def build_and_run(folder: Path, module: Path, *options: str) -> None:
    run("cmake", "-S", EXAMPLE, "-B", folder, "-G", "Ninja", *options)
    run("cmake", "--build", folder, "-j", "2")
    assert run(folder / "run_model", module) == "float32 2 3\n"
    failed = subprocess.run([str(folder / "run_model"), str(EXAMPLE / "main.c")], capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stderr.startswith("DATA_LOSS: ")


def test_with_the_installed_package(request: pytest.FixtureRequest, module: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    with build_folder(request, "c_runtime_package") as build:
        run("cmake", "-S", RUNTIME, "-B", build, "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={prefix}")
        run("cmake", "--build", build, "-j", "2")
        run("cmake", "--install", build)
    build_and_run(tmp_path / "build", module, f"-DCMAKE_PREFIX_PATH={prefix}")


def test_from_the_sources(request: pytest.FixtureRequest, module: Path) -> None:
    with build_folder(request, "c_runtime_fetched") as build:
        build_and_run(build, module, "-DCMAKE_DISABLE_FIND_PACKAGE_rillet=ON")
