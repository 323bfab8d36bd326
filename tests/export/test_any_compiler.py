"""The C file and the header compile as C and as C++, whatever the model, its inputs and outputs are called."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from rillet.driver.export import cross_compile
from tests.support import export_graphs as graphs

# Keywords, macros, types and functions of C and C++, variables of the exported code, names alike in C.
NAMES = (
    *("int", "class", "template", "co_await", "NULL", "EOF", "errno", "stdin", "INFINITY", "linux", "unix", "main"),
    *(
        "exp",
        "y1",
        "size_t",
        "uint8_t",
        "state_t",
        "arena",
        "ARENA",
        "CONSTANTS",
        "call",
        "status",
        "inputs",
        "outputs",
    ),
    *(
        "session",
        "v0",
        "v1",
        "run",
        "x",
        "X",
        "x_shape",
        "shape0",
        "1x",
        "_x",
        "__x",
        "a__b",
        "a.b",
        "α",
        "i",
        "assert",
    ),
)
_HEADERS = "#include <assert.h>\n#include <complex.h>\n#include <errno.h>\n#include <math.h>\n#include <stdio.h>\n"
_CPP = ("-std=c++17", "-x", "c++")
_COMPILERS = {"cc": ("cc", "-std=c11"), "g++": ("g++", *_CPP), "zig": (sys.executable, "-m", "ziglang", "c++", *_CPP)}


def _sum() -> onnx.ModelProto:
    """The sum of inputs of all these names; each is an output, too, under the name with a dot."""
    nodes = [helper.make_node("Sum", list(NAMES), ["sum"])]
    nodes += [helper.make_node("Mul", [name, "sum"], [f"{name}."]) for name in NAMES[:8]]
    outputs = [graphs.value(f"{name}.", graphs.FLOAT, [4]) for name in NAMES[:8]]
    return graphs.model(nodes, [graphs.value(name, graphs.FLOAT, [4]) for name in NAMES], outputs)


def _compile(folder: Path, name: str, compiler: str, definitions: tuple[str, ...] = ()) -> None:
    command = _COMPILERS[compiler]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "user.c").write_text(f'{_HEADERS}#include "{name}.h"\n')
    for file in ("user.c", f"{name}.c", "main.c"):
        flags = ["-Wall", "-Wextra", "-Werror", f"-I{folder}", *(f"-D{d}" for d in definitions)]
        done = subprocess.run(
            [*command, *flags, "-c", folder / file, "-o", folder / f"{file}.o"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[:4000]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Exports by mode: of many names, of loops, and of a condition."""
    root = tmp_path_factory.mktemp("exports")
    for kind, model in (("names", _sum()), ("lstm", graphs.lstm()), ("loop", graphs.search())):
        built = cross_compile(model, target="x86-64-v2", jobs=1)
        for mode in ("c", "static"):
            built.export(root / mode / kind, mode=mode, name="test")
    return {mode: root / mode for mode in ("c", "static")}


_CASES = [(c, mode, kind) for c in ("cc", "g++") for mode in ("c", "static") for kind in ("names", "lstm", "loop")]


@pytest.mark.parametrize(("compiler", "mode", "kind"), [*_CASES, ("zig", "c", "loop"), ("zig", "static", "names")])
def test_it_compiles(compiler: str, mode: str, kind: str, folders: dict[str, Path]) -> None:
    definitions = ("RLT_SINGLE_THREADED",) if mode == "static" else ()
    _compile(folders[mode] / kind, "test_model", compiler, definitions)


def test_a_program_in_cpp_links(folders: dict[str, Path]) -> None:
    """Symbols of kernels and constants have the names of C."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = folders["c"] / "lstm"
    sources = [
        "-x",
        "c++",
        folder / "test_model.c",
        folder / "main.c",
        "-x",
        "none",
        folder / "libtest_model_kernels.a",
    ]
    subprocess.run(["g++", f"-I{folder}", *sources, "-o", folder / "program"], check=True)
    subprocess.run([folder / "program"], check=True)
