import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rillet import targets
from rillet.codegen import cache
from rillet.codegen.cpu.machine import Cpu
from rillet.codegen.result import CodegenOptions
from rillet.driver.module_file import compile_to_bytes
from rillet.errors import CompileError
from rillet.frontends.registry import open_model
from rillet.module.reader import read_module
from rillet.targets.catalog import HOST
from tests.support import export_graphs

MACHINE = """[machine]
arch = "x86_64"
triple = "x86_64-unknown-linux-gnu"
cpu = "x86-64-v2"
features = ["sse3"]
vector_bits = 128
vector_registers = 16
scalar_float_registers = 16
fma = false
"""


@pytest.mark.parametrize("name", targets.names())
def test_every_description_loads(name: str) -> None:
    target = targets.get(name)
    machine = target.machine
    assert target.name == name
    assert target.backend == "cpu" and isinstance(machine, Cpu)
    assert machine.triple.startswith((machine.arch, "thumb")) or machine.arch in machine.triple
    assert machine.lanes(32) == max(1, machine.vector_bits // 32)


def test_host_is_one_of_the_descriptions_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOST, raising=False)
    host = targets.get("host")
    assert host.name == "host"
    assert host.machine.cpu
    assert host.machine.l1d_bytes >= 8 * 1024


def test_features_are_written_as_llvm_expects_them() -> None:
    features = targets.get("x86-64-v4").machine.llvm_features.split(",")
    assert "+avx512f" in features
    assert "-prefer-256-bit" in features


def test_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(CompileError, match=r"unknown target 'vax'; known targets: host, .*x86-64-v3"):
        targets.get("vax")


def test_importing_the_targets_needs_no_compiler() -> None:
    code = "import sys, rillet.targets as t; t.get('cortex-m4'); print([m for m in sys.modules if 'mlir' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def description(folder: Path, text: str) -> str:
    path = folder / "board.toml"
    path.write_text(text)
    return str(path)


def test_a_file_describes_a_target(tmp_path: Path) -> None:
    target = targets.get(description(tmp_path, f'backend = "cpu"\n[packing]\ncolumns = 4\n{MACHINE}'))
    assert (target.name, target.packing, target.machine.cpu) == ("board", targets.Packing(columns=4), "x86-64-v2")
    assert target.deployment == targets.Deployment()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backend = ", "is no TOML: "),
        (MACHINE, 'names no backend: write backend = "cpu" on top'),
        (f'backend = "tpu"\n{MACHINE}', r"unknown backend 'tpu'; known backends: cpu"),
        (f'backend = "cpu"\nos = "none"\n{MACHINE}', "has an unknown field 'os'; fields and tables: backend, packing,"),
        (f'backend = "cpu"\n{MACHINE}pack_n = 4', r"\[machine\] has an unknown field 'pack_n'; fields: arch, triple,"),
        (
            f'backend = "cpu"\n[deployment]\nlodaer = 1\n{MACHINE}',
            r"\[deployment\] has an unknown field 'lodaer'; ",
        ),
        (f'backend = "cpu"\npacking = 4\n{MACHINE}', r"\[packing\] must be a table, not 4"),
        ('backend = "cpu"', r"\[machine\] lacks the field 'arch', a string"),
        (
            f'backend = "cpu"\n{MACHINE.replace("fma = false", "")}',
            r"\[machine\] lacks the field 'fma', true or false",
        ),
        (
            f'backend = "cpu"\n{MACHINE.replace("= 128", "= true")}',
            r"\[machine\] field 'vector_bits' must be a whole number, not True",
        ),
        (
            f'backend = "cpu"\n{MACHINE.replace("[", "[3, ", 2).replace("[3, machine", "[machine")}',
            r"\[machine\] field 'features' must be a list of strings, not \[3, 'sse3'\]",
        ),
    ],
)
def test_a_fault_in_a_description_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = description(tmp_path, text)
    with pytest.raises(CompileError, match=f"the target description '{re.escape(path)}'.*{message}"):
        targets.get(path)


def test_a_missing_description_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"cannot read the target description '.*none.toml': No such file"):
        targets.get(str(tmp_path / "none.toml"))


def test_the_environment_says_what_the_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = min((t for t in map(targets.get, targets.names()) if t.runs_here), key=lambda t: t.machine.rank)
    monkeypatch.delenv(HOST, raising=False)
    detected = targets.host()
    monkeypatch.setenv(HOST, baseline.name)
    forced = targets.get("host")
    assert (forced.name, forced.machine) == ("host", baseline.machine)
    options = CodegenOptions()
    assert cache.key("", forced, options) != cache.key("", detected, options)
    file = read_module(compile_to_bytes(open_model(export_graphs.lstm()), targets=[forced]))
    assert [library.features for library in file.libraries] == [baseline.machine.features]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vax", "RILLET_HOST: unknown target 'vax'; known targets: .*x86-64-v3"),
        ("cortex-m4", "RILLET_HOST: the host cannot be cortex-m4, since this machine has another architecture"),
    ],
)
def test_a_host_that_cannot_be_forced_is_named(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST, name)
    with pytest.raises(CompileError, match=message):
        targets.host()


def test_the_environment_reaches_a_process_of_its_own() -> None:
    baseline = min((t for t in map(targets.get, targets.names()) if t.runs_here), key=lambda t: t.machine.rank)
    code = "from rillet import targets; print(targets.host().machine.cpu)"
    environment = {**os.environ, HOST: baseline.name}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == baseline.machine.cpu
