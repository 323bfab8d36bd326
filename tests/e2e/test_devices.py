"""Programs divided over two CPU devices give what one device gives, to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import rillet
from rillet.placement import assign
from rillet.runtime.sample_inputs import sample_inputs
from tests.support import export_graphs, quantized_graphs

DEVICES = ("cpu-sync", "cpu-task")


def parsed(text: str, seed: int = 0) -> onnx.ModelProto:
    """A graph as text, in which values declared without being made are weights."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    rng = np.random.default_rng(seed)
    for info in model.graph.value_info:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        array = (rng.standard_normal(shape) / max(1, shape[0]) ** 0.5).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
    del model.graph.value_info[:]
    return model


TOWERS = """g (float[1,16,24,24] x) => (float[1,48,24,24] y)
<float[16,16,3,3] a, float[16,16,1,1] b, float[16,1,5,5] c> {
  p = Conv<pads=[1,1,1,1]>(x, a) p1 = Relu(p) p2 = Conv<pads=[1,1,1,1]>(p1, a)
  q = Conv(x, b) q1 = Sigmoid(q) q2 = Conv(q1, b)
  r = Conv<group=16, pads=[2,2,2,2]>(x, c) r1 = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(r)
  y = Concat<axis=1>(p2, q2, r1)
}"""
DYNAMIC = """g (float[N,32] x, float[M,32] z) => (float[N,16] y, float[N,M] s, float[M,64] t)
<float[32,64] a, float[64,16] b, float[32,64] c> {
  p = MatMul(x, a) p1 = Relu(p) y = MatMul(p1, b)
  q = MatMul(z, c) t = Softmax<axis=-1>(q)
  u = Transpose(t) v = MatMul(p1, u) s = Tanh(v)
}"""
DATA = """g (float[20,8] x) => (float[K,8] y, int64[2,L] i) <float[8,8] w> {
  h = MatMul(x, w) i = NonZero(h) r = Relu(h)
  ax = Constant<value_ints=[1]>() zero = Constant<value_float=0.0>()
  m = ReduceMax<keepdims=0>(h, ax) c = Greater(m, zero)
  y = Compress<axis=0>(r, c)
}"""
ATTENTION = """g (float[2,24,32] x) => (float[2,24,32] y)
<float[32,32] q, float[32,32] k, float[32,32] v, float[32,32] o> {
  a = MatMul(x, q) b = MatMul(x, k) c = MatMul(x, v) bt = Transpose<perm=[0,2,1]>(b)
  s = MatMul(a, bt) p = Softmax<axis=-1>(s) h = MatMul(p, c) u = MatMul(h, o) y = Add(u, x)
}"""


def quantized() -> onnx.ModelProto:
    def build(g: quantized_graphs.Graph, x: str) -> str:
        x = g.q(x)
        left = g.q(g("Relu", g.conv(x, 8, 8)))
        right = g.q(g.conv(x, 8, 8, kernel=1))
        return g.q(g("Concat", g.conv(left, 8, 8, kernel=1), g.conv(right, 8, 8, kernel=1), axis=1))

    return quantized_graphs.model(build, [1, 8, 12, 12])


def towers() -> onnx.ModelProto:
    return parsed(TOWERS)


def dynamic() -> onnx.ModelProto:
    return parsed(DYNAMIC)


def data_dependent() -> onnx.ModelProto:
    return parsed(DATA)


def attention() -> onnx.ModelProto:
    return parsed(ATTENTION)


MODELS: list[Callable[[], onnx.ModelProto]] = [
    towers, dynamic, data_dependent, attention, quantized,
    export_graphs.loop, export_graphs.lstm, export_graphs.condition, export_graphs.inverted_residual,
]  # fmt: skip


def compiled(
    model: onnx.ModelProto, seed: int, monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...] = DEVICES
) -> rillet.Module:
    """The model on two devices: as the cost model places it for seed 0, else each dispatch by chance."""
    if seed:
        choose = random.Random(seed)
        monkeypatch.setattr(assign, "place", lambda tasks, crossing: [choose.randrange(len(devices)) for _ in tasks])
    return rillet.compile(model, device=devices, threads=2)


def several(module: rillet.Module) -> list[dict[str, np.ndarray]]:
    """Random inputs, structured ones, and zeros."""
    sizes = {name: 5 for spec in module.inputs for name in spec.shape if isinstance(name, str)}
    first = sample_inputs(module.inputs, sizes=sizes, seed=1)
    ramp = {n: (np.arange(a.size) % 7).reshape(a.shape).astype(a.dtype) for n, a in first.items()}
    zeros = {n: np.zeros_like(a) for n, a in first.items()}
    return [first, ramp, zeros]


def results(module: rillet.Module, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    made = module(**inputs)
    return list(made) if isinstance(made, tuple | list) else [made]


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_results_are_those_of_one_device(
    build: Callable[[], onnx.ModelProto], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every kind of input, called again, and by several threads at once."""
    model = build()
    alone = rillet.compile(model, threads=2)
    divided = compiled(model, seed, monkeypatch)
    for inputs in several(alone):
        expected = results(alone, inputs)
        for _ in range(2):
            assert_equal(results(divided, inputs), expected)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: results(divided, inputs), range(8)):  # noqa: B023
                assert_equal(found, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_results_of_a_named_device_are_those_of_any(build: Callable[[], onnx.ModelProto], device: str) -> None:
    alone = rillet.compile(build(), threads=2)
    named = rillet.compile(build(), device=device, threads=2)
    for inputs in several(alone):
        assert_equal(results(named, inputs), results(alone, inputs))


def test_results_are_those_of_one_device_in_either_order(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = rillet.compile(towers(), threads=2)
    for seed, devices in ((5, DEVICES), (6, DEVICES[::-1])):
        divided = compiled(towers(), seed, monkeypatch, devices)
        for inputs in several(alone):
            assert_equal(results(divided, inputs), results(alone, inputs))


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_many_calls_are_in_flight(build: Callable[[], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has memory of its own, whatever the others still do."""
    alone = rillet.compile(build(), threads=2)
    divided = compiled(build(), 7, monkeypatch)
    inputs = several(alone) * 4
    pending = [divided.submit(**each) for each in inputs]
    for each, call in zip(inputs, pending, strict=True):
        found = call.result(timeout=120)
        assert_equal(list(found) if isinstance(found, tuple) else [found], results(alone, each))
