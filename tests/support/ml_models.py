"""Models of ai.onnx.ml for tests: many nodes in one graph, which is compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import rillet


class MlGraph:
    """Nodes of ai.onnx.ml on named arrays; ``N`` is the number of rows, unknown to the compiler where it is dynamic."""

    def __init__(self, arrays: Mapping[str, np.ndarray], opset: int = 1, dynamic: bool = True):
        self.arrays = dict(arrays)
        self._opset = opset
        self._dynamic = dynamic
        self._nodes: list[onnx.NodeProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def add(
        self, op_type: str, inputs: str | Sequence[str], *codes: int | onnx.TypeProto, **attributes: Any
    ) -> list[str]:
        """Add a node and make its outputs, of these types, outputs of the graph; returns their names."""
        number = len(self._nodes)
        names = [f"y{number}_{i}" for i in range(len(codes or (TensorProto.FLOAT,)))]
        given = [inputs] if isinstance(inputs, str) else list(inputs)
        self._nodes.append(helper.make_node(op_type, given, names, f"node{number}", domain="ai.onnx.ml", **attributes))
        for name, code in zip(names, codes or (TensorProto.FLOAT,), strict=True):
            info = (
                helper.make_tensor_value_info(name, code, None)
                if isinstance(code, int)
                else helper.make_value_info(name, code)
            )
            self._outputs.append(info)
        return names

    def model(self) -> onnx.ModelProto:
        """The graph as a model."""
        graph = helper.make_graph(self._nodes, "ml", [self._input(n, a) for n, a in self.arrays.items()], self._outputs)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", self._opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _input(self, name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        code = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
        shape: list[int | str] = list(array.shape)
        if self._dynamic and array.ndim > 1:
            shape[0] = "N"
        return helper.make_tensor_value_info(name, code, shape)

    def run(self) -> dict[str, Any]:
        """The outputs as Rillet computes them."""
        return rillet.compile(self.model(), jobs=1, threads=1).run(self.arrays)

    def run_peer(self) -> dict[str, Any]:
        """The outputs as ONNX Runtime computes them."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(self.model().SerializeToString(), options)
        names = [output.name for output in self._outputs]
        return dict(zip(names, session.run(names, self.arrays), strict=True))


def assert_same(found: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal types, shapes and values; floats to a tolerance."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(found, expected)
