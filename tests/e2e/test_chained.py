"""What dispatch formation makes a chain, code generation emits as one; results are those of the reference evaluator."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet
from rillet import pipeline, targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.ir.kernels import functions
from tests.support.importing import import_model

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def attention(
    q: list[int], k: list[int], v: list[int], element: int = FLOAT, mask: list[int] | None = None, **attributes: object
) -> onnx.ModelProto:
    """One ``Attention`` of inputs of these shapes."""
    shapes = {"q": q, "k": k, "v": v} | ({"mask": mask} if mask is not None else {})
    inputs = [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]
    node = helper.make_node("Attention", list(shapes), ["y"], name="attention", **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", element, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def layers(*widths: int, between: str, rows: int = 96) -> onnx.ModelProto:
    """Matrix products by constants with an operation between each two."""
    r = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for n, (a, b) in enumerate(itertools.pairwise(widths)):
        weights.append(numpy_helper.from_array((r.standard_normal((a, b)) / a**0.5).astype(np.float32), f"w{n}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{n}"], [f"p{n}"]))
        x = f"p{n}"
        if n < len(widths) - 2:
            attributes = {"axis": -1} if between in ("Softmax", "LayerNormalization") else {}
            scale = [f"s{n}"] if between == "LayerNormalization" else []
            weights += [numpy_helper.from_array(np.linspace(0.5, 1.5, b, dtype=np.float32), name) for name in scale]
            nodes.append(helper.make_node(between, [x, *scale], [f"h{n}"], **attributes))
            x = f"h{n}"
    x_info = helper.make_tensor_value_info("x", FLOAT, [rows, widths[0]])
    graph = helper.make_graph(nodes, "g", [x_info], [helper.make_tensor_value_info(x, FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def growing() -> onnx.ModelProto:
    """relu(a b) c with an unknown number of rows, and of columns between the products."""
    shapes = {"a": ["m", 4], "b": [4, "s"], "c": ["s", 8]}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("Relu", ["p"], ["h"]),
        helper.make_node("MatMul", ["h", "c"], ["y"], name="second"),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", FLOAT, ["m", 8])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


MODELS = {
    "heads in front": attention([2, 3, 70, 24], [2, 3, 45, 24], [2, 3, 45, 33]),
    "heads behind": attention([2, 70, 72], [2, 48, 72], [2, 48, 96], q_num_heads=3, kv_num_heads=3),
    "shared keys": attention([1, 6, 40, 16], [1, 2, 64, 16], [1, 2, 64, 16]),
    "causal": attention([1, 2, 64, 16], [1, 2, 64, 16], [1, 2, 64, 16], is_causal=1),
    "mask": attention([2, 2, 30, 16], [2, 2, 50, 16], [2, 2, 50, 16], mask=[2, 1, 30, 50]),
    "capped": attention([1, 2, 30, 16], [1, 2, 50, 16], [1, 2, 50, 16], softcap=2.0),
    "half": attention([1, 2, 30, 16], [1, 2, 48, 16], [1, 2, 48, 16], element=HALF),
    "two layers": layers(32, 64, 48, between="Gelu"),
    "three layers": layers(24, 40, 56, 16, between="Relu"),
    "softmax between": layers(32, 50, 48, between="Softmax"),
    "norm between": layers(32, 50, 48, between="LayerNormalization", rows=131),
}


@pytest.mark.parametrize("name", MODELS)
def test_chains_are_emitted_as_such(name: str) -> None:
    program = import_model(MODELS[name])
    target = targets.get("host")
    pipeline.run(program, pipeline.options_for(target), until="dispatch")
    chains = [str(f.parent) for f in functions(program).values() if "chain" in str(f.attributes["sym_name"])]
    assert len(chains) == 1
    assert [compile_kernel(text, target).strategy for text in chains] == ["chain"]


@pytest.mark.parametrize("name", MODELS)
def test_results(name: str) -> None:
    model = MODELS[name]
    r = np.random.default_rng(1)
    inputs = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        inputs[value.name] = r.standard_normal(shape).astype(
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    actual = rillet.compile(model)(**inputs)
    tolerance = 2e-3 if expected.dtype == np.float16 else 2e-5
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def unbounded() -> rillet.Module:
    return rillet.compile(growing())


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (0, 5), (100, 70), (7, 9000)])
def test_rows_of_unknown_length(unbounded: rillet.Module, rows: int, columns: int) -> None:
    r = np.random.default_rng(2)
    a, b, c = (r.standard_normal(s).astype(np.float32) for s in ((rows, 4), (4, columns), (columns, 8)))
    np.testing.assert_allclose(unbounded(a, b, c), np.maximum(a @ b, 0) @ c, rtol=1e-4, atol=1e-4)


def test_rows_that_are_too_long(unbounded: rillet.Module) -> None:
    columns = 2**18 + 1
    zeros = (np.zeros(s, np.float32) for s in ((1, 4), (4, columns), (columns, 8)))
    with pytest.raises(rillet.RunError, match="rows of 262145 elements are longer than 262144, the most that a kernel"):
        unbounded(*zeros)
