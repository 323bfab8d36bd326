"""The folders that an export writes."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

import rillet
from rillet.driver.export import cross_compile
from rillet.export.names import distinct, identifier, model_name
from tests.support import export_graphs as graphs


@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs cc for x86-64")
def test_cmake_builds_the_example(tmp_path: Path) -> None:
    folder, build = tmp_path / "dense", tmp_path / "build"
    cross_compile(graphs.dense(), target="x86-64-v2", jobs=1).export(folder)
    cmake = shutil.which("cmake")
    assert cmake is not None
    subprocess.run([cmake, "-S", folder, "-B", build], check=True, capture_output=True)
    subprocess.run([cmake, "--build", build], check=True, capture_output=True)
    subprocess.run([build / "dense_example"], check=True)


@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs cc for x86-64")
def test_cmake_builds_the_example_in_static_mode(tmp_path: Path) -> None:
    folder, build = tmp_path / "dense", tmp_path / "build"
    exported = cross_compile(graphs.dense(), target="x86-64-v2", jobs=1).export(folder, mode="static")
    assert {"dense.h", "dense.c", "librillet_runtime.a", "rillet/session.h"} <= set(exported.files)
    cmake = shutil.which("cmake")
    assert cmake is not None
    subprocess.run([cmake, "-S", folder, "-B", build], check=True, capture_output=True)
    subprocess.run([cmake, "--build", build], check=True, capture_output=True)
    subprocess.run([build / "dense_example"], check=True)


def test_example_is_short(tmp_path: Path) -> None:
    rillet.compile(graphs.dense(), target="cortex-m4", jobs=1).export(tmp_path / "dense")
    main = (tmp_path / "dense" / "main.c").read_text()
    assert len(main[main.index("int main") :].splitlines()) < 10


def test_header_has_shapes_and_arena(tmp_path: Path) -> None:
    rillet.compile(graphs.dense(), target="cortex-m4", jobs=1).export(tmp_path, name="my-model")
    header = (tmp_path / "my_model.h").read_text()
    assert "#define MY_MODEL_X_SHAPE {3, 4}" in header
    assert "RLT_ARENA_BYTES" in header
    assert "int my_model_run(const float* in_x, float* out_y);" in header


def test_header_has_the_names_of_the_model(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Add", ["入力", "a b"], ["é"], name="sum")
    values = [graphs.value(name, graphs.FLOAT, [4]) for name in ("入力", "a b", "é")]
    model = graphs.model([node], values[:2], values[2:])
    rillet.compile(model, target="cortex-m4", jobs=1).export(tmp_path, name="sum")
    header = (tmp_path / "sum.h").read_text(encoding="utf-8")
    assert "// 入力: float32[4]\n#define SUM_MODEL_RANK 1\n" in header
    assert "// a b: float32[4]\n#define SUM_A_B_RANK 1\n" in header
    assert "// é: float32[4]\n#define SUM_MODEL_2_RANK 1\n" in header


def test_readme_has_the_figures(tmp_path: Path) -> None:
    exported = rillet.compile(graphs.dense(), target="cortex-m4", jobs=1).export(tmp_path / "dense")
    text = (tmp_path / "dense" / "README.md").read_text()
    for number in (exported.figures.arena, exported.figures.stack, exported.figures.kernels, exported.figures.macs):
        assert f"{number:,}" in text


@pytest.mark.parametrize(
    ("layout", "files"),
    [
        ("zephyr", ["zephyr/module.yml", "zephyr/CMakeLists.txt", "src/dense.c", "include/dense.h"]),
        ("arduino", ["library.properties", "src/dense.h", "src/cortex-m4/fpv4-sp-d16-hard/libdense_kernels.a"]),
    ],
)
def test_other_layouts(layout: str, files: list[str], tmp_path: Path) -> None:
    exported = rillet.compile(graphs.dense(), target="cortex-m4", jobs=1).export(tmp_path / "dense", layout=layout)
    assert set(files) <= set(exported.files)
    assert all((tmp_path / "dense" / f).stat().st_size for f in exported.files)


def test_identifiers() -> None:
    assert identifier("serving_default_input:0") == "serving_default_input_0"
    assert identifier("1x") == "m1x"
    assert identifier("__input__0") == "input_0"
    names = [model_name(text) for text in ("kws", "test", "String", "_1_")]
    assert names == ["kws", "test_model", "String_model", "m1"]
    assert distinct(["x", "X", "x "]) == ["x", "X_2", "x_3"]
