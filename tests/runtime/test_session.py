"""The C session interface under AddressSanitizer, ThreadSanitizer where threads matter, and on damaged files."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import rillet
from rillet.ir.image import EntryFacts
from tests.support import bytecode_assembler as a
from tests.support.session_runner import build, run


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 2])
def test_run(runner: Path, elf: bytes, tmp_path: Path, threads: int) -> None:
    for image, expected in ((a.static_add(1000), "float32 [1000] sum 999000"), (a.dynamic_add(), "float32 [3] sum 6")):
        result = run(runner, a.module(image, a.library(elf)), tmp_path, threads)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.splitlines() == [expected] * 3


def powers(size: int, count: int) -> onnx.ModelProto:
    """The sum of the first powers of a matrix [size, size]: every power needs memory of its own."""
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"p{i - 1}", "x"], [f"p{i}"]) for i in range(count)]
    nodes.append(helper.make_node("Sum", [f"p{i}" for i in range(count)], ["y"]))
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in "xy"]
    graph = helper.make_graph(nodes, "powers", edges[:1], edges[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 2])
def test_programs_on_one_device_share_its_transient_memory(
    request: pytest.FixtureRequest, tmp_path: Path, threads: int
) -> None:
    """Called in turn they compute what each computes alone, and need the arena of the largest of them."""
    runner = build(request, "c_runtime", ["shared_device"], "-DRILLET_SANITIZE=ON") / "tests/program/shared_device"
    modules = [rillet.compile(powers(size, 3), jobs=1) for size in (12, 64, 48)]
    paths = [tmp_path / f"{i}.rlm" for i in range(len(modules))]
    for module, path in zip(modules, paths, strict=True):
        module.save(path)

    def lines(*files: Path) -> list[str]:
        command = [str(runner), str(threads), "3", *map(str, files)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    *together, kept = lines(*paths)
    alone = [lines(path) for path in paths]
    assert together == [outputs[run] for run in range(3) for outputs in alone]
    arenas = [module.stats["arena_bytes"] for module in modules]
    bare = int(alone[0][-1].split()[1]) - arenas[0]
    assert 0 <= int(kept.split()[1]) - max(arenas) < bare + 4096
    assert max(arenas) + 4096 < sum(arenas)


@pytest.mark.timeout(600)
def test_errors(runner: Path, elf: bytes, tmp_path: Path) -> None:
    inputs = [(a.spec("table", a.F32, 2), 8, a.READ), (a.spec("indices", a.I64, 3), 24, a.READ)]
    image = a.one_dispatch(a.GATHER, [2, 3], inputs, a.spec("out", a.F32, 3), 12)
    result = run(runner, a.module(image, a.library(elf)), tmp_path, 1)
    assert result.stdout == "TRAP: an index in the data is out of bounds (in kernel 'gather')\n" and not result.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("sources", "named"),
    [
        ("", ""),
        ("embed", "node 'embed': "),
        ("embed, add", "one of the nodes 'embed, add': "),
        ("n" * 300, f"node '{'n' * 200}...': "),
    ],
)
def test_errors_of_kernels_name_their_nodes(runner: Path, elf: bytes, tmp_path: Path, sources: str, named: str) -> None:
    inputs = [(a.spec("table", a.F32, 2), 8, a.READ), (a.spec("indices", a.I64, 3), 24, a.READ)]
    image = a.one_dispatch(a.GATHER, [2, 3], inputs, a.spec("out", a.F32, 3), 12)
    facts = tuple(EntryFacts(0, 0, sources if i == a.GATHER else "another") for i in range(len(a.ENTRIES)))
    result = run(runner, a.module(dataclasses.replace(image, facts=facts), a.library(elf)), tmp_path, 1)
    assert result.stdout == f"TRAP: {named}an index in the data is out of bounds (in kernel 'gather')\n"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("image", [a.static_add(64), a.dynamic_add()], ids=["static", "dynamic"])
def test_damaged_files_do_not_crash(runner: Path, elf: bytes, tmp_path: Path, image: a.Image) -> None:
    result = run(runner, a.module(image, a.library(elf)), tmp_path, 1, 5000, 20261127)
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.timeout(600)
def test_the_task_driver_has_no_data_races(request: pytest.FixtureRequest) -> None:
    names = ["test_cpu_task", "test_devices", "test_transient_pool", "test_semaphore"]
    folder = build(request, "c_runtime_tsan", names, "-DCMAKE_C_FLAGS=-fsanitize=thread -O1")
    for name in names:
        path = next(folder.glob(f"tests/*/{name}"))
        result = subprocess.run([str(path)], capture_output=True, text=True)
        assert result.returncode == 0, f"{name}: {result.stdout[-2000:]}{result.stderr[-6000:]}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_on_one_device_have_no_data_races(
    request: pytest.FixtureRequest, elf: bytes, tmp_path: Path, threads: int
) -> None:
    folder = build(request, "c_runtime_tsan", ["concurrent_sessions"], "-DCMAKE_C_FLAGS=-fsanitize=thread -O1")
    paths = [tmp_path / f"{i}.rlm" for i in range(2)]
    for path, image in zip(paths, (a.static_add(4000), a.dynamic_add()), strict=True):
        path.write_bytes(a.module(image, a.library(elf)))
    command = [str(folder / "tests/program/concurrent_sessions"), str(threads), "40", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-6000:]


@pytest.mark.timeout(600)
def test_arguments_that_cannot_be(request: pytest.FixtureRequest, elf: bytes, tmp_path: Path) -> None:
    runner = build(request, "c_runtime", ["misuse"], "-DRILLET_SANITIZE=ON") / "tests/program/misuse"
    (tmp_path / "m.rlm").write_bytes(a.module(a.static_add(1000), a.library(elf)))
    result = subprocess.run([str(runner), str(tmp_path / "m.rlm")], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.timeout(600)
def test_without_an_operating_system_nothing_of_libc_is_needed(request: pytest.FixtureRequest) -> None:
    """Sessions, the in-order driver and static kernel libraries on bare metal: only mem* remain."""
    options = ("-DRILLET_FREESTANDING=ON", "-DRILLET_BUILD_TESTS=OFF")
    folder = build(request, "c_runtime_freestanding_hal", ["rillet_runtime"], *options)
    partial = folder / "whole.o"
    archive = folder / "librillet_runtime.a"
    subprocess.run(["ld", "-r", "--whole-archive", str(archive), "-o", str(partial)], check=True)
    command = ["nm", "--undefined-only", "--format=just-symbols", str(partial)]
    names = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert names <= {"memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_"}
