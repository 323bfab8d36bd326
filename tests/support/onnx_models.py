"""Small ONNX models for the frontend's tests, and their comparison with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rillet.ir import dtypes
from tests.support.importing import import_model

Shape = Sequence[int | str | None] | None


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[str, Shape]],
    outputs: Sequence[str],
    initializers: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model from nodes; ``inputs`` maps a name to (dtype, shape); outputs have no declared shape."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, dtypes.by_name[d].code, s) for n, (d, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def single(
    op_type: str,
    arrays: Sequence[np.ndarray],
    opset: int = 17,
    shapes: Sequence[Shape] | None = None,
    known: Sequence[int] = (),
    outputs: int = 1,
    **attributes: Any,
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """A model of one node on ``arrays``, and the arrays that are its inputs.

    The inputs at ``known`` are initializers; ``shapes`` declares the shapes of all inputs instead of the arrays' own.
    """
    names = [f"x{i}" for i in range(len(arrays))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="node", **attributes)
    declared = shapes or [a.shape for a in arrays]
    inputs = {
        n: (a.dtype.name, s) for i, (n, a, s) in enumerate(zip(names, arrays, declared, strict=True)) if i not in known
    }
    constants = {names[i]: arrays[i] for i in known}
    return model([node], inputs, results, constants, opset), [a for i, a in enumerate(arrays) if i not in known]


def assert_matches(
    proto: onnx.ModelProto, arrays: Sequence[np.ndarray], rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Run the model through the frontend and through ONNX Runtime and compare."""
    import onnxruntime

    from tests.support.onnx_interpreter import evaluate

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    actual = evaluate(import_model(proto), arrays)
    for want, got in zip(expected, actual, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def ops_of(program: Any) -> list[str]:
    """The names of all operations of a program, in order."""
    names: list[str] = []
    from torch_mlir import ir

    def visit(op: ir.Operation) -> ir.WalkResult:
        names.append(op.name)
        return ir.WalkResult.ADVANCE

    program.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return names
