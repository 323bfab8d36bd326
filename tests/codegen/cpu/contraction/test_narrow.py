"""Contractions with few columns: lanes go along the reduction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import rillet
from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.cpu.contraction.narrow import NarrowWorkgroup
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir.kernels import kernel_texts
from tests.support.emulated import Emulator
from tests.support.kernel_harness import Kernel
from tests.support.kernel_texts import assert_close, batched, conv2d_reference


def model(shape: tuple[object, ...], weights: dict[str, np.ndarray], *nodes: object) -> ModelProto:
    made = [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes]  # type: ignore[misc]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(made, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The columns of each kernel that was emitted in this way since."""
    emitted: list[int] = []
    emit: Callable[[NarrowWorkgroup], None] = NarrowWorkgroup.emit

    def record(workgroup: NarrowWorkgroup) -> None:
        emitted.append(workgroup.columns)
        emit(workgroup)

    monkeypatch.setattr(NarrowWorkgroup, "emit", record)
    return emitted


def run(built: ModelProto, x: np.ndarray, target: str = "host") -> np.ndarray:
    y = rillet.compile(built, target=target, threads=1, jobs=1, cache=False)(x)
    assert isinstance(y, np.ndarray)
    return y


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    ("channels", "columns", "window", "stride", "size"),
    [
        (64, 1, 1, 1, (9, 17)),
        (20, 3, 3, 1, (7, 11)),  # a last vector of the reduction that is partly empty
        (8, 2, 3, 2, (9, 13)),
        (3, 3, 5, 1, (6, 9)),  # lines of the window and channels lie behind each other
        (16, 3, 1, 1, (2, 3)),  # fewer rows than a vector has lanes
    ],
)
def test_convolutions(
    target: str, channels: int, columns: int, window: int, stride: int, size: tuple[int, int], narrow: list[int]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *size, channels), np.float32)
    w = rng.standard_normal((columns, channels, window, window), np.float32)
    b = rng.standard_normal(columns, np.float32)
    built = model(
        x.shape,
        {"w": w, "b": b},
        ("Transpose", ["x"], ["t"], {"perm": [0, 3, 1, 2]}),
        ("Conv", ["t", "w", "b"], ["c"], {"strides": [stride] * 2}),
        ("Relu", ["c"], ["r"], {}),
        ("Transpose", ["r"], ["y"], {"perm": [0, 2, 3, 1]}),
    )
    y = run(built, x, target)
    assert narrow == [columns]
    assert_close(y, np.maximum(conv2d_reference(x, w.transpose(2, 3, 1, 0), stride) + b, 0))


def test_channels_first_and_an_unknown_size(narrow: list[int]) -> None:
    """Each image's results are channels first; rows go along each image."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal((16, 2, 1, 1), np.float32)
    w, b = rng.standard_normal((3, 16, 3, 3), np.float32), rng.standard_normal((3, 1, 1), np.float32)
    built = model(
        ("n", 2, "h", "w"),
        {"first": first, "w": w, "b": b},
        ("Conv", ["x", "first"], ["m"], {}),
        ("Conv", ["m", "w"], ["c"], {"pads": [1] * 4}),
        ("Add", ["c", "b"], ["a"], {}),
        ("Sigmoid", ["a"], ["y"], {}),
    )
    compiled = rillet.compile(built, threads=1, jobs=1, cache=False)
    assert narrow == [3]
    for shape in ((1, 2, 1, 1), (3, 2, 5, 7), (2, 2, 16, 24)):
        x = rng.standard_normal(shape, np.float32)
        middle = np.einsum("nchw,oc->nhwo", x, first[:, :, 0, 0])
        padded = np.pad(middle, ((0, 0), (1, 1), (1, 1), (0, 0)))
        expected = conv2d_reference(padded, w.transpose(2, 3, 1, 0)).transpose(0, 3, 1, 2) + b
        y = compiled(x)
        assert isinstance(y, np.ndarray)
        assert_close(y, 1 / (1 + np.exp(-expected)))


def test_results_are_padded_for_the_next_one(narrow: list[int]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 12, 9, 10), np.float32)
    w, v = rng.standard_normal((2, 12, 1, 1), np.float32), rng.standard_normal((8, 2, 3, 3), np.float32)
    built = model(
        x.shape, {"w": w, "v": v}, ("Conv", ["x", "w"], ["c"], {}), ("Conv", ["c", "v"], ["y"], {"pads": [1] * 4})
    )
    y = run(built, x)
    assert narrow == [2]
    middle = np.pad(np.einsum("nchw,oc->nhwo", x, w[:, :, 0, 0]), ((0, 0), (1, 1), (1, 1), (0, 0)))
    assert_close(y, conv2d_reference(middle, v.transpose(2, 3, 1, 0)).transpose(0, 3, 1, 2))


def test_what_is_not_finite_stays_in_its_row() -> None:
    """Of a last vector that is partly empty nothing is multiplied that is not there."""
    x = np.ones((5, 11), np.float32)
    x[2, 10], x[3, 0] = np.inf, np.nan
    w = np.zeros((11, 1), np.float32)
    w[5] = 2
    y = run(model(x.shape, {"w": w}, ("MatMul", ["x", "w"], ["y"], {})), x)
    np.testing.assert_array_equal(y[:, 0], [2, 2, np.nan, np.nan, 2])


@pytest.mark.parametrize("m", [1, 5, 300])
def test_a_column_that_is_computed(m: int) -> None:
    rng = np.random.default_rng(m)
    x, y = rng.standard_normal((2, m, 50), np.float32), rng.standard_normal((2, 50, 1), np.float32)
    text = batched(("2x?x50", "2x50x1", "2x?x1"), ("b, m, k", "b, k, n", "b, m, n"), "2||2", "nm")
    kernel = Kernel(text)
    [z] = kernel([x, y], [((2, m, 1), np.float32)], [m])
    assert_close(z, x.astype(np.float64) @ y)


def test_a_column_on_aarch64(tmp_path: Path) -> None:
    target = targets.get("aarch64")
    emulator = Emulator(target, tmp_path)
    if not emulator.present:
        pytest.skip(f"{emulator.qemu} is not installed")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 9, 50), np.float32), rng.standard_normal((2, 50, 1), np.float32)
    text = batched(("2x9x50", "2x50x1", "2x9x1"), ("b, m, k", "b, k, n", "b, m, n"))
    z = emulator.run(compile_kernel(text, target), [x, y, np.full((2, 9, 1), np.nan, np.float32)])[-1]
    assert_close(z, x.astype(np.float64) @ y)


def test_wide_contractions_are_left_to_vectors_of_columns(narrow: list[int]) -> None:
    w = np.ones((64, 16), np.float32)
    run(model((4, 64), {"w": w}, ("MatMul", ["x", "w"], ["y"], {})), np.ones((4, 64), np.float32))
    assert not narrow


def test_weights_lie_in_rows() -> None:
    built = model((40, 64), {"w": np.eye(64, 3, dtype=np.float32)}, ("MatMul", ["x", "w"], ["y"], {}))
    [(_, text)] = kernel_texts(lower_until(open_model(built), "dispatch", target=targets.get("x86-64-v3")))
    assert "tensor<3x64xf32>" in text
    [(_, text)] = kernel_texts(lower_until(open_model(built), "dispatch", target=targets.get("cortex-m4")))
    assert "tensor<1x64x4xf32>" in text
