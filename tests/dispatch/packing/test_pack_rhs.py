"""Packing of right-hand sides."""

from __future__ import annotations

import numpy as np
import pytest

from rillet.dispatch.packing.pack_rhs import pack
from tests.support.ir_check import check, lower
from tests.support.stages import passes

MATMUL = """
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> ({axes})>
#c = affine_map<(m, n, k) -> (m, n)>
module {{
  {globals}
  func.func @main(%x: tensor<{m}x8xf32>{argument}) -> tensor<{m}x{n}xf32> {{
    {load}
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<{m}x{n}xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    %y = linalg.generic {{indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %w : tensor<{m}x8xf32>, tensor<{w}xf32>) outs(%f : tensor<{m}x{n}xf32>) {{
    ^bb0(%p: f32, %q: f32, %o: f32):
      %s = arith.mulf %p, %q : f32
      %t = arith.addf %s, %o : f32
      linalg.yield %t : f32
    }} -> tensor<{m}x{n}xf32>
    func.return %y : tensor<{m}x{n}xf32>
  }}
}}
"""


def constant_rhs(n: int, axes: str) -> str:
    w = f"8x{n}" if axes == "k, n" else f"{n}x8"
    return MATMUL.format(
        m=4, n=n, axes=axes, w=w, argument="",
        globals=f"ml_program.global private @w(#ml_program.extern<tensor<{w}xf32>>) : tensor<{w}xf32>",
        load=f"%w = ml_program.global_load_const @w : tensor<{w}xf32>",
    )  # fmt: skip


def computed_rhs(m: int, n: int, axes: str) -> str:
    w = f"8x{n}" if axes == "k, n" else f"{n}x8"
    return MATMUL.format(m=m, n=n, axes=axes, w=w, argument=f", %w: tensor<{w}xf32>", globals="", load="")


@pytest.mark.parametrize("axes", ["k, n", "n, k"])
def test_a_constant_is_packed_in_the_compiler(axes: str) -> None:
    array = np.arange(8 * 20, dtype=np.float32).reshape((8, 20) if axes == "k, n" else (20, 8))
    program = lower(constant_rhs(20, axes), passes("dispatch"), until="pack-rhs", constants={"w": array})
    check(
        str(program.module),
        """
        // CHECK: affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16)>
        // CHECK-NOT: @w(
        // CHECK: ml_program.global_load_const @w_packed : tensor<2x8x16xf32>
        """,
    )
    logical = array if axes == "k, n" else array.T
    packed = program.constants["w_packed"]
    np.testing.assert_array_equal(packed[1, :, :4], logical[:, 16:])
    assert not packed[1, :, 4:].any()
    assert "w" not in program.constants


def test_batches_stay_in_front() -> None:
    array = np.arange(2 * 3 * 5 * 18, dtype=np.int32).reshape(2, 3, 5, 18)
    packed = pack(array, 1, 16)
    assert packed.shape == (2, 2, 3, 5, 16)
    np.testing.assert_array_equal(packed[1, 0], array[1, ..., :16])
    np.testing.assert_array_equal(packed[1, 1, ..., :2], array[1, ..., 16:])


def test_a_computed_operand_with_strided_columns_is_packed_for_many_rows() -> None:
    program = lower(computed_rhs(64, 32, "n, k"), passes("dispatch"), until="pack-rhs")
    check(
        str(program.module),
        """
        // CHECK-DAG: affine_map<(d0, d1, d2) -> (d0 * 16 + d2, d1)>
        // CHECK-DAG: affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16)>
        // CHECK: linalg.generic
        // CHECK-SAME: ins(%{{.*}} : tensor<32x8xf32>) outs(%{{.*}} : tensor<2x8x16xf32>)
        """,
    )


@pytest.mark.parametrize("columns", [40, "?"])
def test_of_a_computed_operand_only_the_last_panel_looks_at_columns(columns: int | str) -> None:
    text = computed_rhs(64, 40, "n, k")
    if columns == "?":
        text = text.replace("tensor<40x8xf32>", "tensor<?x8xf32>").replace("64x40", "64x?")
        text = text.replace("tensor.empty()", "tensor.empty(%d)").replace(
            "%zero =", "%c0 = arith.constant 0 : index\n %d = tensor.dim %w, %c0 : tensor<?x8xf32>\n %zero ="
        )
    program = lower(text, passes("dispatch"), until="pack-rhs")
    whole, rest, packed = ("2", "1", "3") if columns == 40 else ("?", "?", "?")
    check(
        str(program.module),
        f"""
        // CHECK: linalg.generic
        // CHECK-NOT: ins(
        // CHECK: tensor<{rest}x8x16xf32>
        // CHECK: tensor.extract
        // CHECK: linalg.generic
        // CHECK-SAME: ins(%{{{{.*}}}} : tensor<{columns}x8xf32>) outs(%{{{{.*}}}} : tensor<{whole}x8x16xf32>)
        // CHECK: tensor.insert_slice
        // CHECK: tensor.insert_slice
        // CHECK-SAME: into tensor<{packed}x8x16xf32>
        """,
    )


@pytest.mark.parametrize(
    "text", [computed_rhs(8, 32, "n, k"), computed_rhs(64, 32, "k, n"), computed_rhs(64, 4, "n, k")]
)
def test_a_computed_operand_is_left_alone_when_packing_does_not_pay(text: str) -> None:
    """Few rows; contiguous and narrow; less than a panel."""
    program = lower(text, passes("dispatch"), until="pack-rhs")
    assert str(program.module).count("linalg.generic") == 1


NARROW = """
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
module {{
  ml_program.global private @w(#ml_program.extern<tensor<{k}x20x{type}>>) : tensor<{k}x20x{type}>
  func.func @main(%x: tensor<4x{k}xi8>) -> tensor<4x20xi32> {{
    %w = ml_program.global_load_const @w : tensor<{k}x20x{type}>
    %zero = arith.constant 0 : i32
    %e = tensor.empty() : tensor<4x20xi32>
    %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4x20xi32>) -> tensor<4x20xi32>
    %y = linalg.generic {{indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %w : tensor<4x{k}xi8>, tensor<{k}x20x{type}>) outs(%f : tensor<4x20xi32>) {{
    ^bb0(%p: i8, %q: {type}, %o: i32):
      %r = arith.extui %p : i8 to i32
      %t = arith.extsi %q : {type} to i32
      %s = arith.muli %r, %t : i32
      %u = arith.addi %s, %o : i32
      linalg.yield %u : i32
    }} -> tensor<4x20xi32>
    func.return %y : tensor<4x20xi32>
  }}
}}
"""


def test_steps_of_8_bit_integers_lie_side_by_side() -> None:
    array = np.arange(9 * 20, dtype=np.int8).reshape(9, 20)
    program = lower(NARROW.format(k=9, type="i8"), passes("dispatch"), until="pack-rhs", constants={"w": array})
    check(
        str(program.module),
        """
        // CHECK: affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2 floordiv 2, d1 mod 16, d2 mod 2)>
        // CHECK: ml_program.global_load_const @w_packed : tensor<2x5x16x2xi8>
        """,
    )
    packed = program.constants["w_packed"]
    np.testing.assert_array_equal(packed[1, :4, :4].transpose(0, 2, 1).reshape(8, 4), array[:8, 16:])
    np.testing.assert_array_equal(packed[0, 4, :, 0], array[8, :16])
    assert not packed[0, 4, :, 1].any()


def test_steps_of_wider_integers_lie_one_after_the_other() -> None:
    array = np.arange(8 * 20, dtype=np.int16).reshape(8, 20)
    program = lower(NARROW.format(k=8, type="i16"), passes("dispatch"), until="pack-rhs", constants={"w": array})
    check(str(program.module), "// CHECK: ml_program.global_load_const @w_packed : tensor<2x8x16xi16>")


def test_steps_lie_in_the_order_that_instructions_take() -> None:
    """Steps 0, 2, 1, 3 of a column, and a group that is filled up with zeros."""
    array = np.arange(6 * 4, dtype=np.int8).reshape(6, 4)
    program = lower(
        NARROW.format(k=6, type="i8").replace("x20x", "x4x"),
        passes("dispatch", target="cortex-m4"),
        until="pack-rhs",
        constants={"w": array},
    )
    text = str(program.module)
    check(
        text,
        """
        // CHECK: d2 floordiv 4, d1 mod 4, (d2 mod 2) * 2 + (d2 floordiv 2) mod 2)>
        // CHECK: ml_program.global_load_const @w_packed : tensor<1x2x4x4xi8>
        """,
    )
    packed = program.constants["w_packed"]
    np.testing.assert_array_equal(packed[0, 0], array[[0, 2, 1, 3]].T)
    np.testing.assert_array_equal(packed[0, 1], np.array([array[4], 0 * array[4], array[5], 0 * array[5]]).T)


def test_few_steps_are_not_filled_up() -> None:
    program = lower(
        NARROW.format(k=6, type="i8"),
        passes("dispatch", target="cortex-m55"),
        until="pack-rhs",
        constants={"w": np.zeros((6, 20), np.int8)},
    )
    assert "floordiv 16" not in str(program.module)
