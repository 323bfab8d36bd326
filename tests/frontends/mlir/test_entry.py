"""Which function of a module is compiled, and what stands beside it."""

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, UnsupportedError

_DOUBLE = """
func.func private @helper(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %a, %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
_MAIN = """
func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @helper(%a) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
_OTHER = """
func.func public @other(%a: tensor<2xi8>) -> tensor<2xi8> {
  return %a : tensor<2xi8>
}
"""
X = np.array([1, 2, 4], np.float32)


@pytest.mark.parametrize(
    "text",
    [
        _MAIN + _DOUBLE,
        _DOUBLE + _MAIN + _OTHER,
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {" + _DOUBLE + _MAIN + "}",
        "module { module @outer { module @inner {" + _DOUBLE + _MAIN + "} } }",
        "module @unused { func.func @main() { return } }" + _DOUBLE + _MAIN,
        _DOUBLE + _MAIN.replace("@main", "@forward"),
    ],
    ids=["helper", "several-public", "named-module", "nested", "module-beside", "only-public"],
)
def test_public_entries_are_found_and_their_helpers_inlined(text):
    np.testing.assert_array_equal(rillet.compile(text, threads=1)(X), X * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_OTHER + _OTHER.replace("@other", "@third"), "exactly one public function; found: other, third"),
        (_DOUBLE, "exactly one public function; found: none"),
        ("module @a {\n module @b {}\n module @c {}\n}", "exactly one public function; found: none"),
        ("func.func nested @main() { return }\n", "exactly one public function; found: none"),
    ],
)
def test_no_entry_or_several_are_refused(text, message):
    with pytest.raises(CompileError, match=message):
        rillet.compile(text)


def test_a_function_that_calls_itself_or_has_no_body_is_refused_with_its_place():
    recursive = """
func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @again(%a) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @extern(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @again(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @again(%a) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @extern(tensor<3xf32>) -> tensor<3xf32>
"""
    with pytest.raises(UnsupportedError) as refused:
        rillet.compile(recursive)
    assert [node.op for node in refused.value.nodes] == ["func.call"] * len(refused.value.nodes)
    assert "line 4:8" in str(refused.value)
    assert "give the function a body that does not call itself" in str(refused.value)
