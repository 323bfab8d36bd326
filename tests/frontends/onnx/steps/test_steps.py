"""What a node becomes that is no operation on the device: sizes that the host computes, and branches."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.support.importing import import_model
from tests.support.onnx_models import assert_matches, model, ops_of

F32 = np.float32


def ones(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


def test_shape_arithmetic_stays_off_the_device() -> None:
    """The usual split into heads: Reshape to (batch, sequence, heads, -1) and back."""
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["sequence"], start=1, end=2),
        helper.make_node("Concat", ["batch", "sequence", "heads", "rest"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["y"]),
        helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 1, 3]),
    ]
    constants = {"heads": np.array([4]), "rest": np.array([-1])}
    proto = model(nodes, {"x": ("float32", ("n", "s", 32))}, ["z"], constants)
    program = import_model(proto)
    assert "-> tensor<?x4x?x8xf32>" in str(program.module)
    assert not {"tensor.reshape", "tensor.extract", "tensor.from_elements"} & set(ops_of(program))
    assert_matches(proto, [ones(2, 3, 32)])


def test_known_conditions_choose_their_branch() -> None:
    def branch(op_type: str) -> object:
        return helper.make_graph(
            [helper.make_node(op_type, ["x"], ["r"])], op_type, [], [helper.make_empty_tensor_value_info("r")]
        )

    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("Exp"), else_branch=branch("Relu"))]
    proto = model(nodes, {"x": ("float32", (2,))}, ["y"], {"c": np.array(False)})
    assert "math.exp" not in ops_of(import_model(proto))
    open_proto = model(nodes, {"x": ("float32", (2,)), "c": ("bool", ())}, ["y"])
    assert "scf.if" in ops_of(import_model(open_proto))
    assert_matches(open_proto, [np.array([-1, 2], F32), np.array(True)])


def test_branches_of_different_extents() -> None:
    def branch(axis: int) -> object:
        nodes = [helper.make_node("Concat", ["x", "x"], ["r"], axis=axis)]
        return helper.make_graph(nodes, "b", [], [helper.make_empty_tensor_value_info("r")])

    nodes = [
        helper.make_node("If", ["c"], ["t"], then_branch=branch(0), else_branch=branch(1)),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    proto = model(nodes, {"x": ("float32", (2, 3)), "c": ("bool", ())}, ["y"])
    for condition in (True, False):
        assert_matches(proto, [ones(2, 3), np.array(condition)])
