"""Grouped convolutions with few channels a group: vectors that take several groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir.kernels import kernel_texts
from rillet.targets import Target
from tests.support.emulated import Emulator
from tests.support.kernel_harness import Kernel

Shape = tuple[int, int, int, tuple[int, int], int]  # groups, channels in and out of each, kernel, stride

SHAPES: list[Shape] = [
    (4, 4, 4, (3, 3), 1),
    (3, 4, 4, (3, 3), 2),  # the last vector is partly empty
    (5, 2, 2, (3, 5), 1),
    (6, 1, 2, (3, 3), 1),  # a depthwise convolution that multiplies channels
    (3, 8, 8, (3, 3), 1),
    (4, 2, 8, (1, 1), 1),
    (6, 8, 2, (2, 2), 1),
]


def lowered(shape: Shape, target: Target) -> tuple[str, np.ndarray, tuple[int, ...]]:
    """The kernel of relu(convolution) of a 7x9 map (channels last), the weights as ONNX has them, its result's
    shape."""
    groups, ic, oc, taps, stride = shape
    w = np.random.default_rng(0).standard_normal((groups * oc, ic, *taps), np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["c"], group=groups, strides=[stride, stride]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 7, 9, groups * ic])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    [(_, text)] = kernel_texts(lower_until(open_model(model), "dispatch", target=target))
    rows, columns = ((n - k) // stride + 1 for n, k in zip((7, 9), taps, strict=True))
    return text, w, (1, rows, columns, groups, oc)


def side_by_side(w: np.ndarray, shape: Shape) -> np.ndarray:
    """``[window, ic, groups, oc]``"""
    groups, ic, oc, taps, _ = shape
    return np.ascontiguousarray(w.reshape(groups, oc, ic, *taps).transpose(3, 4, 2, 0, 1))


def reference(x: np.ndarray, w: np.ndarray, shape: Shape) -> np.ndarray:
    groups, ic, oc, taps, stride = shape
    rows, columns = ((n - k) // stride + 1 for n, k in zip((7, 9), taps, strict=True))
    split, weights = x.astype(np.float64).reshape(1, 7, 9, groups, ic), w.reshape(groups, oc, ic, *taps)
    total = np.zeros((1, rows, columns, groups, oc))
    for i in range(taps[0]):
        for j in range(taps[1]):
            part = split[:, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
            total += np.einsum("nhwgc,goc->nhwgo", part, weights[..., i, j])
    return np.maximum(total, 0)


def image(shape: Shape) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, 7, 9, shape[0] * shape[1]), np.float32)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_convolution(target: str, shape: Shape) -> None:
    text, w, out = lowered(shape, targets.get(target))
    kernel = Kernel(text, target)
    x = image(shape)
    [y] = kernel([x, side_by_side(w, shape)], [(out, np.float32)])
    np.testing.assert_allclose(y, reference(x, w, shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_convolution_on_aarch64(shape: Shape, tmp_path: Path) -> None:
    target = targets.get("aarch64")
    emulator = Emulator(target, tmp_path)
    if not emulator.present:
        pytest.skip(f"{emulator.qemu} is not installed")
    text, w, out = lowered(shape, target)
    x = image(shape)
    arrays = [x, side_by_side(w, shape), np.full(out, np.nan, np.float32)]
    y = emulator.run(compile_kernel(text, target), arrays)[-1]
    np.testing.assert_allclose(y, reference(x, w, shape), rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_in_its_group() -> None:
    shape = SHAPES[0]
    text, w, out = lowered(shape, targets.get("host"))
    x = image(shape)
    x[0, 3, 4, 5], x[0, 1, 1, 14] = np.inf, np.nan  # of the second and the fourth group
    [y] = Kernel(text)([x, side_by_side(w, shape)], [(out, np.float32)])
    assert np.isfinite(y[..., (0, 2), :]).all()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, reference(x, w, shape), rtol=1e-5, atol=1e-5)


def test_vectors_take_whole_groups_only() -> None:
    wide = targets.get("x86-64-v3")
    assert compile_kernel(lowered((3, 4, 4, (3, 3), 1), wide)[0], wide).strategy == "windowed"
    assert compile_kernel(lowered((3, 4, 8, (3, 3), 1), wide)[0], wide).strategy == "windowed"
    narrow = targets.get("x86-64-v2")
    assert compile_kernel(lowered((3, 4, 8, (3, 3), 1), narrow)[0], narrow).strategy == "contraction"


def test_channels_that_are_multiplied_stay_channels_last() -> None:
    w = np.random.default_rng(0).standard_normal((12, 1, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=6, pads=[1, 1, 1, 1])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(w, "w")])
    model = rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert model.stats["dispatch_count"] <= 3  # in, convolution, out
