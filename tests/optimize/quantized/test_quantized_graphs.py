"""Quantized graphs: what is computed in integers, what stays in floats, what goes away."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from torch_mlir import ir

from rillet import optimize
from rillet.ir import Program
from rillet.ir.contraction import is_multiply_add
from rillet.ir.rewrite import is_defined_by
from rillet.ir.structured import Structured, structured, walk
from tests.support import quantized_graphs as quantized
from tests.support.importing import import_model
from tests.support.quantized_graphs import Graph
from tests.support.stages import passes


def optimized(build: quantized.Build, shape: tuple[int | str, ...], element: int = TensorProto.FLOAT) -> Program:
    result = import_model(quantized.model(build, shape, element=element))
    for step in passes("optimize"):
        step(result)
    optimize.check(result)
    return result


def views(program: Program) -> list[Structured]:
    return [view for op in walk(program.main()) if (view := structured(op)) is not None]


def elements(view: Structured) -> str:
    """The element types of the tensors that a structured operation reads and makes."""
    values = [v for v in view.inputs if not is_defined_by(v, "arith.constant", "tensor.empty")]
    types = [str(ir.RankedTensorType(v.type).element_type) for v in values]
    return f"{', '.join(types)} -> {ir.RankedTensorType(view.op.results[0].type).element_type}"


def contractions(program: Program) -> list[str]:
    return [elements(v) for v in views(program) if not all(v.parallel) and is_multiply_add(v)]


def count(program: Program, *names: str) -> int:
    return sum(op.name in names for op in walk(program.main()))


# --- contractions ---


@pytest.mark.parametrize("group", [1, 2, 8])
def test_a_convolution_of_dequantized_operands_is_one_of_integers(group: int) -> None:
    program = optimized(lambda g, x: g.q(g.conv(g.q(x), 8, 8, group=group)), (1, 8, 9, 9))
    assert contractions(program) == ["i8, i8 -> i32"]
    # The zero point of the image is the padding; its share of the sums is a constant, and nothing is subtracted.
    (pad,) = [op for op in walk(program.main()) if op.name == "tensor.pad"]
    yielded = list(pad.regions[0].blocks[0].operations)[-1].operands[0]
    assert ir.IntegerAttr(yielded.owner.attributes["value"]).value == 113
    (product,) = [v for v in views(program) if not all(v.parallel)]
    assert [op.name for op in product.body_ops()] == ["arith.extui", "arith.extsi", "arith.muli", "arith.addi"]


def test_what_follows_has_one_factor_and_one_offset_and_no_quotient() -> None:
    def build(g: Graph, x: str) -> str:
        y = g.norm(g.conv(g.q(x), 8, 8), 8)
        return g.quantize(g("Relu", y), 0.03, 5)

    program = optimized(build, (1, 8, 9, 9))
    (after,) = [v for v in views(program) if v.is_elementwise and elements(v).startswith("i32")]
    names = [op.name for op in after.body_ops()]
    assert names[:5] == ["arith.addi", "arith.sitofp", "arith.mulf", "arith.addf", "arith.maximumf"]
    assert "arith.divf" not in names and "math.sqrt" not in names and names.count("arith.mulf") == 1


def test_a_division_of_floats_stays_one() -> None:
    program = optimized(lambda g, x: g.quantize(x, 0.03, 5), (4, 4))
    (only,) = views(program)
    assert "arith.divf" in [op.name for op in only.body_ops()]


def test_two_activations_subtract_their_zero_points_as_they_multiply() -> None:
    program = optimized(lambda g, x: g("MatMul", g.q(x, 0.1, 3), g.q(g("Relu", x), 0.1, 9)), (16, 16))
    assert contractions(program) == ["i8, i8 -> i32"]
    (product,) = [v for v in views(program) if not all(v.parallel)]
    assert [op.name for op in product.body_ops()].count("arith.subi") == 2


@pytest.mark.parametrize(("zero", "spread", "element"), [(128, 128, "i8"), (100, 20, "i8"), (100, 128, "i8")])
def test_weights_stay_narrow(zero: int, spread: int, element: str) -> None:
    def build(g: Graph, x: str) -> str:
        return g("MatMul", g.q(x), g.weights(16, 8, axis=None, dtype=np.uint8, zero=zero, spread=spread))

    program = optimized(build, (4, 16))
    assert contractions(program) == [f"i8, {element} -> i32"]


def test_zero_points_for_each_channel_that_do_not_fit_make_16_bit_weights() -> None:
    def build(g: Graph, x: str) -> str:
        array = g.array(g.random.integers(0, 255, (16, 8), endpoint=True).astype(np.uint8))
        scale, zeros = g.array(np.full(8, 0.01, np.float32)), g.array(np.arange(8, dtype=np.uint8) * 10)
        return g("MatMul", g.q(x), g("DequantizeLinear", array, scale, zeros, axis=1))

    assert contractions(optimized(build, (4, 16))) == ["i8, i16 -> i32"]


def test_sums_that_may_not_fit_stay_in_floats() -> None:
    def build(g: Graph, x: str) -> str:
        rows = g.array(np.full((1 << 16, 1), 255, np.uint8))
        return g("MatMul", g.q(x, 0.1, 0), g.dequantize(rows, 0.01, 0))

    (found,) = contractions(optimized(build, (1, 1 << 16)))
    assert found.endswith("f32")


def test_a_scale_along_the_sum_stays() -> None:
    program = optimized(lambda g, x: g("MatMul", g.q(x), g.weights(16, 8, axis=0)), (4, 16))
    (found,) = contractions(program)
    assert found == "f32, f32 -> f32"


def test_quantized_weights_of_a_float_product_are_converted_where_they_are_used() -> None:
    program = optimized(lambda g, x: g("MatMul", x, g.weights(16, 8, axis=1)), (4, 16))
    assert contractions(program) == ["f32, i8 -> f32"]


def test_products_of_integers_take_their_zero_points_apart() -> None:
    def build(g: Graph, x: str) -> str:
        w = g.array(g.random.integers(-128, 127, (16, 8)).astype(np.int8))
        return g("MatMulInteger", x, w, g.array(np.uint8(17)))

    assert contractions(optimized(build, (4, 16), TensorProto.UINT8)) == ["i8, i8 -> i32"]


def test_zero_points_of_each_call_are_subtracted_after_the_sum() -> None:
    program = optimized(quantized.dynamic, (2, 5, 64))
    assert contractions(program) == ["i8, i8 -> i32"]


def test_scales_whose_product_is_no_normal_number_stay() -> None:
    def build(g: Graph, x: str) -> str:
        w = g.array(g.random.integers(-128, 127, (16, 8)).astype(np.int8))
        return g("MatMul", g.q(x, 1e-20, 3), g.dequantize(w, 1e-20, 0, np.int8))

    assert contractions(optimized(build, (4, 16)))[0].endswith("f32")


def test_averages_are_sums_of_integers() -> None:
    program = optimized(lambda g, x: g("GlobalAveragePool", g.q(x)), (1, 4, 8, 8))
    (total,) = [v for v in views(program) if not all(v.parallel)]
    assert elements(total) == "i8 -> i32"


# --- moving ---


def test_movement_between_equal_parameters_is_of_integers() -> None:
    def build(g: Graph, x: str) -> str:
        y = g.q(x, 0.04, 100)
        y = g.q(g("Transpose", y, perm=[0, 2, 1]), 0.04, 100)
        y = g.q(g("MaxPool", y, kernel_shape=[3], pads=[1, 1]), 0.04, 100)
        return g.quantize(g("Concat", y, y, axis=1), 0.04, 100)

    program = optimized(build, (1, 6, 8))
    assert count(program, "tensor.concat") == 1
    assert sum("f32" in elements(v) for v in views(program)) == 1  # what quantizes the input


def test_other_parameters_are_quantized_anew() -> None:
    def build(g: Graph, x: str) -> str:
        return g.quantize(g("Transpose", g.q(x, 0.04, 100), perm=[1, 0]), 0.05, 100)

    program = optimized(build, (6, 8))
    assert sum("math.roundeven" in [op.name for op in v.body_ops()] for v in views(program)) == 2


def test_parts_of_a_concatenation_are_quantized_by_themselves() -> None:
    """Those that have the parameters of the whole stay as they are."""

    def build(g: Graph, x: str) -> str:
        x = g.q(x, 0.04, 100)
        other = g.q(g("Sigmoid", x), 0.004, 0)
        return g.quantize(g("Concat", x, other, axis=1), 0.04, 100)

    program = optimized(build, (6, 8))
    (whole,) = [op for op in walk(program.main()) if op.name == "tensor.concat"]
    assert [str(ir.RankedTensorType(v.type).element_type) for v in whole.operands] == ["i8", "i8"]
    assert sum("math.roundeven" in [op.name for op in v.body_ops()] for v in views(program)) == 3  # input, other, anew


def test_a_clamp_between_equal_parameters_is_one_of_integers() -> None:
    program = optimized(lambda g, x: g.quantize(g("Relu", g.q(x, 0.04, 100)), 0.04, 100), (6, 8))
    assert [[op.name for op in v.body_ops()] for v in views(program)][-1] == ["arith.maxui"]


def test_a_window_of_nothing_but_padding_keeps_its_maximum_of_floats() -> None:
    def build(g: Graph, x: str) -> str:
        y = g("Pad", g.q(x), g.array(np.array([0, 0, 2, 0, 0, 2])), g.array(np.float32(-np.inf)))
        return g("MaxPool", y, kernel_shape=[2])

    program = optimized(build, (1, 4, 8))
    (largest,) = [v for v in views(program) if not all(v.parallel)]
    assert elements(largest) == "f32 -> f32"


def test_embeddings_are_gathered_as_integers() -> None:
    def build(g: Graph, x: str) -> str:
        return g("Gather", g.weights(5000, 16, axis=None), x)

    program = optimized(build, (7,), TensorProto.INT64)
    assert [a.dtype for n in program.constants if (a := program.constants[n]).size == 80000] == [np.int8]


# --- constants ---


def test_small_parameters_are_computed_now() -> None:
    def build(g: Graph, x: str) -> str:
        array = g.array(np.arange(4000, dtype=np.int8))
        return g("Mul", x, g.dequantize(array, 0.5, 3, np.int8))

    program = optimized(build, (2, 4000))
    (only,) = views(program)
    assert [op.name for op in only.body_ops()] == ["arith.mulf"]


# --- dispatches ---


def test_what_is_stored_is_narrow() -> None:
    """A residual sum reads the integers that another dispatch stored, and so does what reads a tensor twice."""

    def build(g: Graph, x: str) -> str:
        y = g.q(g.conv(g.q(x), 8, 8))
        z = g.q(g.conv(y, 8, 8, 1), 0.1, 99)
        return g.q(g("Add", z, g("Sigmoid", y)), 0.2, 50)

    program = optimized(build, (1, 8, 9, 9))
    for step in passes("dispatch"):
        step(program)
    calls = [op for op in walk(program.main()) if op.name == "func.call"]
    inner = {r for call in calls for r in call.results} - set(_returned(program))
    assert {str(ir.RankedTensorType(v.type).element_type) for v in inner} == {"i8"}


def _returned(program: Program) -> list[ir.Value]:
    *_, end = program.main().regions[0].blocks[0].operations
    made = list(end.operation.operands)
    for value in made:
        while is_defined_by(value, "flow.reshape"):
            value = value.owner.operands[0]
            made.append(value)
    return made


def test_no_conversion_to_integers_and_back_within_a_dispatch() -> None:
    def build(g: Graph, x: str) -> str:
        return g.quantize(g("Sigmoid", g.q(g.conv(g.q(x), 8, 8))), 1 / 255, 0)

    program = optimized(build, (1, 8, 9, 9))
    for step in passes("dispatch"):
        step(program)
    bodies = [[op.name for op in v.body_ops()] for op in walk(program.module.operation) if (v := structured(op))]
    (fused,) = [names for names in bodies if names.count("math.roundeven") == 2]
    assert fused.count("arith.sitofp") == 1 and fused.count("arith.fptosi") == 1
