"""Which operations share a dispatch."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from torch_mlir import ir

from rillet import dispatch
from rillet.dialects.flow import REGION
from rillet.dispatch.regions import form_regions
from rillet.dispatch.regions.groups import Group, Limits, outputs
from rillet.dispatch.regions.nodes import node
from rillet.ir import Program
from rillet.ir.structured import walk
from tests.support import optimize_graphs as graphs
from tests.support.optimize_graphs import Graph
from tests.support.stages import passes


def names(build: Callable[[Graph, str], object], shape: tuple[int | str, ...], **options: int) -> Counter[str]:
    """The kinds of the dispatches of a model; ``options``: of dispatch formation, where not the target's."""
    program = graphs.program(build, shape)  # type: ignore[arg-type]
    for step in passes("optimize", "dispatch"):
        step(program)
    dispatch.check(program)
    calls = [str(op.attributes["callee"])[1:] for op in walk(program.main()) if op.name == "func.call"]
    return Counter(name.split("_")[0] for name in calls)


def test_a_long_chain_is_one_dispatch() -> None:
    def chain(g: Graph, x: str) -> str:
        for i in range(300):
            x = g("Sin" if i % 2 else "Neg", x)
        return x

    assert names(chain, (4, 64)) == {"elementwise": 1}


def test_a_chain_beyond_the_limit_is_split() -> None:
    def chain(g: Graph, x: str) -> str:
        for i in range(50):
            x = g("Sin" if i % 2 else "Neg", x)
        return x

    program = graphs.program(chain, (4, 64))
    form_regions.run(program, Limits(chain_cost=20))
    regions = {str(op.attributes[REGION]) for op in walk(program.main()) if REGION in op.attributes}
    assert len(regions) == 3


def test_the_number_of_inputs_is_bounded() -> None:
    def total(g: Graph, x: str) -> str:
        for _ in range(40):
            x = g("Add", x, g.weights(4, 64))
        return x

    assert names(total, (4, 64))["elementwise"] == 3


def test_a_value_that_several_epilogues_use_is_written_once() -> None:
    """relu(conv) and conv + skip: the sum joins the convolution although its result is used twice."""

    def fork(g: Graph, x: str) -> list[str]:
        y = g.conv(x, 4, 4)
        return [g("Relu", g("Add", y, x)), g("Sigmoid", y)]

    assert names(fork, (1, 4, 8, 8))["conv"] == 1
    assert names(fork, (1, 4, 8, 8))["elementwise"] == 0


def test_a_sum_of_two_contractions_joins_the_later_one() -> None:
    def both(g: Graph, x: str) -> str:
        return g("Relu", g("Add", g("MatMul", x, g.weights(16, 16)), g("MatMul", g("Sin", x), g.weights(16, 16))))

    assert names(both, (32, 16)) == {"matmul": 2, "elementwise": 1}


def test_what_a_contraction_does_not_lead_to_is_not_written_by_it() -> None:
    def shared_bias(g: Graph, x: str) -> str:
        bias = g("Sin", x)
        total = g("Add", g("MatMul", x, g.weights(8, 8)), bias)
        return g("MatMul", total, g("Transpose", bias))  # reads the bias, too

    assert names(shared_bias, (8, 8)) == {"elementwise": 1, "chain": 1}


def test_no_cycle_between_dispatches() -> None:
    """y = a * f(a) with a matrix product in f: the product cannot join the dispatch that makes ``a``."""

    def loop(g: Graph, x: str) -> str:
        a = g("Sin", x)
        return g("Mul", a, g("MatMul", a, g.weights(16, 16)))

    assert names(loop, (32, 16)) == {"elementwise": 1, "matmul": 1}


def test_a_normalization_with_a_large_row_is_one_dispatch() -> None:
    def norm(g: Graph, x: str) -> str:
        return g("LayerNormalization", g("Add", x, g("Relu", x)), g.weights(512), g.weights(512))

    assert names(norm, (64, 512)) == {"rows": 1}
    assert names(norm, ("n", 512)) == {"rows": 1}


def test_log_softmax_over_an_inner_axis() -> None:
    assert names(lambda g, x: g("LogSoftmax", x, axis=1), (4, 21, 64, 64)) == {"rows": 1}


def test_a_reduction_does_not_take_away_the_rows_of_another() -> None:
    """A mean over the sequence after a normalization over features has other rows."""

    def pooled(g: Graph, x: str) -> str:
        y = g("LayerNormalization", x, g.weights(64), g.weights(64))
        return g("ReduceMean", y, axes=[1], keepdims=0)

    assert names(pooled, (2, 128, 64)) == {"rows": 1, "reduce": 1}


def test_what_reads_a_matrix_by_columns_does_not_join_what_reads_it_by_rows() -> None:
    def mirrored(g: Graph, x: str) -> str:
        centred = g("Sub", x, g("ReduceMean", x, axes=[1]))
        return g("Sub", x, g("Transpose", centred, perm=[1, 0]))

    assert names(mirrored, ("n", "n")) == {"reduce": 1, "elementwise": 1}
    assert names(mirrored, (128, 128)) == {"reduce": 1, "elementwise": 1}
    assert names(mirrored, (8, 8)) == {"reduce": 1}


def test_contractions_and_windows_are_stored_before_they_are_transposed() -> None:
    """Their results are in registers along one axis and would be stored one by one along another."""

    def image(g: Graph, x: str) -> str:
        return g("Relu", g.conv(x, 16, 16))

    def resized(g: Graph, x: str) -> str:
        return g("Resize", g.conv(x, 16, 16), "", g.array(np.array([1, 1, 2, 1], np.float32)), mode="nearest")

    assert names(image, (1, 16, 16, 16)) == {"transpose": 2, "conv": 1}
    assert names(image, (1, 16, 4, 4)) == {"transpose": 1, "conv": 1}  # too little for a dispatch
    assert names(resized, (1, 16, 16, 16)) == {"transpose": 2, "conv": 1, "elementwise": 1}


def test_rows_are_not_gathered_across_memory() -> None:
    def across(g: Graph, x: str) -> str:
        return g("Softmax", g("Transpose", x, perm=[1, 0]), axis=1)

    assert names(across, (64, 128)) == {"transpose": 1, "rows": 1}
    assert names(across, (4, 1024)) == {"rows": 1}  # no square tiles there


def test_small_reductions_fuse_whatever_their_rows() -> None:
    def pooled(g: Graph, x: str) -> str:
        return g("ReduceSum", g("Softmax", x, axis=1), g.array(np.array([0])), keepdims=0)

    assert names(pooled, (8, 16)) == {"rows": 1}


def test_a_pad_with_another_reader_of_its_source_stays_alone() -> None:
    def fire(g: Graph, x: str) -> str:
        y = g("Relu", g.conv(x, 4, 8, 1))
        return g("Concat", g.conv(y, 8, 8, 1), g.conv(y, 8, 8, 3), axis=1)

    assert names(fire, (1, 4, 8, 8))["pad"] == 1


def test_gathers_join_elementwise_operations_on_their_result_only() -> None:
    def lookup(g: Graph, x: str) -> str:
        table = g("Sin", x)
        return g("Add", g("Gather", table, g.array(np.array([3, 1, 2])), axis=0), g.weights(8))

    assert names(lookup, (5, 8)) == {"elementwise": 1, "gather": 1}


def test_what_follows_a_concatenation_is_computed_with_it() -> None:
    def dense(g: Graph, x: str) -> list[str]:
        y = g("Concat", x, g("MatMul", x, g.weights(16, 8)), axis=1)
        return [y, g("Sigmoid", y)]

    assert names(dense, (32, 16)) == {"matmul": 1, "concat": 1}


LOOP = """
func.func @main(%x: tensor<8xf32> {rillet.name = "x", rillet.dtype = "float32"})
    -> (tensor<8xf32> {rillet.name = "y", rillet.dtype = "float32"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %y = scf.for %i = %c1 to %c8 step %c1 iter_args(%t = %x) -> (tensor<8xf32>) {
    %j = arith.subi %i, %c1 : index
    %a = tensor.extract %t[%j] : tensor<8xf32>
    %b = tensor.extract %t[%i] : tensor<8xf32>
    %s = arith.addf %a, %b : f32
    %u = tensor.insert %s into %t[%i] : tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
"""

HOST_LOOP = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32> {rillet.name = "x", rillet.dtype = "float32"}, %n: tensor<index>)
    -> (tensor<?xf32> {rillet.name = "y", rillet.dtype = "float32"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = tensor.extract %n[] : tensor<index>
  %y = scf.for %i = %c0 to %k step %c1 iter_args(%t = %x) -> (tensor<?xf32>) {
    %d = tensor.dim %t, %c0 : tensor<?xf32>
    %e = tensor.empty(%d) : tensor<?xf32>
    %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%t : tensor<?xf32>) outs(%e : tensor<?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %a : f32
      linalg.yield %r : f32
    } -> tensor<?xf32>
    scf.yield %u : tensor<?xf32>
  }
  func.return %y : tensor<?xf32>
}
"""


def formed(text: str) -> Program:
    program = Program.parse(text)
    for step in passes("dispatch"):
        step(program)
    dispatch.check(program)
    return program


def test_a_loop_over_elements_is_one_dispatch_updated_in_place() -> None:
    text = formed(LOOP).module.operation.get_asm(enable_debug_info=False)
    assert "flow.tied = array<i64: 0, 0>" in text
    assert text.count("call @loop_8(") == 1


def test_a_loop_around_structured_operations_stays_on_the_host() -> None:
    program = formed(HOST_LOOP)
    text = program.module.operation.get_asm(enable_debug_info=False)
    main = text[text.index("@main") : text.index("module @kernels")]
    assert "scf.for" in main
    assert '"flow.load"' in main
    assert main.count("call @elementwise_D(") == 1


@pytest.mark.parametrize("build", [graphs.residual, graphs.mobile])
def test_equal_kernels_are_shared(build: Callable[[Graph, str], str]) -> None:
    def twice(g: Graph, x: str) -> list[str]:
        return [build(g, x), build(g, x)]

    program = graphs.program(twice, (1, 3, 16, 16))
    for step in passes("optimize", "dispatch"):
        step(program)
    calls = [str(op.attributes["callee"]) for op in walk(program.main()) if op.name == "func.call"]
    assert all(count >= 2 for name, count in Counter(calls).items() if "transpose_1x18" not in name)


CAST = """
func.func @main(%x: tensor<2x1xf32> {rillet.name = "x", rillet.dtype = "float32"})
    -> (tensor<4x?xf32> {rillet.name = "y", rillet.dtype = "float32"}) {
  %t = tensor.cast %x : tensor<2x1xf32> to tensor<2x?xf32>
  %y = tensor.concat dim(0) %t, %t : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<4x?xf32>
  func.return %y : tensor<4x?xf32>
}
"""


def test_an_extent_that_is_known_though_the_type_leaves_it_open_is_passed() -> None:
    text = formed(CAST).module.operation.get_asm(enable_debug_info=False)
    assert "func.func @concat_4xD(%arg0: tensor<2x?xf32> {flow.dims = array<i64: 1>}, %arg1: index)" in text


def test_a_group_knows_its_members_once_they_are_marked() -> None:
    """Attributes mark what becomes of an operation; what leaves its group stays the same."""
    program = graphs.optimized(lambda g, x: g("Softmax", g("Sin", x), axis=1), (4, 4096))
    with program.context, ir.Location.unknown():
        operations = [view.operation for view in program.main().regions[0].blocks[0].operations]
        nodes = [n for i, op in enumerate(operations) if (n := node(op, i)) is not None]
        whole = functools.reduce(Group.merged, map(Group.of, nodes))
        (given,) = outputs(whole)
        for member in nodes:
            member.op.attributes[REGION] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        assert outputs(whole) == [given]
        assert given == operations[-1].operands[0]
