"""The Zephyr and Arduino layouts, built with plain tools: a module as Zephyr takes it in, a library as Arduino does."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rillet.driver.export import cross_compile
from tests.support import export_graphs as graphs

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs cc for x86-64"
)


def run(*command: str | Path) -> None:
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert result.returncode == 0, f"{command[0]} failed:\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"


def test_zephyr_sample(tmp_path: Path) -> None:
    module = tmp_path / "dense"
    cross_compile(graphs.dense(), target="x86-64-v2", jobs=1).export(module, layout="zephyr")
    configuration = Path(__file__).parent / "zephyr"
    run(
        *("cmake", "-S", module / "samples" / "dense", "-B", tmp_path / "build", "-G", "Ninja"),
        f"-DZephyr_DIR={configuration}",
    )
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build" / "app")


def test_arduino_example(tmp_path: Path) -> None:
    """A sketch is C++: the builder compiles it with a main of its own and links the board's precompiled library."""
    library = tmp_path / "dense"
    cross_compile(graphs.dense(), target="x86-64-v2", jobs=1).export(library, layout="arduino")
    properties = dict(line.split("=", 1) for line in (library / "library.properties").read_text().splitlines())
    assert "example" not in properties.get("url", "")  # of the model's owner, who adds it: the builder needs none
    sketch = tmp_path / "sketch.cpp"
    [example] = (library / "examples").rglob("*.ino")
    sketch.write_text(example.read_text() + "int main() { setup(); loop(); }\n")
    compile_cpp = [sys.executable, "-m", "ziglang", "c++", "-fno-sanitize=all", "-c"]  # a machine may lack g++
    run(*compile_cpp, "-I", library / "src", sketch, "-o", tmp_path / "sketch.o")
    run("cc", "-c", library / "src" / "dense.c", "-o", tmp_path / "dense.o")
    [folder] = {path.parent for path in (library / "src").rglob("*.a")}
    objects = [tmp_path / "sketch.o", tmp_path / "dense.o"]
    run("cc", *objects, f"-L{folder}", *properties["ldflags"].split(), "-o", tmp_path / "sketch")
    run(tmp_path / "sketch")
