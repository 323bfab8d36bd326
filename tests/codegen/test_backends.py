"""Backends of other packages: found by entry points, chosen by targets, asked, compiled and linked with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rillet
from rillet import targets
from rillet.codegen.backends import backend_of
from rillet.codegen.pool import Job, Pool
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.driver.lowering import print_stage
from rillet.errors import CompileError
from rillet.export import CrossModule
from rillet.module import read_module
from rillet.support.plugins import Plugins
from rillet.targets.backends import BACKENDS, MachineOwner
from tests.support.paths import ROOT
from tests.support.toy_backend import DESCRIPTION, FORMAT, ToyBackend

MODEL = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %0 = linalg.elementwise kind=#linalg.elementwise_kind<{op}> ins(%a, %b : tensor<2x3xf32>, tensor<2x3xf32>)
    outs(%a : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}}
"""


def install(folder: Path, package: str, **backends: str) -> None:
    """A package with these entry points, as pip leaves it."""
    (folder / f"{package}-1.0.dist-info").mkdir(parents=True)
    (folder / f"{package}-1.0.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in backends.items()]
    points = "\n".join(["[rillet.backends]", *lines])
    (folder / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(points)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The description of a target whose backend another package has."""
    install(tmp_path, "rillet-toy", toy="tests.support.toy_backend:ToyBackend")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    vars(BACKENDS).pop("_points", None)
    (tmp_path / "npu.toml").write_text(DESCRIPTION)
    yield str(tmp_path / "npu.toml")
    vars(BACKENDS).pop("_points", None)
    BACKENDS._made.pop("toy", None)


def test_a_backend_is_chosen_asked_compiled_and_linked_with(toy: str) -> None:
    model = MODEL.format(op="add")
    module = rillet.compile(model, target=toy, cache=False)
    assert isinstance(module, CrossModule) and module.targets == ["npu"]
    backend = backend_of(targets.get(toy))
    assert isinstance(backend, ToyBackend) and backend.asked == ["dispatch_options", "compile", "link"]
    assert print_stage(model, "codegen", target=targets.get(toy)) == "4 lanes: arith.addf"
    with pytest.raises(rillet.RunError, match="compiled for npu, which this machine cannot run"):
        module(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))


def test_its_library_is_in_the_file(toy: str, tmp_path: Path) -> None:
    module = rillet.compile(MODEL.format(op="mul"), target=toy, cache=tmp_path / "cache")
    module.save(tmp_path / "model.rlm")
    data = (tmp_path / "model.rlm").read_bytes()
    (library,) = read_module(data).libraries
    assert (library.target, library.arch, library.format) == ("npu", "toy", FORMAT)
    assert data[library.place.offset :].startswith(b"4 lanes: arith.mulf")


def test_what_it_cannot_compile_is_its_error(toy: str) -> None:
    model = MODEL.format(op="powf")
    with pytest.raises(CompileError, match=r"a toy cannot compute math\.powf"):
        rillet.compile(model, target=toy, cache=False)


def test_it_compiles_in_worker_processes(toy: str) -> None:
    text = (
        "builtin.module @k attributes {{flow.kernel}} {{ func.func @k() {{ %0 = arith.constant {n} : i32 return }} }}"
    )
    jobs = [Job("k", text.format(n=n), targets.get(toy), CodegenOptions()) for n in range(4)]
    found: dict[int, CompiledKernel | CompileError] = {}
    with Pool(2, eager=True) as pool:
        pool.compile(jobs, found.__setitem__)
    assert [getattr(found[n], "object", found[n]) for n in range(4)] == [b"4 lanes: arith.constant"] * 4


def test_it_cannot_be_exported(toy: str, tmp_path: Path) -> None:
    module = rillet.compile(MODEL.format(op="add"), target=toy, cache=False)
    assert isinstance(module, CrossModule)
    with pytest.raises(CompileError, match="target npu cannot be exported: its backend 'toy' makes no objects to link"):
        module.export(tmp_path / "out")


def test_its_machine_describes_itself(toy: str) -> None:
    Path(toy).write_text(DESCRIPTION.replace("lanes", "lames"))
    with pytest.raises(CompileError, match=r"npu.toml': \[machine\] has an unknown field 'lames'; fields: lanes"):
        targets.get(toy)


def test_a_backend_that_lacks_a_part_is_named(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ToyBackend, "link")
    with pytest.raises(CompileError, match=r"the backend 'toy' lacks a part of 'rillet\.codegen\.backend\.Backend'"):
        rillet.compile(MODEL.format(op="add"), target=toy)


def plugins(*built_in: str) -> Plugins[MachineOwner]:
    """A registry that has not looked yet."""
    return Plugins("backend", MachineOwner, {name: f"tests.support.toy_backend:{name.title()}" for name in built_in})


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        (
            {"one": "tests.support.toy_backend:ToyBackend", "two": "tests.support.toy_backend:ToyBackend"},
            "the packages (one and two|two and one) both have a backend named 'toy': uninstall one of them",
        ),
        (
            {"one": "tests.support.toy_backend:Nothing"},
            r"the backend 'toy' of the package one cannot be loaded \(AttributeError: .*\): mend or uninstall it",
        ),
        (
            {"one": "tests.support.toy_backend:ToyMachine.refined"},
            r"the backend 'toy' of the package one cannot be loaded \(TypeError: .*\): mend or uninstall it",
        ),
        ({"one": "builtins:dict"}, "the package one names 'toy' as a backend, but builtins:dict is not one"),
    ],
)
def test_a_package_at_fault_is_named(
    packages: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, value in packages.items():
        install(tmp_path / package, package, toy=value)
        monkeypatch.syspath_prepend(tmp_path / package)
    with pytest.raises(CompileError, match=message):
        plugins().get("toy")


def test_a_name_of_a_built_in_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "other", cpu="tests.support.toy_backend:ToyBackend")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CompileError, match="the packages rillet and other both have a backend named 'cpu'"):
        plugins("cpu").names()


def test_an_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(CompileError, match="unknown backend 'tpu'; known backends: cpu"):
        BACKENDS.get("tpu")
