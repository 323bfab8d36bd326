"""Models of one operator of domain com.microsoft, run by Rillet and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import rillet

Arrays = Mapping[str, np.ndarray | None]


def contrib_model(
    op: str,
    inputs: Arrays,
    outputs: Sequence[str] = ("y",),
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    known: Sequence[str] = (),
    domain: str = "com.microsoft",
    opset: int = 17,
    dtypes: Mapping[str, type] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node 'n'. ``inputs`` in the operator's order, None where one is absent; those in ``known`` are constants,
    the others are declared of ``shapes``, or their own. ``dtypes``: of outputs that are not of the first input's.
    """
    names = [name if array is not None else "" for name, array in inputs.items()]
    while not names[-1]:
        names.pop()
    given = {n: a for n, a in inputs.items() if a is not None}
    first = next(iter(given.values())).dtype
    node = helper.make_node(op, names, list(outputs), name="n", domain=domain, **attributes)

    def info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        [node],
        "one",
        [info(n, a.dtype, (shapes or {}).get(n, a.shape)) for n, a in given.items() if n not in known],
        [info(n, (dtypes or {}).get(n, first), None) for n in outputs if n],
        [numpy_helper.from_array(given[n], n) for n in known],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_both(
    proto: onnx.ModelProto, *feeds: Arrays, threads: int = 1
) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """For each of ``feeds`` what Rillet computes, on ``threads``, and what ONNX Runtime does, by output."""
    module = rillet.compile(proto, threads=threads)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = {i.name for i in proto.graph.input}
    results = []
    for feed in feeds:
        given = {n: a for n, a in feed.items() if n in wanted and a is not None}
        names = [o.name for o in proto.graph.output]
        expected = dict(zip(names, session.run(names, given), strict=True))
        results.append((module.run(given), expected))
    return results


def assert_close(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float) -> None:
    """Equal names, types and shapes; values within ``tolerance`` of the largest of each output."""
    assert set(actual) == set(expected)
    for name, want in expected.items():
        got = actual[name]
        assert got.dtype == want.dtype and got.shape == want.shape, name
        worst = np.abs(got.astype(np.float64) - want).max(initial=0)
        assert worst <= tolerance * max(1.0, np.abs(want.astype(np.float64)).max(initial=0)), (name, worst)
