"""Factors of narrow floats, which are widened once instead of for each product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from torch_mlir import ir

import rillet
from rillet.ir import Program
from rillet.ir.contraction import contraction
from rillet.ir.structured import structured, walk
from tests.support.importing import import_model
from tests.support.stages import passes

RANDOM = np.random.default_rng(0)
Arrays = Mapping[str, np.ndarray]
Types = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def weights(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(max(1, np.prod(shape[1:]))))


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Sequence[int | str]], constants: Arrays, dtype: np.dtype
) -> onnx.ModelProto:
    """The model whose tensors all have this type; its output is ``y``."""
    code = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, code, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", code, None)],
        [numpy_helper.from_array(array.astype(dtype), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def node(op: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), ["y"], **attributes)


CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Sequence[int | str]], Arrays]] = {
    "dense": ([node("MatMul", "x", "w")], {"x": [50, 40]}, {"w": weights(40, 24)}),
    "one row": ([node("MatMul", "x", "w")], {"x": [1, 40]}, {"w": weights(40, 24)}),
    "few rows": ([node("MatMul", "x", "w")], {"x": [9, 40]}, {"w": weights(40, 24)}),
    "few columns": ([node("MatMul", "x", "w")], {"x": [9, 40]}, {"w": weights(40, 12)}),
    "gemm": (
        [node("Gemm", "x", "w", "b", transB=1)],
        {"x": [9, 40]},
        {"w": weights(24, 40), "b": weights(24)},
    ),
    "computed": ([node("MatMul", "x", "w")], {"x": [2, 9, 40], "w": [2, 40, 24]}, {}),
    "computed, one row": ([node("MatMul", "x", "w")], {"x": [2, 1, 40], "w": [2, 40, 24]}, {}),
    "windows": (
        [node("Conv", "x", "w", "b", pads=[1] * 4)],
        {"x": [1, 16, 9, 11]},
        {"w": weights(24, 16, 3, 3), "b": weights(24)},
    ),
    "strided windows": (
        [node("Conv", "x", "w", pads=[2] * 4, strides=[2, 2])],
        {"x": [1, 3, 9, 11]},
        {"w": weights(24, 3, 5, 5)},
    ),
    "depthwise": ([node("Conv", "x", "w", pads=[1] * 4, group=16)], {"x": [1, 16, 9, 11]}, {"w": weights(16, 1, 3, 3)}),
    "groups": ([node("Conv", "x", "w", pads=[1] * 4, group=4)], {"x": [1, 16, 9, 11]}, {"w": weights(16, 4, 3, 3)}),
    "transposed": (
        [node("ConvTranspose", "x", "w", "b", strides=[2, 2])],
        {"x": [1, 16, 5, 6]},
        {"w": weights(16, 24, 2, 2), "b": weights(24)},
    ),
}


def inputs_of(name: str, dtype: np.dtype) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.uniform(-1, 1, tuple(s)).astype(dtype) for n, s in CASES[name][1].items()}  # type: ignore[arg-type]


def widened(proto: onnx.ModelProto) -> Program:
    program = import_model(proto)
    steps = passes("optimize", "dispatch")
    for step in steps[: 1 + [s.name for s in steps].index("widen-factors")]:
        step(program)
    return program


def factor_types(program: Program) -> list[tuple[str, str]]:
    """The element types of the lhs and the rhs of each contraction."""
    with program.context:
        views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
        roles = [(view, found) for view in views if (found := contraction(view)) is not None]
        return [
            (str(ir.RankedTensorType(v.inputs[r.lhs].type).element_type), str(v.body.arguments[r.rhs].type))
            for v, r in roles
        ]


@pytest.mark.parametrize("type_", Types)
@pytest.mark.parametrize(
    ("name", "rhs_is_narrow"),
    [
        ("dense", True),
        ("one row", True),
        ("few columns", False),
        ("gemm", True),
        ("computed", False),
        ("computed, one row", True),
        ("windows", True),
        ("strided windows", True),
        ("depthwise", False),
        ("groups", False),
    ],
)
def test_only_constants_of_panels_and_factors_of_few_rows_stay_narrow(
    name: str, rhs_is_narrow: bool, type_: str
) -> None:
    program = widened(model(*CASES[name], Types[type_]))
    assert factor_types(program) == [("f32", type_ if rhs_is_narrow else "f32")]
    with program.context:
        assert not any(op.name == "tensor.pad" and type_ in str(op.results[0].type) for op in walk(program.main()))


def test_readers_of_one_tensor_share_its_extension() -> None:
    nodes = [helper.make_node("MatMul", ["x", w], [p]) for w, p in (("v", "p"), ("w", "q"))]
    proto = model([*nodes, node("Add", "p", "q")], {"x": [9, 40]}, {n: weights(40, 24) for n in "vw"}, Types["f16"])
    program = widened(proto)
    assert factor_types(program) == [("f32", "f16")] * 2
    with program.context:
        views = [view for op in walk(program.main()) if (view := structured(op)) is not None]
        extensions = [v for v in views if [op.name for op in v.body_ops()] == ["arith.extf"] and len(v.inputs) == 1]
    assert len(extensions) == 1


def exact(name: str, dtype: np.dtype) -> np.ndarray:
    """The result for the narrow operands, in float64, by the compiled model of that type."""
    nodes, shapes, constants = CASES[name]
    narrow = {n: a.astype(dtype) for n, a in constants.items()}
    proto = model(nodes, shapes, narrow, np.dtype(np.float64))
    return rillet.compile(proto).run({n: a.astype(np.float64) for n, a in inputs_of(name, dtype).items()})["y"]


def half_spacing(expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Half a unit in the last place of each rounded number."""
    return np.spacing(np.abs(expected.astype(dtype))).astype(np.float64) / 2


@pytest.mark.parametrize(("type_", "target"), [("f16", "host"), ("bf16", "host"), ("f16", "x86-64-v2")])
@pytest.mark.parametrize("name", CASES)
def test_results_are_rounded_once(name: str, type_: str, target: str) -> None:
    dtype, expected = Types[type_], exact(name, Types[type_])
    result = rillet.compile(model(*CASES[name], dtype), target=target).run(inputs_of(name, dtype))["y"]
    assert result.dtype == dtype and result.shape == expected.shape
    assert np.all(np.abs(result.astype(np.float64) - expected) <= half_spacing(expected, dtype) + 2e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 41, 130])
def test_any_number_of_rows(rows: int) -> None:
    proto = model([node("MatMul", "x", "w")], {"x": ["m", 40]}, {"w": weights(40, 50)}, Types["f16"])
    x = RANDOM.uniform(-1, 1, (rows, 40)).astype(np.float16)
    expected = x.astype(np.float64) @ numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float64)
    result = rillet.compile(proto)(x)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=2.0**-11, atol=2e-6)


def recurrent(op: str, gates: int, **attributes: object) -> Callable[[np.dtype], onnx.ModelProto]:
    operands = {"w": weights(1, gates * 24, 16), "r": weights(1, gates * 24, 24), "b": weights(1, 2 * gates * 24)}
    rounded = {n: a.astype(np.float16) for n, a in operands.items()}
    single = node(op, "x", "w", "r", "b", "", "h", hidden_size=24, **attributes)
    return lambda dtype: model([single], {"x": [7, 2, 16], "h": [1, 2, 24]}, rounded, dtype)


def test_constants_that_a_loop_reads_from_a_cache_are_widened() -> None:
    program = widened(recurrent("LSTM", 4)(Types["f16"]))
    assert sorted(factor_types(program)) == [("f32", "f16"), ("f32", "f32")]


@pytest.mark.parametrize(
    "build",
    [recurrent("LSTM", 4), recurrent("GRU", 3), recurrent("GRU", 3, linear_before_reset=1), recurrent("RNN", 1)],
)
def test_states_of_recurrent_layers_are_not_rounded(build: Callable[[np.dtype], onnx.ModelProto]) -> None:
    rng = np.random.default_rng(2)
    given = {n: rng.uniform(-1, 1, s).astype(np.float16) for n, s in (("x", (7, 2, 16)), ("h", (1, 2, 24)))}
    expected = rillet.compile(build(np.dtype(np.float64))).run({n: a.astype(np.float64) for n, a in given.items()})["y"]
    result = rillet.compile(build(Types["f16"])).run(given)["y"]
    assert result.dtype == np.float16
    assert np.all(np.abs(result.astype(np.float64) - expected) <= half_spacing(expected, Types["f16"]) + 2e-6)
