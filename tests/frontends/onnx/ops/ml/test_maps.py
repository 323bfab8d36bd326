"""ZipMap: sequences of maps as results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.ml_models import MlGraph

ROWS = np.array([[0.1, 0.9, 0.25], [0.3, 0.7, 0.5]], np.float32)


def maps_from(key: int) -> onnx.TypeProto:
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    return helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))


def test_lists_of_dicts() -> None:
    """As ONNX Runtime returns them, between other results."""
    graph = MlGraph({"x": ROWS, "row": ROWS[0]})
    graph.add("Scaler", "x", scale=[2.0], offset=[0.0])
    graph.add("ZipMap", "x", maps_from(TensorProto.STRING), classlabels_strings=["b", "ä", ""])
    graph.add("ZipMap", "row", maps_from(TensorProto.INT64), classlabels_int64s=[5, -3, 4])
    module = rillet.compile(graph.model(), jobs=1, threads=1)
    found, expected = module.run(graph.arrays), graph.run_peer()
    np.testing.assert_array_equal(found.pop("y0_0"), expected.pop("y0_0"))
    assert found == expected
    assert [str(spec) for spec in module.outputs[1:]] == [
        "y1_0: map(string, float32)[N]",
        "y2_0: map(int64, float32)[1]",
    ]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [({"classlabels_int64s": [1, 2]}, "2 keys for 3 columns"), ({}, "has neither")],
)
def test_contradictions_are_refused(attributes: dict[str, Any], message: str) -> None:
    graph = MlGraph({"x": ROWS})
    graph.add("ZipMap", "x", maps_from(TensorProto.INT64), **attributes)
    with pytest.raises(CompileError, match=message):
        rillet.compile(graph.model(), jobs=1)


def test_nodes_that_read_maps_are_refused() -> None:
    graph = MlGraph({"x": ROWS})
    (maps,) = graph.add("ZipMap", "x", maps_from(TensorProto.INT64), classlabels_int64s=[1, 2, 3])
    proto = graph.model()
    proto.graph.node.append(helper.make_node("SequenceLength", [maps], ["n"], "count"))
    with pytest.raises(UnsupportedError, match=r"'count'.*it reads a sequence of maps; let it read the tensor"):
        rillet.compile(proto, jobs=1)
