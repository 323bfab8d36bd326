"""What has no form here is refused before anything is compiled: each op, with its place and what to do."""

import pytest

from rillet.errors import UnsupportedError
from rillet.frontends.mlir.importer import import_module
from rillet.frontends.mlir.text import parse


def _refused(text: str) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as refused:
        import_module(parse(text))
    return refused.value


def test_all_foreign_ops_are_listed_at_once_with_their_places():
    text = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "elsewhere.op"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.abs %0 : tensor<4xf32>
  %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}>
    : (tensor<4xf32>) -> tensor<4xf32> loc("decoder/gather")
  return %2 : tensor<4xf32>
}"""
    error = _refused(text)
    assert [(node.op, node.name) for node in error.nodes] == [
        ("elsewhere.op", "line 3:8"),
        ("stablehlo.all_gather", "decoder/gather"),
    ]
    assert "2 nodes are not supported" in str(error)
    assert "lower it to linalg, tensor, arith and scf before" in str(error)


@pytest.mark.parametrize("type_", ["tensor<4xi128>", "tensor<4xf80>", "tensor<4xf8E3M4>", "vector<4xf32>", "i65"])
def test_types_that_nothing_computes_with_are_named(type_):
    text = f"""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = "elsewhere.made"() : () -> {type_}
  %1 = "arith.bitcast"(%0) : ({type_}) -> {type_}
  %2 = "elsewhere.used"(%1, %a) : ({type_}, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}}"""
    assert "elsewhere.made 'line 3:8'" in str(_refused(text))
