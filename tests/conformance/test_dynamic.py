"""A sample of ONNX's node tests, whose models do not know the size of anything."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.conformance import suite

_STRIDE = 60
_SAMPLE = [n for n in sorted(suite.cases()) if n.startswith("node/") and n not in suite.expected_failures()][::_STRIDE]


def without_dimensions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every dimension of its inputs and outputs unknown."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in (*copy.graph.input, *copy.graph.output):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.Clear()
            dim.dim_param = f"{info.name}_{axis}"
    del copy.graph.value_info[:]
    return copy


@pytest.mark.parametrize("name", _SAMPLE)
def test_node_tests_without_dimensions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = suite._Backend.prepare

    def loosened(model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Any:
        return prepare(without_dimensions(model), device, **options)

    monkeypatch.setattr(suite._Backend, "prepare", loosened)
    outcome = suite.run(suite.cases()[name])
    assert outcome.status == "passed", outcome.reason
