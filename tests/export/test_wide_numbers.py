"""64-bit integers and floats on 32-bit boards: what their processors have no instructions for is in the export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import rillet
from tests.support import export_graphs as graphs
from tests.support import firmware

FLOAT, INT64, UINT64, DOUBLE = graphs.FLOAT, graphs.INT64, onnx.TensorProto.UINT64, onnx.TensorProto.DOUBLE
SHAPE = [3, 9]


def arithmetic() -> onnx.ModelProto:
    """Conversions, division and doubles, each an output of its own."""
    outputs = {
        "whole": ("Cast", ["x"], INT64, {"to": INT64}),
        "counted": ("Cast", ["x"], UINT64, {"to": UINT64}),
        "near": ("Cast", ["n"], FLOAT, {"to": FLOAT}),
        "wide": ("Cast", ["n"], DOUBLE, {"to": DOUBLE}),
        "quotient": ("Div", ["n", "m"], INT64, {}),
        "remainder": ("Mod", ["n", "m"], INT64, {}),
        "sum": ("Add", ["d", "e"], DOUBLE, {}),
        "product": ("Mul", ["d", "e"], DOUBLE, {}),
        "ratio": ("Div", ["d", "e"], DOUBLE, {}),
        "root": ("Sqrt", ["d"], DOUBLE, {}),
        "larger": ("Max", ["d", "e"], DOUBLE, {}),
        "smaller": ("Min", ["d", "e"], DOUBLE, {}),
        "less": ("Less", ["d", "e"], graphs.BOOL, {}),
        "narrow": ("Cast", ["d"], FLOAT, {"to": FLOAT}),
        "exponential": ("Exp", ["d"], DOUBLE, {}),
    }
    nodes = [onnx.helper.make_node(op, inputs, [y], name=y, **more) for y, (op, inputs, _, more) in outputs.items()]
    inputs = {"x": FLOAT, "n": INT64, "m": INT64, "d": DOUBLE, "e": DOUBLE}
    return graphs.model(
        nodes,
        [graphs.value(name, type_, SHAPE) for name, type_ in inputs.items()],
        [graphs.value(name, type_, SHAPE) for name, (_, _, type_, _) in outputs.items()],
    )


def sampled() -> onnx.ModelProto:
    """Positions computed from the data, a mask and the position of a maximum."""
    nodes = [
        onnx.helper.make_node("GridSample", ["x", "grid"], ["sampled"], name="sample"),
        onnx.helper.make_node("RoiAlign", ["x", "boxes", "zero"], ["aligned"], output_height=2, output_width=2),
        onnx.helper.make_node("ArgMax", ["sampled"], ["best"], axis=3, keepdims=0),
        onnx.helper.make_node("Cast", ["best"], ["place"], to=FLOAT),
        onnx.helper.make_node("Greater", ["sampled", "half"], ["mask"]),
        onnx.helper.make_node("Cast", ["mask"], ["counted"], to=INT64),
        onnx.helper.make_node("ReduceSum", ["counted", "axes"], ["total"], keepdims=0),
    ]
    inputs = {"x": [1, 2, 8, 8], "grid": [1, 3, 3, 2], "boxes": [1, 4]}
    outputs = {"aligned": (FLOAT, [1, 2, 2, 2]), "place": (FLOAT, [1, 2, 3]), "total": (INT64, [1, 2])}
    constants = {"half": np.float32(0.1), "axes": np.array([2, 3]), "zero": np.zeros(1, np.int64)}
    return graphs.model(
        nodes,
        [graphs.value(name, FLOAT, shape) for name, shape in inputs.items()],
        [graphs.value(name, *what) for name, what in outputs.items()],
        constants,
    )


def check(model: onnx.ModelProto, arrays: list[np.ndarray], target: str, mode: str, folder: Path) -> None:
    firmware.require_emulator(target)
    module = rillet.compile(model, target=target)
    exported = module.export(folder / "model", mode=mode)
    image = firmware.link(module, exported)
    got, _ = firmware.run(module, image, arrays)
    wanted = rillet.compile(model)(*arrays)
    for spec, a, b in zip(module.outputs, got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == np.float32 else 1e-14, err_msg=spec.name)
    stack, _ = firmware.used_memory(image, got)
    assert exported.figures.stack is not None and stack <= exported.figures.stack


@pytest.mark.parametrize(
    ("target", "mode"), [("cortex-m4", "c"), ("cortex-m4", "static"), ("cortex-m55", "c"), ("riscv32imf", "c")]
)
def test_arithmetic(target: str, mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal(SHAPE) * 1000).astype(np.float32)
    n, m = random.integers(-(1 << 60), 1 << 60, SHAPE), random.integers(-1000, 1000, SHAPE) * 2 + 1
    m[0] <<= 33
    d, e = abs(random.standard_normal(SHAPE)) * 10, random.standard_normal(SHAPE)
    d[1, :4], e[1, :4] = [np.nan, 0.0, np.inf, 5e-324], [1.0, -0.0, np.inf, 1.0]
    check(arithmetic(), [x, n, m, d, e], target, mode, tmp_path)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32imf"])
def test_positions_and_masks(target: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 2, 8, 8)).astype(np.float32)
    grid = random.uniform(-1.2, 1.2, (1, 3, 3, 2)).astype(np.float32)
    boxes = np.array([[0.5, 1, 6, 7.5]], np.float32)
    check(sampled(), [x, grid, boxes], target, "c", tmp_path)
