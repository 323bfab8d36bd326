"""Small models on strings, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import rillet

STRING, INT = TensorProto.STRING, TensorProto.INT64


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Sequence[str],
    initializers: Mapping[str, Any] | None = None,
    ml_opset: int = 4,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, code, shape) for n, (code, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", ml_opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def compiled(*args: Any, **kwargs: Any) -> Any:
    return rillet.compile(model(*args, **kwargs), jobs=1, threads=1)


def single(
    op_type: str,
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: int = 1,
    ml_opset: int = 4,
    **attributes: Any,
) -> Any:
    """A compiled model of one node, named "node", with outputs ``y0``, ``y1``, …"""
    names = [f"y{i}" for i in range(outputs)]
    domain = "ai.onnx.ml" if op_type in ("LabelEncoder", "CategoryMapper", "OneHotEncoder") else ""
    node = helper.make_node(op_type, list(inputs), names, "node", domain=domain, **attributes)
    return compiled([node], inputs, names, ml_opset=ml_opset)


def texts(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)
