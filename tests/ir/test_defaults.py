"""Inputs with defaults become constants where programs are called with all inputs."""

from __future__ import annotations

import numpy as np
from onnx import parser

from rillet.frontends.registry import open_model
from rillet.ir import defaults


def test_inputs_with_defaults_become_constants() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] w, float[2] x, float[2] b) => (float[2] y) '
        "<float[2] w = {2, 3}, float[2] b = {0, 0}> { t = Mul(x, w)  y = Add(t, b) }"
    )
    program = open_model(proto).program()
    assert list(program.defaults) == ["w", "b"]
    defaults.hold(program)
    assert program.module.operation.verify() and not program.defaults
    text = str(program.module)
    assert text.count("rillet.name") == 2  # x and y
    np.testing.assert_array_equal(program.constants["w"], [2, 3])
    assert "dense<0.000000e+00>" in text
    defaults.hold(program)
    assert str(program.module) == text
