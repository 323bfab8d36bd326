"""Which convolutions get transformed weights, and how they are passed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rillet import pipeline, targets
from rillet.dispatch.packing.winograd import transform
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir import Program
from tests.support.importing import import_model


def model(
    *layers: np.ndarray,
    size: tuple[int | str, int | str] = (16, 16),
    element: int = TensorProto.FLOAT,
    **attributes: object,
) -> onnx.ModelProto:
    """Convolutions behind each other, of the same size unless attributes say otherwise."""
    names = {id(w): f"w{n}" for n, w in enumerate(layers)}
    groups = int(str(attributes.get("group", 1)))
    attributes = {"pads": [n // 2 for n in layers[0].shape[2:]] * 2} | attributes
    nodes = [
        helper.make_node("Conv", [f"x{n}", names[id(w)]], [f"x{n + 1}"], name=f"conv{n}", **attributes)
        for n, w in enumerate(layers)
    ]
    x = helper.make_tensor_value_info("x0", element, [1, layers[0].shape[1] * groups, *size])
    y = helper.make_tensor_value_info(f"x{len(layers)}", element, None)
    constants = [numpy_helper.from_array(w, names[id(w)]) for w in {id(w): w for w in layers}.values()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(columns: int = 16, channels: int = 16, taps: tuple[int, int] = (3, 3), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((columns, channels, *taps), np.float32)


def lowered(source: onnx.ModelProto, target: str = "x86-64-v3", *, small: bool = False) -> Program:
    program = import_model(source)
    pipeline.run(program, pipeline.options_for(targets.get(target), optimize_for_size=small), until="dispatch")
    return program


def uses(program: Program) -> bool:
    return "flow.winograd" in str(program.module)


def test_windows_of_three_are_transformed() -> None:
    assert uses(lowered(model(weights())))
    assert uses(lowered(model(weights(taps=(1, 3)))))
    assert uses(lowered(model(weights(), size=("H", "W"))))
    assert uses(lowered(model(weights(), size=(4, 4))))
    assert uses(lowered(model(weights(columns=32), group=2)))


@pytest.mark.parametrize(
    "source",
    [
        model(weights(), strides=[2, 2]),
        model(weights(), dilations=[2, 2], pads=[2, 2, 2, 2]),
        model(weights(channels=8), group=2),
        model(weights(taps=(5, 5))),
        model(weights(taps=(3, 5))),
        model(weights(taps=(1, 1))),
        model(weights(channels=12)),
        model(weights(columns=12)),
        model(weights(), size=(2, 3)),  # two tiles
        model(weights(512, 512), size=(7, 7)),  # 16 MiB for 16 tiles
        model(np.full((16, 16, 3, 3), np.nan, np.float32)),
        model(np.full((16, 16, 3, 3), 3e38, np.float32)),  # finite, but not in the transform
        model(weights().astype(np.float64), element=TensorProto.DOUBLE),
    ],
)
def test_others_are_not(source: onnx.ModelProto) -> None:
    assert not uses(lowered(source))


@pytest.mark.parametrize(("target", "small"), [("cortex-m4", False), ("wasm32", False), ("x86-64-v3", True)])
def test_small_files_hold_weights_once(target: str, small: bool) -> None:
    assert not uses(lowered(model(weights()), target, small=small))


def test_each_call_passes_its_own() -> None:
    """Layers of one shape share their kernel; the last one's result is not padded for another."""
    first, second, third = (weights(seed=n) for n in range(3))
    program = lowered(model(first, second, first, third))
    calls = [op.operation for op in program.main().regions[0].blocks[0].operations if op.operation.name == "func.call"]
    transformed = [c for c in calls if any("tensor<4x4x1x16x16xf32>" in str(v.type) for v in c.operands)]
    names = [str(list(c.operands)[-1].owner.attributes["global"]) for c in transformed]
    assert len({str(c.attributes["callee"]) for c in transformed}) == 2
    assert len(names) == 4 and len(set(names)) == 3


def test_scalars_stay_behind_the_tensors() -> None:
    text = str(
        lower_until(open_model(model(weights(), size=("H", "W"))), "dispatch", target=targets.get("x86-64-v3")).module
    )
    (line,) = [s for s in text.splitlines() if "func.func private @conv" in s]
    arguments = line.split("(", 1)[1].split(") ->")[0]
    assert arguments.index("4x4x1x16x16xf32") < arguments.index("index")


def test_transform_of_a_window() -> None:
    """Lavin and Gray, equation 9, of one channel and column."""
    w = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1, 1)
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    np.testing.assert_array_equal(transform(w, [1, 2])[:, :, 0, 0, 0], g @ w[0, :, :, 0, 0] @ g.T)
