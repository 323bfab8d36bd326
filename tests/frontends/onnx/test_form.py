"""The shape of the imported IR: canonical forms, dynamic shapes, constants, edges."""

from __future__ import annotations

import re

import numpy as np
from onnx import TensorProto, helper

from tests.support.importing import import_model
from tests.support.onnx_models import model, ops_of, single

F32 = np.float32


def text(program: object) -> str:
    return str(program.module)  # type: ignore[attr-defined]


def ones(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


def test_convolution_is_pad_fill_generic() -> None:
    proto, _ = single("Conv", [ones(1, 3, 8, 8), ones(4, 3, 3, 3)], known=[1], pads=[1, 1, 1, 1], strides=[2, 1])
    program = import_model(proto)
    form = [o for o in ops_of(program) if o.split(".")[0] in ("tensor", "linalg") and o.split(".")[1] != "yield"]
    assert form == ["tensor.pad", "tensor.empty", "linalg.fill", "linalg.generic"]
    assert "(d0, d4, d2 * 2 + d5, d3 + d6)" in text(program)
    assert "(d1, d4, d5, d6)" in text(program)


def test_unpadded_convolution_has_no_pad() -> None:
    proto, _ = single("Conv", [ones(1, 3, 8, 8), ones(4, 3, 3, 3)], known=[1])
    assert "tensor.pad" not in ops_of(import_model(proto))


def test_depthwise_convolution_does_not_reduce_over_channels() -> None:
    proto, _ = single("Conv", [ones(1, 4, 8, 8), ones(4, 1, 3, 3)], known=[1], group=4)
    program = import_model(proto)
    assert '"parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]' in text(program)
    assert "(d0, d1, d2 + d4, d3 + d5)" in text(program)


def test_matmul_with_a_matrix_takes_the_batch_into_its_rows() -> None:
    proto, _ = single("MatMul", [ones(2, 3, 4), ones(4, 5)], known=[1])
    program = import_model(proto)
    assert '"parallel", "parallel", "reduction"]' in text(program)
    assert "tensor<6x4xf32>" in text(program)


def test_broadcasts_are_maps() -> None:
    proto, _ = single("Add", [ones(2, 3, 4, 5), ones(1, 3, 1, 1)])
    program = import_model(proto)
    assert ops_of(program).count("linalg.generic") == 1
    assert "affine_map<(d0, d1, d2, d3) -> (d1)>" in text(program)


def test_dimensions_of_one_name_are_one_extent() -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["c"])]
    proto = model(nodes, {"a": ("float32", ("n", 3)), "b": ("float32", ("n", 3))}, ["c"])
    program = import_model(proto)
    assert ops_of(program).count("tensor.dim") == 1
    assert "arith.select" not in ops_of(program)


def test_edges_are_described() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    program = import_model(model(nodes, {"x": ("float32", ("N", 3))}, ["y"]))
    signature = re.search(r"func.func @main.*", text(program))
    assert signature is not None
    edge = '{rillet.dims = ["N", "3"], rillet.dtype = "float32", rillet.name = "%s"}'
    assert edge % "x" in signature[0]
    assert edge % "y" in signature[0]


def test_pinned_shapes_are_static() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    proto = model(nodes, {"x": ("float32", ("N", 3))}, ["y"])
    assert "tensor<2x3xf32>" in text(import_model(proto, inputs={"x": (2, 3)}))
    assert "tensor<?x?xf32>" in text(import_model(proto, inputs={"x": (-1, "w")}))


def test_constants_are_splats_or_globals() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["t"]), helper.make_node("Mul", ["t", "s"], ["y"])]
    weights = ones(3)
    proto = model(nodes, {"x": ("float32", (2, 3))}, ["y"], {"w": weights, "s": np.full(3, 2, F32)})
    program = import_model(proto)
    assert list(program.constants) == ["w"]
    assert "dense<2.000000e+00> : tensor<3xf32>" in text(program)


def test_large_splats_are_not_expanded() -> None:
    """Models with weights made by ConstantOfShape must not take the weights' memory."""
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=value),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": ("float32", (1, 50000))}, ["y"], {"shape": np.array([50000, 40000])})
    program = import_model(proto)
    assert not len(program.constants)
    assert "dense<5.000000e-01> : tensor<50000x40000xf32>" in text(program)


def test_values_specialize() -> None:
    proto, _ = single("ReduceSum", [ones(2, 3), np.array([1])], keepdims=0)
    program = import_model(proto, values={"x1": np.array([1])})
    assert "-> (tensor<2xf32>" in text(program)


def test_locations_name_the_node() -> None:
    proto, _ = single("Relu", [ones(2)])
    assert 'loc("node")' in import_model(proto).module.operation.get_asm(enable_debug_info=True)


def test_overridden_initializer_is_an_input() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    proto = model(nodes, {"x": ("float32", (2,)), "w": ("float32", (2,))}, ["y"], {"w": ones(2)})
    assert ops_of(import_model(proto, inputs={"w": (2,)})).count("ml_program.global") == 0
    assert not import_model(proto, inputs={"w": (2,)}).defaults
    assert list(import_model(proto).defaults) == ["w"]
    proto.ir_version = 3  # where every initializer is an input
    assert ops_of(import_model(proto)).count("ml_program.global") == 1
