"""DFT and STFT: axes, frames and parts, against numpy's transform in float64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import rillet


def model(node: object, shape: list[int | str], constants: dict[str, np.ndarray], opset: int) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def check(of: ModelProto, x: np.ndarray, wanted: np.ndarray) -> None:
    found = rillet.compile(of, threads=1, jobs=1)(x)
    wanted = np.stack([wanted.real, wanted.imag], -1)
    assert found.shape == wanted.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_axes_of_a_transform(axis: int, opset: int) -> None:
    x = np.random.default_rng(0).standard_normal((20, 6, 33, 2)).astype(np.float32)
    if opset == 20:
        node, constants = helper.make_node("DFT", ["x", "", "axis"], ["y"]), {"axis": np.array(axis)}
    else:
        node, constants = helper.make_node("DFT", ["x"], ["y"], axis=axis), {}
    z = x[..., 0].astype(np.float64) + 1j * x[..., 1]
    check(model(node, list(x.shape), constants, opset), x, np.fft.fft(z, axis=axis if axis >= 0 else axis + 1))


@pytest.mark.parametrize(
    ("length", "step", "parts", "onesided", "has_window"),
    [(64, 16, 1, 1, False), (33, 9, 1, 0, True), (60, 7, 2, 0, True), (60, 7, 2, 0, False), (5, 2, 2, 0, True)],
)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_frames(length: int, step: int, parts: int, onesided: int, has_window: bool, is_dynamic: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 300, parts)).astype(np.float32)
    window = np.hanning(length).astype(np.float32)
    constants = {"step": np.array(step)} | ({"w": window} if has_window else {"length": np.array(length)})
    operands = ["x", "step", "w"] if has_window else ["x", "step", "", "length"]
    node = helper.make_node("STFT", operands, ["y"], onesided=onesided)
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if parts == 2 else 0)
    frames = np.lib.stride_tricks.sliding_window_view(z, length, 1)[:, ::step] * (window if has_window else 1)
    wanted = np.fft.fft(frames)[..., : length // 2 + 1 if onesided else length]
    check(model(node, ["n", "t", parts] if is_dynamic else list(x.shape), constants, 17), x, wanted)
