"""The MLIR frontend: what it accepts, what form it gives, and how it refuses."""

import numpy as np
import pytest

from rillet.errors import CompileError
from tests.support.importing import import_model

LINALG = """
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
"""


def test_named_ops_are_generalized_and_fills_stay():
    text = str(import_model(LINALG).module)
    assert "linalg.matmul" not in text
    assert text.count("linalg.generic") == 1
    assert text.count("linalg.fill") == 1


def test_the_only_public_function_becomes_main_and_is_annotated():
    text = str(import_model(LINALG).module)
    assert "func.func @main" in text
    assert 'rillet.name = "argument0"' in text
    assert 'rillet.dtype = "float32"' in text


def test_dense_constants_become_globals():
    program = import_model(
        "func.func @main() -> tensor<3xi32> {\n %c = arith.constant dense<[1, 2, 3]> : tensor<3xi32>\n"
        " return %c : tensor<3xi32>\n}"
    )
    (name,) = program.constants
    np.testing.assert_array_equal(program.constants[name], np.array([1, 2, 3], np.int32))
    assert "ml_program.global_load_const" in str(program.module)


def test_dense_resources_become_globals():
    program = import_model(
        "func.func @main() -> tensor<2xf32> {\n %c = arith.constant dense_resource<w> : tensor<2xf32>\n"
        " return %c : tensor<2xf32>\n}\n"
        '{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}'
    )
    (name,) = program.constants
    np.testing.assert_array_equal(program.constants[name], np.array([1, 2], np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "%0 = stablehlo.add %a, %a : tensor<2xf32>",
        "%0 = tosa.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    ],
)
def test_stablehlo_and_tosa_are_accepted(body):
    text = f"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n {body}\n return %0 : tensor<2xf32>\n}}"
    assert "linalg.generic" in str(import_model(text).module)


def test_text_and_paths_are_told_apart(tmp_path):
    path = tmp_path / "model.mlir"
    path.write_text(LINALG)
    assert str(import_model(path).module) == str(import_model(LINALG).module)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_files_are_named(tmp_path, text):
    (path := tmp_path / "m.mlir").write_text(text)
    with pytest.raises(CompileError, match=r"m\.mlir is empty, not an MLIR module"):
        import_model(path)


def test_places_in_a_file_name_it(tmp_path):
    (path := tmp_path / "m.mlir").write_text("func.func @main() {\n %0 = nonsense\n}")
    with pytest.raises(CompileError, match=rf"the MLIR text is invalid: .*\s.*{path}:2:7: ") as caught:
        import_model(path)
    assert '"-"' not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "the MLIR text is empty, not an MLIR module"),
        ("func.func @main( {\n", "the MLIR text is invalid"),
        ("module {\n}", "exactly one public function; found: none"),
        ("func.func @main(%a: f32) -> f32 {\n return %a : f32\n}", "argument 0 of @main is f32; only ranked tensors"),
        (
            "func.func @a() {\n return\n}\nfunc.func @b() {\n return\n}",
            "exactly one public function; found: a, b",
        ),
        (
            "func.func @main() -> tensor<2xf32> {\n %c = arith.constant dense_resource<w> : tensor<2xf32>\n"
            " return %c : tensor<2xf32>\n}",
            r"dense_resource<w> has no data",
        ),
    ],
)
def test_bad_text_is_refused_with_a_reason(text, message):
    with pytest.raises(CompileError, match=message):
        import_model(text)


def test_missing_files_folders_and_odd_sources_are_named(tmp_path):
    with pytest.raises(CompileError, match="no such file"):
        import_model(tmp_path / "absent.onnx")
    with pytest.raises(CompileError, match="is a folder"):
        import_model(tmp_path)
    with pytest.raises(CompileError, match="cannot compile an object of type int"):
        import_model(3)
