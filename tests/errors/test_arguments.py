"""Arguments of the Python interface that cannot be: one message each, naming the argument and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rillet

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 20]> g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }'
)


@pytest.fixture(scope="module")
def module() -> rillet.Module:
    return rillet.compile(MODEL)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "cannot compile '': the path is empty"),
        ("a\0b.onnx", r"'a\\x00b.onnx': it is no path, as it has a zero character"),
        (3, r"cannot compile an object of type int: give MLIR \(.*, or an ONNX model \("),
        (b"", "the given bytes: empty, not an ONNX model"),
    ],
)
def test_sources(source: Any, message: str) -> None:
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(source)


def test_paths_that_the_system_refuses(tmp_path: Path) -> None:
    with pytest.raises(rillet.CompileError, match=r"cannot read n{300}: File name too long"):
        rillet.compile("n" * 300)
    with pytest.raises(rillet.CompileError, match=r"cannot read .*: Not a directory"):
        (tmp_path / "file").touch()
        rillet.compile(tmp_path / "file" / "m.onnx")


def test_a_target_named_twice_is_one() -> None:
    assert rillet.compile(MODEL, target=["x86-64-v2", "x86-64-v2"]).targets == ["x86-64-v2"]


def test_several_targets_without_a_loader() -> None:
    with pytest.raises(rillet.CompileError, match=r"targets riscv32imf.* have no loader that could choose: compile"):
        rillet.compile(MODEL, target=["riscv32imf", "riscv32imf-ilp32f"], dims={"N": 1})


def test_a_module_for_several_other_machines(tmp_path: Path) -> None:
    targets = ["aarch64", "aarch64-dotprod"]
    module = rillet.compile(MODEL, target=targets, dims={"N": 1})
    assert sorted(module.targets) == targets
    with pytest.raises(rillet.CompileError, match="an export is for one target, not for aarch64-dotprod, aarch64"):
        module.export(tmp_path)
    with pytest.raises(rillet.SaveError, match=r"cannot write .*m\.rlm: there is no folder"):
        module.save(tmp_path / "none" / "m.rlm")


def test_compiled_file_as_source(module: rillet.Module, tmp_path: Path) -> None:
    module.save(tmp_path / "m.rlm")
    with pytest.raises(rillet.CompileError, match=r"m\.rlm': compiled already, so it can be run"):
        rillet.compile(tmp_path / "m.rlm")


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_bytes(b"\xff\xfe")
    with pytest.raises(rillet.CompileError, match=r"cannot read .*m\.mlir: it is no UTF-8 text"):
        rillet.compile(tmp_path / "m.mlir")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": 3}, r"inputs\['x'\] must be a sequence of dimensions, like .*, not 3"),
        ({"x": "2x4"}, r"inputs\['x'\] must be a sequence of dimensions"),
        ([(2, 4)], "inputs= takes shapes by input name, like .*, not list"),
        ({0: (2, 4)}, "inputs= takes names of inputs as keys, not 0"),
        ({"x": (1.5, 4)}, r"inputs\['x'\] has the dimension 1.5; one is a size, a name, or -1"),
        ({"x": ("1.5", 4)}, r"inputs\['x'\] has the dimension '1.5'"),
        ({"x": ("", 4)}, r"inputs\['x'\] has the dimension ''"),
        ({"x": (-2, 4)}, r"inputs\['x'\] has the dimension -2"),
        ({"x": (True, 4)}, r"inputs\['x'\] has the dimension True"),
        ({"x": (2, 4, 1)}, r"input 'x' was given 3 dimensions, but the model declares \[N, 4\]"),
        ({"x": (2, 5)}, r"input 'x' was given the shape \[2, 5\], but the model declares \[N, 4\]"),
        ({"z": (2, 4)}, "the model has no input 'z'; its inputs are: x"),
    ],
)
def test_shapes(inputs: Any, message: str) -> None:
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(MODEL, inputs=inputs)


def test_shapes_of_other_number_types() -> None:
    assert rillet.compile(MODEL, inputs={"x": np.array([2, 4])}).inputs[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([3], "values= takes arrays by input name, not list"),
        ({"z": np.zeros(3)}, r"values\['z'\]: the model has no such input; its inputs are: x"),
        ({"x": np.zeros((2, 5), np.float32)}, r"values\['x'\] is float32 \[2, 5\], but the input is float32 \[N, 4\]"),
        ({"x": np.zeros((2, 4), np.int64)}, r"values\['x'\] is int64 \[2, 4\], but the input is float32"),
        ({"x": [[1], [2, 3]]}, r"values\['x'\] is no array of numbers"),
        ({"x": None}, r"values\['x'\] is no array of numbers"),
    ],
)
def test_values(values: Any, message: str) -> None:
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(MODEL, values=values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": None}, "target must be a name or several, not None; 'rillet targets' lists them"),
        ({"target": []}, "name at least one target"),
        ({"jobs": 0}, "jobs must be a number of processes from 1 on, not 0"),
        ({"device": "npu"}, "unknown device 'npu'; known devices: cpu, cpu-sync, cpu-task"),
        ({"device": 2}, "device must be a name or several, not 2"),
        ({"jobs": "2"}, "jobs must be a number of processes"),
        ({"progress": 3}, r"progress must be a function of \(finished, total\), not 3"),
        ({"dump_ir": 3}, "dump_ir must be the path of a folder, not 3"),
        ({"cache": ""}, "cache: cannot use '': the path is empty"),
        ({"target": b"host"}, "target must be a name or several, not b'host'"),
        ({"cache": 3}, "cache must be True, False or the path of a folder, not 3"),
        ({"cache": __file__}, "cache: .*test_arguments.py is not a folder"),
        *(({"threads": t}, "threads must be a number from 1 to 1024") for t in (0, -1, 1 << 20, 1.5, "2", True)),
        ({"dump_ir": __file__}, "cannot write into .*test_arguments.py: .* is a file, not a folder"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rillet.RilletError, match=message):
        rillet.compile(MODEL, **options)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"M": 3}, r"dims\['M'\]: the model has no dimension of this name; its dynamic dimensions: N"),
        ({"N": "3"}, r"dims\['N'\] is '3'; it takes the name of a dimension and a size from 0 on"),
        ({"N": -1}, r"dims\['N'\] is -1"),
        ({"N": True}, r"dims\['N'\] is True"),
        ([3], r"dims= takes sizes by name of a dimension, like \{'N': 8\}, not list"),
    ],
)
def test_dimensions(dims: Any, message: str) -> None:
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(MODEL, dims=dims)


_MLIR = """func.func @main(%x: tensor<?x4xf32> {rillet.name = "x", rillet.dims = ["N", "4"]}) -> tensor<?x4xf32> {
  %0 = stablehlo.abs %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}"""
_LIMIT = "bytes; the limit is 70,368,744,177,664"


@pytest.mark.parametrize("model", [MODEL, _MLIR], ids=["onnx", "mlir"])
@pytest.mark.parametrize("size", [1 << 45, 1 << 62, 1 << 63, 1 << 80])
@pytest.mark.parametrize("by_name", [True, False])
def test_huge_sizes(model: Any, size: int, by_name: bool) -> None:
    options: dict[str, Any] = {"dims": {"N": size}} if by_name else {"inputs": {"x": (size, 4)}}
    with pytest.raises(
        rillet.CompileError, match=rf"('x'|'N').*: a tensor of shape \[{size}.* is too large: .*{_LIMIT}"
    ):
        rillet.compile(model, **options)
    with pytest.raises(rillet.CompileError, match=_LIMIT):
        rillet.check(model, **options)


def test_huge_tensors_of_mlir() -> None:
    huge = "tensor<100000x100000x100000xf32>"
    text = f"func.func @main(%x: {huge}) -> {huge} {{\n return %x : {huge}\n}}"
    shape = r"a tensor of shape \[100000, 100000, 100000\] is too large: 4,000,000,000,000,000"
    for use in (rillet.compile, rillet.check):
        with pytest.raises(rillet.CompileError, match=f"input 'argument0': {shape} {_LIMIT}"):
            use(text)
    grown = f"""func.func @main(%x: tensor<2xf32>) -> tensor<f32> {{
      %0 = stablehlo.broadcast_in_dim %x, dims = [3] : (tensor<2xf32>) -> {huge.replace("xf32", "x2xf32")}
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1, 2, 3]
        : ({huge.replace("xf32", "x2xf32")}, tensor<f32>) -> tensor<f32>
      return %1 : tensor<f32>
    }}"""
    with pytest.raises(rillet.CompileError, match=rf"line 2:\d+: a tensor of shape .* is too large: .* {_LIMIT}"):
        rillet.compile(grown)


@pytest.mark.parametrize("model", [MODEL, _MLIR], ids=["onnx", "mlir"])
def test_one_dimension_pinned_in_two_ways(model: Any) -> None:
    message = r"dims\['N'\]: inputs= pins the dimension 'N' to 3, and dims= to 5: give one of them"
    with pytest.raises(rillet.CompileError, match=message):
        rillet.compile(model, inputs={"x": (3, 4)}, dims={"N": 5})
    assert rillet.compile(model, inputs={"x": (3, 4)}, dims={"N": 3}).inputs[0].shape == (3, 4)


def test_dimensions_of_mlir() -> None:
    text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32> }"
    with pytest.raises(rillet.CompileError, match="no dimension of this name; its inputs have no dynamic dimensions"):
        rillet.compile(text, dims={"N": 1})


def test_pinned_dimensions() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[N,M] x, float[N,M] y, float[1] z)
        => (float[N,M] s) { t = Add(x, y) s = Add(t, z) }"""
    )
    pinned = rillet.compile(model, dims={"N": 2})
    assert [spec.shape for spec in pinned.inputs] == [(2, "M"), (2, "M"), (1,)]
    renamed = rillet.compile(model, inputs={"x": ("N", "K")}, dims={"K": 3, "N": np.int64(2)})
    assert renamed.inputs[0].shape == (2, 3) and renamed.inputs[1].shape[0] == 2
    unnamed = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[?,4] x) => (float[?,4] y) { y = Relu(x) }'
    )
    assert rillet.compile(unnamed, dims={"x_0": 5}).inputs[0].shape == (5, 4)


@pytest.mark.parametrize("feeds", [[np.zeros((2, 4))], np.zeros((2, 4)), None])
def test_run_wants_names(module: rillet.Module, feeds: Any) -> None:
    with pytest.raises(rillet.RunError, match=r"run takes a mapping of arrays by input name, not .*; call the module"):
        module.run(feeds)


def test_load_of_what_is_no_path() -> None:
    with pytest.raises(rillet.LoadError, match=r"cannot load 'a\\x00b': it is no path"):
        rillet.load("a\0b")


def test_output_declared_with_another_type() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (int64[2] y) { y = Relu(x) }'
    )
    with pytest.raises(rillet.CompileError, match="output 'y' is declared as int64, but the graph computes float32"):
        rillet.compile(model)


def test_domain_without_an_opset() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = com.foo.Bar(x) }'
    )
    with pytest.raises(rillet.UnsupportedError) as info:
        rillet.compile(model)
    assert "com.foo.Bar 'Bar_1': the model imports no opset for domain 'com.foo'" in str(info.value)


def test_default_domain_without_an_opset() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["other" : 1]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    with pytest.raises(rillet.UnsupportedError) as info:
        rillet.compile(model)
    assert "Relu 'Relu_1': the model imports no opset for domain 'ai.onnx'; add it to opset_import" in str(info.value)
