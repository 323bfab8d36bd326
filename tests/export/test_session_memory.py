"""The memory that a session is said to need is enough, for every strategy and for control flow, and hardly too much."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import rillet
from rillet.codegen.cpu.strategies import STRATEGIES
from rillet.driver.export import cross_compile
from rillet.export import runtime_library
from tests.support import export_graphs as graphs
from tests.support import firmware

FLOAT, INT64 = graphs.FLOAT, graphs.INT64
TARGET = "x86-64-v2"


def one(
    op: str, x: list[int], y: list[int], constants: dict[str, np.ndarray] | None = None, **attributes: object
) -> onnx.ModelProto:
    node = onnx.helper.make_node(op, ["x", *(constants or {})], ["y"], name="node", **attributes)
    return graphs.model([node], [graphs.value("x", FLOAT, x)], [graphs.value("y", FLOAT, y)], constants)


def normalized(op: str) -> onnx.ModelProto:
    """Two reductions in one kernel, which keeps a row between them."""
    nodes = [
        onnx.helper.make_node(op, ["x"], ["s"], axis=1),
        onnx.helper.make_node("LayerNormalization", ["s", "scale", "bias"], ["y"]),
    ]
    constants = {"scale": graphs.weights(20), "bias": graphs.weights(20)}
    shape = [3, 7, 20]
    return graphs.model(nodes, [graphs.value("x", FLOAT, shape)], [graphs.value("y", FLOAT, shape)], constants)


def attention() -> onnx.ModelProto:
    nodes = [
        onnx.helper.make_node("MatMul", ["q", "k"], ["s"]),
        onnx.helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        onnx.helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    shapes = {"q": [4, 40, 16], "k": [4, 16, 40], "v": [4, 40, 16]}
    inputs = [graphs.value(name, FLOAT, shape) for name, shape in shapes.items()]
    return graphs.model(nodes, inputs, [graphs.value("y", FLOAT, [4, 40, 16])])


def trees() -> onnx.ModelProto:
    """One tree of two leaves."""
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    model = graphs.model([node], [graphs.value("x", FLOAT, [5, 3])], [graphs.value("y", FLOAT, [5, 1])])
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return model


def many_tensors() -> onnx.ModelProto:
    """More inputs and outputs than the runtime keeps on its stack."""
    names = range(40)
    nodes = [onnx.helper.make_node("Sum", [f"x{n}", f"x{(n + 1) % 40}"], [f"y{n}"]) for n in names]
    inputs = [graphs.value(f"x{n}", FLOAT, [3]) for n in names]
    return graphs.model(nodes, inputs, [graphs.value(f"y{n}", FLOAT, [3]) for n in names])


MODELS = {
    "contraction": one("MatMul", [30, 70], [30, 50], {"w": graphs.weights(70, 50)}),
    "chain": attention(),
    "winograd": one("Conv", [1, 32, 28, 28], [1, 32, 28, 28], {"w": graphs.weights(32, 32, 3, 3)}, pads=[1, 1, 1, 1]),
    "windowed": one("AveragePool", [1, 8, 28, 28], [1, 8, 14, 14], kernel_shape=[2, 2], strides=[2, 2]),
    "rowwise": normalized("Softmax"),
    "elementwise": one("Transpose", [30, 70], [70, 30]),
    "fallback": one("CumSum", [3, 9], [3, 9], {"axis": np.array(1)}),
    "fourier": one("DFT", [2, 480, 1], [2, 480, 2], axis=1),
    "walk": trees(),
    "network": graphs.inverted_residual(),
    "recurrence": graphs.lstm(),
    "loop": graphs.loop(),
    "condition": graphs.condition(),
    "shared outputs": graphs.passed_through(),
    "many tensors": many_tensors(),
}


@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("cc") is None, reason="needs cc for x86-64")
@pytest.mark.parametrize("name", MODELS)
def test_the_arena_suffices_for_call_after_call(name: str, tmp_path: Path) -> None:
    module = cross_compile(MODELS[name], target=TARGET, jobs=1)
    exported = module.export(tmp_path / "model", mode="static")
    library = tmp_path / "model.so"
    folder = exported.directory
    sources = [folder / "model.c", folder / "libmodel_kernels.a", folder / "librillet_runtime.a"]
    definitions = [f"-D{d}" for d in runtime_library.STATIC.definitions]
    subprocess.run(["cc", "-O1", *definitions, "-I", folder, "-shared", "-fPIC", *sources, "-o", library], check=True)
    program = ctypes.CDLL(str(library))
    random = np.random.default_rng(0)
    for call in range(4):
        arrays = [np.array(random.random(s.shape) * (call + 1), s.dtype) for s in module.inputs]
        outputs = [np.zeros(s.shape, s.dtype) for s in module.outputs]
        assert program.model_run(*(a.ctypes.data_as(ctypes.c_void_p) for a in [*arrays, *outputs])) == 0
    program.model_arena_peak.restype = ctypes.c_size_t
    peak = program.model_arena_peak()
    print(f"{name}: {peak} of {exported.figures.arena} bytes")
    assert 0.7 * exported.figures.arena < peak <= exported.figures.arena


def test_every_strategy_is_among_the_models() -> None:
    kernels = [k for m in MODELS.values() for k in cross_compile(m, target=TARGET, jobs=1)._build().kernels]
    assert {k.strategy for k in kernels} == {s.name for s in STRATEGIES}


@pytest.mark.parametrize(
    ("target", "op"), [("cortex-m4", "Softmax"), ("cortex-m55", "LogSoftmax"), ("riscv32imf", "LogSoftmax")]
)
def test_kernels_keep_rows_in_the_arena_on_boards(target: str, op: str, tmp_path: Path) -> None:
    firmware.require_emulator(target)
    module = rillet.compile(normalized(op), target=target)
    x = np.random.default_rng(0).standard_normal((3, 7, 20), np.float32)
    exported = module.export(tmp_path / "model", mode="static")
    image = firmware.link(module, exported)
    got, _ = firmware.run(module, image, [x])
    np.testing.assert_allclose(got[0], rillet.compile(normalized(op))(x), rtol=1e-4, atol=1e-5)
    _, peak = firmware.used_memory(image, got)
    assert 0.9 * exported.figures.arena < peak <= exported.figures.arena
