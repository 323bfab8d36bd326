"""The small editing tools."""

from __future__ import annotations

import pytest
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.errors import CompileError
from rillet.ir import dtypes
from rillet.ir.rewrite import (
    clone_operations,
    create_like,
    defining,
    erase_dead,
    float_constant,
    fused_location,
    int_constant,
    is_defined_by,
    rebuild_generic,
    renumber_index,
    scalar_constant,
)
from rillet.ir.structured import structured, walk
from tests.support.structured_text import parsed

_TEXT = """
func.func @main(%a: f32, %t: tensor<2x3xf32>) -> f32 {
  %c = arith.constant 2.5 : f32
  %n = arith.constant 7 : i32
  %v = arith.constant dense<1.5> : vector<4xf32>
  %w = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
  %b = vector.broadcast %c : f32 to vector<4xf32>
  %dead = arith.mulf %a, %a : f32
  %s = arith.addf %a, %c : f32
  return %s : f32
}"""


def _by_name(main: ir.Operation) -> dict[str, list[ir.Operation]]:
    found: dict[str, list[ir.Operation]] = {}
    for op in walk(main):
        found.setdefault(op.name, []).append(op)
    return found


def test_who_defines_a_value() -> None:
    with parsed(_TEXT) as main:
        ops = _by_name(main)
        a, c = ops["arith.addf"][0].operands
        assert defining(a) is None and not is_defined_by(a, "arith.constant")
        assert defining(c) == ops["arith.constant"][0]
        assert defining(c, "arith.addf", "arith.mulf") is None
        assert is_defined_by(c, "arith.addf", "arith.constant")


def test_constants() -> None:
    with parsed(_TEXT) as main:
        ops = _by_name(main)
        c, n, v, w = (op.results[0] for op in ops["arith.constant"])
        (b,) = (op.results[0] for op in ops["vector.broadcast"])
        assert (int_constant(n), int_constant(c)) == (7, None)
        assert [float_constant(x) for x in (c, n, v, w, b)] == [2.5, None, 1.5, None, 2.5]
        assert scalar_constant(w) is None
        assert scalar_constant(n).value == 7


def test_what_nothing_reads_is_erased() -> None:
    with parsed(_TEXT) as main:
        erase_dead(main)
        # (Operations on vectors are none of the tensor form's.)
        left = [op.name for op in walk(main)]
        assert (
            "arith.mulf" not in left
            and left.count("arith.constant") == 1
            and left[-2:] == ["arith.addf", "func.return"]
        )


def test_clones_read_what_the_mapping_says() -> None:
    with parsed(_TEXT) as main:
        ops = _by_name(main)
        a = main.regions[0].blocks[0].arguments[0]
        (addition,) = ops["arith.addf"]
        with ir.InsertionPoint(addition):
            two = arith.ConstantOp(ir.F32Type.get(), 2.0).result
            mapping = {a: two}
            clone_operations([ops["arith.mulf"][0], addition], mapping)
        product, total = (mapping[op.results[0]].owner for op in (ops["arith.mulf"][0], addition))
        assert list(product.operands) == [two, two]
        assert total.operands[0] == two and total.operands[1] == addition.operands[1]


def test_an_op_like_another() -> None:
    with parsed(_TEXT) as main:
        (addition,) = _by_name(main)["arith.addf"]
        vector = ir.VectorType.get([4], ir.F32Type.get())
        with ir.InsertionPoint(addition):
            wide = arith.ConstantOp(vector, ir.DenseElementsAttr.get_splat(vector, ir.FloatAttr.get_f32(1.0))).result
            same, wider = create_like(addition, addition.operands), create_like(addition, [wide, wide], [vector])
        assert (same.name, wider.name) == ("arith.addf", "arith.addf")
        assert same.results[0].type == addition.results[0].type
        assert wider.results[0].type == vector
        assert same.attributes["fastmath"] == addition.attributes["fastmath"]


def test_a_generic_rebuilt_over_swapped_loops() -> None:
    text = """
    func.func @main(%a: tensor<2x3xf32>, %e: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
      ^bb0(%x: f32, %z: f32):
        %i = linalg.index 0 : index
        %n = arith.index_cast %i : index to i32
        %f = arith.sitofp %n : i32 to f32
        %s = arith.addf %x, %f : f32
        linalg.yield %s : f32
      } -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    with parsed(text) as main:
        (old,) = _by_name(main)["linalg.generic"]
        maps = [(1, 0), (1, 0)]
        new = rebuild_generic(old, old.operands, [r.type for r in old.results], maps, [True, True])
        renumber_index(new, [1, 0])
        view = structured(new)
        assert view is not None and view.maps == ((1, 0), (1, 0)) and view.extents == (3, 2)
        (index,) = [op for op in walk(new) if op.name == "linalg.index"]
        assert index.attributes["dim"].value == 1
        main.verify()


def test_locations_of_several_ops_are_fused_once() -> None:
    with parsed(_TEXT) as main:
        ops = _by_name(main)["arith.constant"]
        named = [ir.Location.name(n) for n in ("x", "y", "x")]
        made = ops[:3]
        for op, location in zip(made, named, strict=True):
            op.location = location
        assert str(fused_location(made)) == str(ir.Location.fused([named[0], named[1]]))
        assert fused_location([made[0], made[2]]) == named[0]


@pytest.mark.parametrize(
    ("type_", "count"),
    [("i1", 1), ("i4", 1), ("i8", 1), ("f16", 2), ("f8E4M3FN", 1), ("f64", 8), ("index", 8), ("complex<f32>", 8)],
)
def test_bytes_of_an_element(type_: str, count: int) -> None:
    with parsed(_TEXT):
        assert dtypes.storage_bytes(ir.Type.parse(type_)) == count


def test_no_bytes_for_a_type_that_no_tensor_has() -> None:
    with parsed(_TEXT), pytest.raises(CompileError, match="elements of type none cannot be stored"):
        dtypes.storage_bytes(ir.Type.parse("none"))
