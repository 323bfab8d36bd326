"""Convolutions by windows of three: what Winograd's algorithm computes, and what is computed by definition instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import rillet
from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.cpu.contraction import planner
from rillet.codegen.cpu.machine import SCRATCH_BYTES
from rillet.codegen.cpu.winograd import plan as winograd_plan
from rillet.codegen.knobs import Knobs
from rillet.codegen.result import CodegenOptions
from rillet.dispatch.packing.winograd import transform
from rillet.driver.lowering import lower_until
from rillet.frontends.registry import open_model
from rillet.ir.kernels import kernel_texts
from tests.support.emulated import Emulator
from tests.support.kernel_harness import Kernel
from tests.support.kernel_texts import pack

Taps = tuple[int, ...]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def weights(channels: int, columns: int, taps: Taps) -> np.ndarray:
    return random(columns, channels, *taps) * np.float32(1 / np.sqrt(channels * np.prod(taps)))


def convolution(
    size: tuple[int | str, ...], w: np.ndarray, *, batch: int | str = 1, shortcut: bool = False
) -> ModelProto:
    """relu(convolution), channels last, of the same size; with a ``shortcut`` a product with ones is added before.
    Extents of unknown size are names."""
    columns, channels, *taps = w.shape
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, len(taps) + 1, *range(1, len(taps) + 1)]),
        helper.make_node("Conv", ["t", "w"], ["c"], pads=[n // 2 for n in taps] * 2),
        *([helper.make_node("Conv", ["t", "one"], ["p"])] if shortcut else []),
        *([helper.make_node("Add", ["c", "p"], ["s"])] if shortcut else []),
        helper.make_node("Relu", ["s" if shortcut else "c"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, *range(2, len(taps) + 2), 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *size, channels])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    one = np.ones((columns, channels, *[1] * len(taps)), np.float32)
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(one, "one")][: 2 if shortcut else 1]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def defined(x: np.ndarray, w: np.ndarray, *, shortcut: bool = False) -> np.ndarray:
    """What the model computes, in float64."""
    taps = w.shape[2:]
    padded = np.pad(x.astype(np.float64), [(0, 0), *((n // 2, n // 2) for n in taps), (0, 0)])
    with np.errstate(invalid="ignore"):
        total = np.repeat(x.astype(np.float64).sum(-1, keepdims=True), len(w), -1) if shortcut else 0.0
        for tap in np.ndindex(*taps):
            part = padded[(slice(None), *(slice(i, i + n) for i, n in zip(tap, x.shape[1:-1], strict=True)))]
            total = total + part @ w[(slice(None), slice(None), *tap)].T.astype(np.float64)
        return np.maximum(total, 0)


def strategies(model: ModelProto) -> list[str]:
    target = targets.get("host")
    parts = kernel_texts(lower_until(open_model(model), "dispatch", target=target))
    return [compile_kernel(text, target).strategy for _, text in parts]


def roundings(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error in units of the last place of the largest result."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max() * 2**24)


CASES = [
    ((12, 10), (3, 3), 16, 24, 1),
    ((9, 13), (3, 3), 20, 17, 2),  # the last tiles, vectors and panels are partly empty
    ((4, 5), (3, 3), 64, 16, 1),
    ((7, 7), (3, 3), 48, 40, 1),  # padding that other convolutions would skip
    ((30,), (3,), 24, 32, 1),
    ((31,), (3,), 16, 16, 3),
    ((6, 11), (1, 3), 16, 16, 1),
    ((11, 6), (3, 1), 16, 16, 1),
    ((4, 6, 5), (3, 3, 3), 16, 16, 1),
]


@pytest.mark.parametrize(("size", "taps", "channels", "columns", "batch"), CASES)
@pytest.mark.parametrize("shortcut", [False, True])
def test_results_are_those_of_the_definition(
    size: Taps, taps: Taps, channels: int, columns: int, batch: int, shortcut: bool
) -> None:
    w, x = weights(channels, columns, taps), random(batch, *size, channels)
    model = convolution(size, w, batch=batch, shortcut=shortcut)
    assert "winograd" in strategies(model)
    wanted = defined(x, w, shortcut=shortcut)
    for threads in (1, 2):
        found = rillet.compile(model, threads=threads)(x)
        assert found.dtype == np.float32 and found.shape == wanted.shape
        assert roundings(found, wanted) < 16


@pytest.mark.parametrize(("groups", "channels", "columns"), [(2, 16, 24), (5, 20, 16)])
@pytest.mark.parametrize("size", [(9, 12), ("H", "W")])
def test_groups(groups: int, channels: int, columns: int, size: tuple[int | str, int | str]) -> None:
    w = weights(channels, groups * columns, (3, 3))
    model = convolution(size, w)
    model.graph.node[1].attribute.append(helper.make_attribute("group", groups))
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_value = groups * channels
    assert "winograd" in strategies(model)
    x = random(1, 9, 12, groups * channels)
    x[0, 4, 5, channels + 1] = np.inf  # in the second group
    parts = zip(np.split(x, groups, -1), np.split(w, groups), strict=True)
    wanted = np.concatenate([defined(*part) for part in parts], -1)
    finite = np.isfinite(wanted)
    for threads in (1, 2):
        found = rillet.compile(model, threads=threads)(x)
        np.testing.assert_array_equal(found[~finite], wanted[~finite])
        assert roundings(found[finite], wanted[finite]) < 16


def test_unknown_extents() -> None:
    w = weights(16, 24, (3, 3))
    model = convolution(("H", "W"), w, batch="N", shortcut=True)
    assert "winograd" in strategies(model)
    compiled = rillet.compile(model)
    for shape in ((1, 12, 10), (2, 9, 13), (3, 1, 1), (1, 2, 7), (2, 64, 33)):
        x = random(*shape, 16)
        assert roundings(compiled(x), defined(x, w, shortcut=True)) < 16
    assert compiled(random(0, 9, 9, 16)).shape == (0, 9, 9, 24)
    x = random(2, 9, 13, 16)
    x[1, 4, 4, 3] = np.nan
    np.testing.assert_array_equal(np.isnan(compiled(x)), np.isnan(defined(x, w, shortcut=True)))


@pytest.mark.parametrize("shortcut", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spreads_as_defined(bad: float, shortcut: bool) -> None:
    w, x = weights(32, 40, (3, 3)), random(1, 20, 23, 32)
    w[5, 3] = 0  # times an infinity: undefined
    x[0, 0, 0, 3] = x[0, 9, 11, 3] = x[0, 19, 22, 30] = bad
    found, wanted = rillet.compile(convolution((20, 23), w, shortcut=shortcut))(x), defined(x, w, shortcut=shortcut)
    finite = np.isfinite(wanted)
    assert not finite.all()
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    assert roundings(found[finite], wanted[finite]) < 16


def test_sums_that_overflow_in_the_transform_only() -> None:
    w, x = weights(16, 16, (3, 3)) * np.float32(1e-6), random(1, 8, 8, 16) * np.float32(1e37)
    x[0, ::2] = np.float32(3e38)
    x[0, 1::4] = np.float32(-3e38)
    found, wanted = rillet.compile(convolution((8, 8), w))(x), defined(x, w)
    assert np.isfinite(found).all() and roundings(found, wanted) < 16


def test_what_is_too_small_to_be_normal() -> None:
    w, x = weights(16, 16, (3, 3)), random(1, 8, 8, 16) * np.float32(1e-39)
    found, wanted = rillet.compile(convolution((8, 8), w))(x), defined(x, w)
    assert np.abs(found - wanted).max() < 2.0**-144 and wanted.max() > 2.0**-130


def test_weights_that_are_not_finite_are_not_transformed() -> None:
    w = weights(16, 16, (3, 3))
    w[3, 2, 1, 1] = np.inf
    model, x = convolution((8, 8), w), random(1, 8, 8, 16)
    assert "winograd" not in strategies(model)
    np.testing.assert_array_equal(np.isfinite(rillet.compile(model)(x)), np.isfinite(defined(x, w)))


@pytest.mark.parametrize("channels", [64, 256, 512])
@pytest.mark.parametrize("kind", ["random", "positive", "ramp", "offset"])
def test_no_less_exact_than_sums_by_definition(channels: int, kind: str) -> None:
    w, x = weights(channels, 16, (3, 3)), random(1, 10, 10, channels)
    if kind == "positive":
        w, x = np.abs(w), np.abs(x)
    if kind == "ramp":
        w = (np.arange(w.size, dtype=np.float32).reshape(w.shape) % 997) / np.float32(997)
        x = (np.arange(x.size, dtype=np.float32).reshape(x.shape) % 1000) / np.float32(1000)
    if kind == "offset":
        x += np.float32(100)
    model, wanted = convolution((10, 10), w), defined(x, w)
    by_definition = roundings(rillet.compile(model, optimize_for_size=True)(x), wanted)
    assert roundings(rillet.compile(model)(x), wanted) < 1.25 * by_definition + 2


def unpadded(w: np.ndarray, size: Taps, target: str) -> str:
    """The kernel of the convolution without padding, for a target."""
    model = convolution(size, w)
    (pads,) = [a for a in model.graph.node[1].attribute if a.name == "pads"]
    pads.ints[:] = [0] * len(pads.ints)
    [(_, text)] = kernel_texts(lower_until(open_model(model), "dispatch", target=targets.get(target)))
    return text


def arguments(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    packed = pack(w.transpose(2, 3, 1, 0))
    return [x, packed, transform(packed, [1, 2])]


@pytest.mark.parametrize(
    ("target", "knobs"),
    [
        ("host", Knobs(tile_rows=3, tile_vectors=1, row_tiles=2, column_tiles=1)),
        ("host", Knobs(tile_rows=1, tile_vectors=4, row_tiles=7)),
        ("host", Knobs(tile_rows=6, tile_vectors=2, unroll=1, row_tiles=1, column_tiles=1)),
        ("x86-64-v2", Knobs()),
    ],
)
def test_choices_and_targets_leave_results_alone(target: str, knobs: Knobs) -> None:
    w, x = weights(20, 40, (3, 3)), random(1, 11, 15, 20)
    compiled = Kernel(unpadded(w, (11, 15), target), target, CodegenOptions(knobs=knobs))
    assert compiled.compiled.strategy == "winograd"
    [found] = compiled(arguments(x, w), [((1, 9, 13, 40), np.float32)])
    assert roundings(found, defined(x, w)[:, 1:-1, 1:-1]) < 16


@pytest.mark.parametrize("bad", [False, True])
def test_aarch64(bad: bool, tmp_path: Path) -> None:
    w, x, target = weights(24, 20, (3, 3)), random(1, 9, 12, 24), targets.get("aarch64")
    x[0, 4, 4, 4] = np.nan if bad else 1
    compiled = compile_kernel(unpadded(w, (9, 12), "aarch64"), target, CodegenOptions(keep_intermediates=True))
    assert compiled.strategy == "winograd" and "fmla\tv" in compiled.assembly and ".s[3]" in compiled.assembly
    emulator = Emulator(target, tmp_path)
    if not emulator.present:
        pytest.skip(f"{emulator.qemu} is not installed")
    found = emulator.run(compiled, [*arguments(x, w), np.zeros((1, 7, 10, 20), np.float32)])[-1]
    wanted = defined(x, w)[:, 1:-1, 1:-1]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert roundings(found[~np.isnan(found)], wanted[~np.isnan(wanted)]) < 16


def test_scratch_that_workers_lack_is_not_asked_for() -> None:
    for channels, strategy in ((1024, "winograd"), (8192, "contraction")):
        compiled = compile_kernel(unpadded(weights(channels, 16, (3, 3)), (16, 16), "host"), targets.get("host"))
        assert compiled.strategy == strategy and compiled.local_memory_size <= SCRATCH_BYTES


@pytest.mark.parametrize("channels", [1024, 8192])
def test_the_contraction_is_planned_once_whoever_takes_it(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def planned(*arguments: Any, **options: Any) -> object:
        plans.append(arguments)
        return plan_for(*arguments, **options)

    plan_for = planner.plan_for
    monkeypatch.setattr(planner, "plan_for", planned)
    monkeypatch.setattr(winograd_plan, "plan_for", planned)
    compile_kernel(unpadded(weights(channels, 16, (3, 3)), (16, 16), "host"), targets.get("host"))
    assert len(plans) == 1
