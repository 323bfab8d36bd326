"""Frontends by name: Rillet's own, and one of another package that comes through an entry point."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rillet
from rillet.cli import main
from rillet.frontends import registry
from rillet.frontends.frontend import Frontend, Model
from rillet.frontends.registry import open_model
from rillet.support.plugins import Plugins
from tests.support.affine_frontend import Affine, AffineModel

Install = Callable[..., None]
_LAYER = Affine(np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.array([0, 1, -1, 0.5], np.float32))
_X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Install]:
    """Installs packages with an entry point each, as a folder on the path that has their metadata."""

    def install(package: str, name: str, value: str) -> None:
        folder = tmp_path / "site" / f"{package}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[rillet.frontends]\n{name} = {value}\n")
        forget()

    def forget() -> None:
        monkeypatch.setattr(registry, "FRONTENDS", Plugins("frontend", Frontend, registry._BUILT_IN))
        registry.frontends.cache_clear()

    monkeypatch.syspath_prepend(tmp_path / "site")
    forget()
    yield install
    registry.frontends.cache_clear()


@pytest.fixture
def affine(install: Install) -> None:
    install("affine-for-rillet", "affine", "tests.support.affine_frontend:AffineFrontend")


def test_a_frontend_of_another_package_compiles(affine: None) -> None:
    module = rillet.compile(_LAYER, threads=1)
    assert [(spec.name, spec.shape) for spec in module.inputs] == [("x", ("N", 8))]
    assert [(spec.name, spec.shape) for spec in module.outputs] == [("y", ("N", 4))]
    np.testing.assert_allclose(module(_X), _LAYER(_X), rtol=1e-5, atol=1e-6)
    assert rillet.compile(_LAYER, dims={"N": 3}, threads=1).inputs[0].shape == (3, 8)
    assert rillet.compile(_LAYER, inputs={"x": ("rows", 8)}, threads=1).outputs[0].shape == ("rows", 4)


def test_a_frontend_of_another_package_is_checked(affine: None) -> None:
    report = rillet.check(_LAYER, dims={"N": 3})
    assert report.supported and report.macs == 96 and report.weight_bytes == 144
    assert [(op.op, op.count) for op in report.ops] == [("affine", 1)]
    assert report.inputs == {"x": [3, 8]} and not report.dynamic_dimensions
    (refused,) = rillet.check(Affine(_LAYER.weights, _LAYER.bias, "gelu")).unsupported
    assert str(refused) == "affine 'layer': activation 'gelu'; use relu"


def test_commands_take_files_of_a_frontend_of_another_package(
    affine: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "layer.npz"
    _LAYER.save(path)
    assert main(["check", str(path)]) == 0
    assert main(["bench", str(path), "--dim", "N=3", "--seconds", "0.01", "--json", "--jobs", "1"]) == 0
    assert json.loads(capsys.readouterr().out.rpartition("supported\n")[2])["inputs"] == {"x": [3, 8]}
    assert main(["export", str(path), "--dim", "N=3", "--target", "cortex-m4", "-o", str(tmp_path / "firmware")]) == 0
    assert main(["verify", str(path)]) == 1
    assert "its frontend knows no other implementation" in capsys.readouterr().err


def test_other_sources_go_to_the_frontends_of_rillet(affine: None) -> None:
    assert [frontend.name for frontend in registry.frontends()] == ["mlir", "affine", "onnx"]
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32>\n}"
    assert open_model(text).inputs[0].name == "argument0"
    with pytest.raises(rillet.CompileError, match=r"give MLIR \(.*\), an affine layer \(.*\), or an ONNX model \("):
        rillet.compile(3)


def test_a_model_that_is_open_already_is_a_source_too() -> None:
    model = AffineModel(_LAYER)
    assert isinstance(model, Model) and open_model(model) is model
    np.testing.assert_allclose(rillet.compile(model, threads=1)(_X), _LAYER(_X), rtol=1e-5, atol=1e-6)


def test_rillets_own_frontends_are_frontends() -> None:
    assert all(isinstance(frontend, Frontend) for frontend in registry.frontends())


@pytest.mark.parametrize("name", ["onnx", "affine"])
def test_two_packages_that_claim_one_name_are_both_named(affine: None, install: Install, name: str) -> None:
    install("other", name, "tests.support.affine_frontend:AffineFrontend")
    owner = {"onnx": "rillet", "affine": "affine-for-rillet"}[name]
    with pytest.raises(
        rillet.CompileError, match=f"both have a frontend named '{name}': uninstall one of them"
    ) as caught:
        rillet.compile(b"x")
    assert owner in str(caught.value) and "other" in str(caught.value)


class Broken:
    """A frontend that raises when it is asked what it opens."""

    name = "broken"
    sources = "nothing"

    def accepts(self, source: object) -> bool:
        raise TypeError("no len()")

    def open(self, source: object) -> Model:
        raise NotImplementedError


def test_a_frontend_that_fails_when_it_is_asked_names_its_package(install: Install) -> None:
    install("other", "broken", f"{__name__}:Broken")
    message = r"'broken' of the package other cannot tell whether it opens a bytes \(TypeError: no len\(\)\): mend or"
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(b"x")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("missing_module:X", "'odd' of the package other cannot be loaded .*missing_module.*mend or uninstall it"),
        ("tests.support.affine_frontend:Missing", "'odd' of the package other cannot be loaded"),
        ("builtins:dict", "the package other names 'odd' as a frontend, but builtins:dict is not one"),
        ("tests.support.affine_frontend:AffineFrontend", "names 'odd' as a frontend, but .* is not one"),
    ],
)
def test_an_entry_point_that_is_no_frontend_names_its_package(install: Install, value: str, message: str) -> None:
    install("other", "odd", value)
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(b"x")
