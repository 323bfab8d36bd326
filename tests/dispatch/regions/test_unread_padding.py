"""Which convolutions look for positions themselves instead of reading a padded tensor, and what that computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
from rillet import targets
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model

Pads = tuple[int, int, int, int]
Case = tuple[onnx.ModelProto, np.ndarray]


def convolution(
    size: tuple[int, int], dilation: int, pads: Pads, *, channels: int = 16, bad: float = 0.0, depthwise: bool = False
) -> Case:
    """A model of one 3x3 convolution to 8 channels, or a depthwise one, and its weights; one of these is ``bad``, if
    that is not 0."""
    shape = (channels, 1, 3, 3) if depthwise else (8, channels, 3, 3)
    w = np.random.default_rng(0).standard_normal(shape, np.float32) / 12
    w[3, shape[1] // 8, 0, 2] = bad or w[3, shape[1] // 8, 0, 2]
    dilations = [dilation, dilation]
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], pads=list(pads), dilations=dilations, group=channels if depthwise else 1
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, *size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), w


def pads_alone(model: onnx.ModelProto) -> bool:
    """Whether a dispatch of its own, or that of what comes before, makes the padded tensor."""
    program = lower_until(open_model(model), "dispatch", target=targets.get("x86-64-v3"))
    text = str(program.module)
    assert text.count("tensor.pad") == 1
    return "flow.adds_nothing" not in text


def direct(x: np.ndarray, w: np.ndarray, dilation: int, pads: Pads) -> np.ndarray:
    """The definition: every product, those with padding too."""
    big = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    rows, columns = (big.shape[axis] - 2 * dilation for axis in (2, 3))
    total = np.zeros((1, len(w), rows, columns))
    for i in range(3):
        for j in range(3):
            part = big[:, :, i * dilation : i * dilation + rows, j * dilation : j * dilation + columns]
            with np.errstate(invalid="ignore"):
                total += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    return total


def test_taps_far_apart_are_skipped_and_neighbours_are_not() -> None:
    assert not pads_alone(convolution((33, 33), 12, (12, 12, 12, 12))[0])
    assert not pads_alone(convolution((9, 9), 2, (2, 2, 2, 2))[0])
    assert pads_alone(convolution((33, 33), 1, (1, 1, 1, 1))[0])


@pytest.mark.parametrize("bad", [0.0, np.inf])
def test_depthwise_convolutions_read_no_padded_tensor(bad: float) -> None:
    """Whatever the weights, as constants take the place of the padding where nothing is skipped."""
    model, w = convolution((11, 23), 1, (1, 1, 1, 1), bad=bad, depthwise=True)
    text = str(lower_until(open_model(model), "dispatch", target=targets.get("x86-64-v3")).module)
    (kernel,) = [part for part in text.split("func.func ") if part.startswith("@depthwise")]
    assert "tensor.pad" in kernel and ("flow.adds_nothing" in kernel) == (bad == 0)
    x = np.random.default_rng(1).standard_normal((1, 16, 11, 23), np.float32)
    big = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(big, (3, 3), axis=(2, 3))
    with np.errstate(invalid="ignore"):
        expected = (windows * w[:, 0][None, :, None, None]).sum((-1, -2))
    np.testing.assert_allclose(rillet.compile(model)(x), expected, rtol=1e-4, atol=1e-5)


def test_short_runs_are_not_worth_a_check_each() -> None:
    assert pads_alone(convolution((33, 33), 12, (12, 12, 12, 12), channels=3)[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_zero_times_what_is_not_finite_is_not_skipped(bad: float) -> None:
    model, w = convolution((9, 11), 6, (6, 6, 6, 6), bad=bad)
    assert pads_alone(model)
    x = np.random.default_rng(1).standard_normal((1, 16, 9, 11), np.float32)
    y, expected = rillet.compile(model)(x), direct(x, w, 6, (6, 6, 6, 6))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "dilation", "pads"),
    [((13, 17), 6, (6, 6, 6, 6)), ((9, 7), 12, (12, 12, 12, 12)), ((10, 11), 4, (0, 9, 5, 2))],
)
def test_results_with_infinite_inputs(size: tuple[int, int], dilation: int, pads: Pads) -> None:
    model, w = convolution(size, dilation, pads)
    assert not pads_alone(model)
    x = np.random.default_rng(1).standard_normal((1, 16, *size), np.float32)
    x[0, 3, 4, 5], x[0, 7, 2, 1] = np.inf, np.nan
    y, expected = rillet.compile(model)(x), direct(x, w, dilation, pads)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
