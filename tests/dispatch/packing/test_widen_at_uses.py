"""Values that are widened where they are read."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dispatch.packing import widen_at_uses
from rillet.ir import Program
from rillet.ir.structured import structured, walk

_TEXT = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%q: tensor<64xi8>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%q : tensor<64xi8>) outs(%e : tensor<64xf32>) {
  ^bb0(%x: i8, %z: f32):
    %r = arith.sitofp %x : i8 to f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %first = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%wide : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%x: f32, %z: f32):
    %r = arith.mulf %x, %x : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %second = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%first, %wide : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %r = arith.subf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %second : tensor<64xf32>
}"""


def test_readers_that_read_each_other_both_widen() -> None:
    """To rebuild the first changes an operand of the second, which has to be found again: what the first makes is
    widened too, and its only reader is the second.
    """
    program = Program.parse(_TEXT)
    widen_at_uses.run(program, widen_at_uses.Options())
    with program.context:
        (view,) = (view for op in walk(program.main()) if (view := structured(op)) is not None)
        assert {str(ir.RankedTensorType(v.type).element_type) for v in view.inputs} == {"i8"}
        assert [op.name for op in view.body_ops()].count("arith.subf") == 1
