"""One compiled module serves every size of its inputs, in every op family, as ONNX Runtime or the reference does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet
from rillet.ir import dtypes

Dims = Sequence[int | str]
Sizes = Mapping[str, int]
Make = Callable[[np.random.Generator, Sizes], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A node, the dimensions of its inputs, and the sizes that the one module is run with."""

    op: str
    inputs: Mapping[str, Dims | None]  # None: an optional input left out
    sizes: Sequence[Sizes]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 22
    make: Mapping[str, Make] = field(default_factory=dict)  # inputs that are not random numbers
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    by_reference: bool = False  # ONNX Runtime has no such op, or not for these sizes
    tolerance: float = 1e-5

    def model(self) -> onnx.ModelProto:
        names = [name if dims is not None else "" for name, dims in self.inputs.items()]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, name="node", **self.attributes)
        generator = np.random.default_rng(0)
        infos = []
        for name, dims in self.inputs.items():
            if dims is not None and name not in self.constants:
                dtype = self.array(name, dims, self.sizes[0], generator).dtype.name
                infos.append(helper.make_tensor_value_info(name, dtypes.by_name[dtype].code, list(dims)))
        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        empty = [helper.make_empty_tensor_value_info(r) for r in results]
        graph = helper.make_graph([node], "dynamic", infos, empty, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def array(self, name: str, dims: Dims, sizes: Sizes, generator: np.random.Generator) -> np.ndarray:
        if name in self.make:
            return self.make[name](generator, sizes)
        shape = [d if isinstance(d, int) else sizes[d] for d in dims]
        return generator.standard_normal(shape).astype(np.float32)

    def feeds(self, sizes: Sizes) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(sum(sizes.values()))
        return {
            name: self.array(name, dims, sizes, generator)
            for name, dims in self.inputs.items()
            if dims is not None and name not in self.constants
        }


def ints(*values: int | str) -> Make:
    """An int64 vector of numbers and of the sizes of dimensions."""
    return lambda _, sizes: np.array([v if isinstance(v, int) else sizes[v] for v in values], np.int64)


def below(limit: str, dtype: str, *dims: int | str) -> Make:
    """Random integers below the size of a dimension."""

    def make(generator: np.random.Generator, sizes: Sizes) -> np.ndarray:
        shape = [d if isinstance(d, int) else sizes[d] for d in dims]
        return generator.integers(0, max(sizes[limit], 1), shape).astype(dtype)

    return make


def scalar(value: Any) -> Make:
    return lambda *_: np.array(value)


def _grid(**dims: Sequence[int]) -> list[dict[str, int]]:
    """The sizes of every dimension, one list for each: the i-th of all together."""
    return [dict(zip(dims, values, strict=True)) for values in zip(*dims.values(), strict=True)]


_SEQUENCES = _grid(t=[5, 1, 3], n=[2, 1, 3], i=[3, 1, 4], h=[4, 4, 4])


def _recurrent(op: str, gates: int, outputs: int, **more: Any) -> Case:
    directions = 2 if more.get("direction") == "bidirectional" else 1
    inputs: dict[str, Dims | None] = {
        "x": ["t", "n", "i"],
        "w": [directions, f"{gates}h", "i"],
        "r": [directions, f"{gates}h", "h"],
        "b": [directions, f"{2 * gates}h"],
        "lengths": ["n"],
        "h0": [directions, "n", "h"],
    }
    sizes = [{**s, f"{gates}h": gates * s["h"], f"{2 * gates}h": 2 * gates * s["h"]} for s in _SEQUENCES]
    lengths: Make = lambda g, s: g.integers(1, s["t"] + 1, s["n"]).astype(np.int32)  # noqa: E731
    return Case(op, inputs, sizes, {"hidden_size": 4, **more}, outputs, make={"lengths": lengths})


CASES = {
    "RNN": _recurrent("RNN", 1, 2, direction="reverse"),
    "GRU": _recurrent("GRU", 3, 2, linear_before_reset=1),
    "LSTM": _recurrent("LSTM", 4, 3, direction="bidirectional"),
    "RNN of any width": Case(
        "RNN",
        {"x": ["t", "n", "i"], "w": [1, "h", "i"], "r": [1, "h", "h"]},
        _grid(t=[3, 1], n=[2, 1], i=[3, 1], h=[4, 1]),
        outputs=2,
        by_reference=True,
    ),
    "Conv": Case(
        "Conv",
        {"x": ["n", "c", "h", "w"], "k": ["m", "c", "p", "q"], "b": ["m"]},
        _grid(n=[2, 1, 0], c=[3, 1, 3], h=[7, 4, 5], w=[6, 3, 5], m=[4, 1, 2], p=[3, 1, 3], q=[2, 3, 3]),
        {"pads": [1, 1, 0, 1], "strides": [2, 1]},
    ),
    "ConvTranspose": Case(
        "ConvTranspose",
        {"x": ["n", "c", "h", "w"], "k": ["c", "m", "p", "q"], "b": ["m"]},
        _grid(n=[2, 1, 0], c=[3, 1, 3], h=[4, 1, 3], w=[5, 1, 3], m=[2, 1, 2], p=[3, 2, 3], q=[2, 3, 3]),
        {"pads": [1, 0, 0, 1], "strides": [2, 1]},
    ),
    "ConvTranspose of known weights": Case(
        "ConvTranspose",
        {"x": ["n", 4, "h", "w"], "k": [4, 2, 3, 3]},
        _grid(n=[2, 1], h=[4, 1], w=[5, 1]),
        {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        constants={"k": np.random.default_rng(1).standard_normal((4, 2, 3, 3)).astype(np.float32)},
    ),
    "MaxPool": Case(
        "MaxPool",
        {"x": ["n", "c", "h", "w"]},
        _grid(n=[2, 1, 0], c=[3, 1, 2], h=[7, 3, 4], w=[6, 3, 5]),
        {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
    "AveragePool": Case(
        "AveragePool",
        {"x": ["n", "c", "h", "w"]},
        _grid(n=[2, 1], c=[3, 1], h=[7, 3], w=[6, 3]),
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "count_include_pad": 0},
    ),
    "MaxUnpool": Case(
        "MaxUnpool",
        {"x": ["n", 1, "h", "w"], "i": ["n", 1, "h", "w"]},
        _grid(n=[1, 1, 0], h=[2, 1, 2], w=[3, 1, 2]),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        make={"i": lambda _, s: np.arange(s["n"] * s["h"] * s["w"], dtype=np.int64).reshape(s["n"], 1, s["h"], s["w"])},
    ),
    "LRN": Case("LRN", {"x": ["n", "c", "h", "w"]}, _grid(n=[2, 0], c=[5, 1], h=[3, 1], w=[2, 1]), {"size": 3}),
    "Resize": Case(
        "Resize",
        {"x": ["n", "c", "h", "w"], "roi": None, "s": [4]},
        _grid(n=[1, 2], c=[2, 1], h=[8, 5], w=[8, 3]),
        {"mode": "linear"},
        make={"s": lambda *_: np.array([1, 1, 0.5, 1.6], np.float32)},
    ),
    "Resize, antialiased": Case(
        "Resize",
        {"x": ["n", "c", "h", "w"], "roi": None, "scales": None, "s": [4]},
        _grid(n=[1, 1, 2], c=[2, 1, 1], h=[8, 9, 3], w=[8, 4, 7], p=[3, 9, 6], q=[5, 2, 3]),
        {"mode": "linear", "antialias": 1},
        make={"s": ints("n", "c", "p", "q")},
    ),
    "Resize, antialiased cubic": Case(
        "Resize",
        {"x": ["h", "w"], "roi": None, "scales": None, "s": [2]},
        _grid(h=[9, 4], w=[12, 5], p=[4, 8], q=[5, 2]),
        {"mode": "cubic", "antialias": 1, "exclude_outside": 1, "axes": [0, 1]},
        make={"s": ints("p", "q")},
        by_reference=True,
    ),
    "Resize of a kept aspect ratio": Case(
        "Resize",
        {"x": [1, 1, "h", "w"], "roi": None, "scales": None, "s": [2]},
        _grid(h=[2, 5], w=[4, 3], p=[7, 4], q=[8, 9]),
        {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
        make={"s": ints("p", "q")},
        by_reference=True,
    ),
    "DFT": Case(
        "DFT",
        {"x": ["n", "t", "c"], "length": []},
        _grid(n=[2, 1, 3], t=[8, 5, 1], c=[1, 2, 1], k=[8, 3, 4]),
        {"axis": 1},
        opset=19,
        make={"length": lambda _, s: np.array(s["k"], np.int64)},
        by_reference=True,
    ),
    "DFT, inverse and onesided": Case(
        "DFT", {"x": ["n", "t", 2]}, _grid(n=[2, 1], t=[5, 3]), {"axis": 1, "inverse": 1}, opset=19, by_reference=True
    ),
    "DFT, inverse, onesided, to a length": Case(
        "DFT",
        {"x": ["n", "t", 2], "length": []},
        _grid(n=[2, 1, 3], t=[5, 70, 9], k=[8, 137, 1]),
        {"axis": 1, "inverse": 1},
        opset=19,
        make={"length": lambda _, s: np.array(s["k"], np.int64)},
        by_reference=True,
    ),
    "STFT": Case(
        "STFT",
        {"x": ["n", "t", 1], "step": [], "w": ["k"]},
        _grid(n=[2, 1, 0], t=[32, 8, 9], k=[8, 8, 4], s=[4, 3, 1]),
        make={"step": lambda _, s: np.array(s["s"], np.int64)},
        by_reference=True,
        tolerance=1e-4,
    ),
    "GatherElements": Case(
        "GatherElements",
        {"x": ["n", "c"], "i": ["k", "c"]},
        _grid(n=[5, 1, 3], c=[4, 1, 0], k=[3, 2, 2]),
        make={"i": below("n", "int64", "k", "c")},
    ),
    "ScatterElements": Case(
        "ScatterElements",
        {"x": ["n", "c"], "i": ["k", "c"], "u": ["k", "c"]},
        _grid(n=[5, 1, 3], c=[4, 1, 2], k=[3, 2, 0]),
        {"reduction": "add"},
        opset=18,
        make={"i": below("n", "int64", "k", "c")},
    ),
    "ScatterND of a depth that ranks tell": Case(
        "ScatterND",
        {"x": ["n", "c"], "i": ["k", "d"], "u": ["k", "c"]},
        _grid(n=[5, 1, 3], c=[4, 1, 2], k=[3, 2, 0], d=[1, 1, 1]),
        {"reduction": "add"},
        opset=18,
        make={"i": below("n", "int64", "k", "d")},
    ),
    "DeformConv": Case(
        "DeformConv",
        {"x": ["n", "c", "h", "w"], "k": ["m", "c", 2, 2], "o": ["n", 8, "p", "q"]},
        _grid(n=[2, 1], c=[3, 1], h=[4, 2], w=[5, 2], m=[2, 1], p=[3, 1], q=[4, 1]),
        {"kernel_shape": [2, 2]},
        by_reference=True,
    ),
    "GridSample": Case(
        "GridSample",
        {"x": ["n", "c", "h", "w"], "g": ["n", "p", "q", 2]},
        _grid(n=[2, 1, 0], c=[3, 1, 1], h=[4, 1, 2], w=[5, 1, 2], p=[3, 1, 2], q=[2, 4, 2]),
    ),
    "RoiAlign": Case(
        "RoiAlign",
        {"x": ["n", "c", "h", "w"], "r": ["k", 4], "i": ["k"]},
        _grid(n=[2, 1, 1], c=[3, 1, 1], h=[6, 4, 5], w=[5, 7, 5], k=[2, 1, 0]),
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        opset=16,
        make={
            "r": lambda g, s: np.sort(g.uniform(0, 4, (s["k"], 2, 2)), 1).reshape(s["k"], 4).astype(np.float32),
            "i": below("n", "int64", "k"),
        },
    ),
    "Col2Im": Case(
        "Col2Im",
        {"x": ["n", "c4", "l"], "image": [2], "block": [2]},
        _grid(n=[1, 2], c4=[4, 8], l=[6, 1], h=[3, 2], w=[4, 2]),
        make={"image": ints("h", "w"), "block": ints(2, 2)},
        by_reference=True,
    ),
    "NonMaxSuppression": Case(
        "NonMaxSuppression",
        {"b": ["n", "k", 4], "s": ["n", "c", "k"], "most": [1], "iou": [1]},
        _grid(n=[2, 1, 1], k=[6, 1, 0], c=[2, 1, 2]),
        make={
            "b": lambda g, s: (
                np.sort(g.uniform(0, 1, (s["n"], s["k"], 2, 2)), 2).reshape(s["n"], s["k"], 4).astype(np.float32)
            ),
            "most": ints(3),
            "iou": lambda *_: np.array([0.3], np.float32),
        },
    ),
    "Attention": Case(
        "Attention",
        {"q": ["n", "a", "t", "d"], "k": ["n", "b", "s", "d"], "v": ["n", "b", "s", "e"]},
        _grid(n=[2, 1], a=[4, 1], b=[2, 1], t=[3, 1], s=[5, 1], d=[4, 2], e=[3, 2]),
        {"is_causal": 1},
        opset=23,
        by_reference=True,
    ),
    "RotaryEmbedding": Case(
        "RotaryEmbedding",
        {"x": ["n", "a", "t", 8], "cos": ["p", 4], "sin": ["p", 4], "i": ["n", "t"]},
        _grid(n=[2, 1, 1], a=[3, 1, 2], t=[5, 1, 0], p=[7, 1, 3]),
        opset=23,
        make={"i": below("p", "int64", "n", "t")},
        by_reference=True,
    ),
    "CausalConvWithState": Case(
        "CausalConvWithState",
        {"x": ["n", "c", "t"], "w": ["c", 1, "k"], "b": ["c"], "past": ["n", "c", "k1"]},
        _grid(n=[2, 1, 1], c=[3, 1, 2], t=[5, 1, 2], k=[3, 1, 4], k1=[2, 0, 3]),
        {"activation": "silu"},
        outputs=2,
        opset=27,
        by_reference=True,
    ),
    "Scan of opset 8": Case(
        "Scan",
        {"lengths": None, "s": ["n", "c"], "x": ["n", "t", "c"]},
        _grid(n=[2, 1], t=[3, 1], c=[2, 1]),
        {
            "num_scan_inputs": 1,
            "body": helper.make_graph(
                [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Identity", ["c"], ["d"])],
                "body",
                [helper.make_tensor_value_info(n, 1, ["c"]) for n in "ab"],
                [helper.make_tensor_value_info(n, 1, ["c"]) for n in "cd"],
            ),
        },
        outputs=2,
        opset=8,
    ),
    "Einsum": Case(
        "Einsum",
        {"a": ["m", "i", "k"], "b": ["n", "k", "j"]},
        _grid(m=[3, 1, 4], n=[3, 4, 1], i=[2, 1, 2], k=[5, 1, 2], j=[3, 1, 2]),
        {"equation": "bik,bkj->bij"},
        by_reference=True,
    ),
    "DequantizeLinear of one scale or many": Case(
        "DequantizeLinear",
        {"x": ["n", "c"], "s": ["k"], "z": ["k"]},
        _grid(n=[2, 3, 0], c=[4, 4, 1], k=[4, 1, 1]),
        {"axis": 1},
        make={"x": below("n", "int8", "n", "c"), "z": below("n", "int8", "k")},
        by_reference=True,
    ),
    "Split that leaves less for the last": Case(
        "Split", {"x": ["n"]}, _grid(n=[9, 6, 3, 0]), {"num_outputs": 3}, outputs=3, by_reference=True
    ),
    "LayerNormalization": Case(
        "LayerNormalization",
        {"x": ["n", "t", "c"], "s": ["c"], "b": ["c"]},
        _grid(n=[2, 1, 0], t=[3, 1, 2], c=[5, 1, 4]),
        {"axis": -1},
    ),
    "GroupNormalization": Case(
        "GroupNormalization",
        {"x": ["n", "c", "h"], "s": ["c"], "b": ["c"]},
        _grid(n=[2, 1], c=[6, 2], h=[4, 1]),
        {"num_groups": 2},
        by_reference=True,
    ),
}


@functools.cache
def _oracle(name: str) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
    case = CASES[name]
    if case.by_reference:
        evaluator = ReferenceEvaluator(case.model())
        return lambda feeds: evaluator.run(None, feeds)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(case.model().SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


@pytest.mark.parametrize("name", CASES)
def test_one_module_for_all_sizes(name: str) -> None:
    case = CASES[name]
    module = rillet.compile(case.model(), jobs=1, threads=1)
    for sizes in case.sizes:
        feeds = case.feeds(sizes)
        expected = _oracle(name)(feeds)
        for got, want in zip(module.run(feeds).values(), expected, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype, sizes
            np.testing.assert_allclose(got, want, rtol=case.tolerance, atol=case.tolerance, err_msg=str(sizes))


def test_a_recurrent_layer_of_no_steps_keeps_its_state() -> None:
    module = rillet.compile(CASES["RNN"].model(), jobs=1, threads=1)
    feeds = CASES["RNN"].feeds({"t": 1, "n": 2, "i": 3, "h": 4, "1h": 4, "2h": 8})
    outputs = module.run({**feeds, "x": feeds["x"][:0], "lengths": np.zeros(2, np.int32)})
    assert outputs["y0"].shape == (0, 1, 2, 4)
    np.testing.assert_array_equal(outputs["y1"], feeds["h0"])


def test_layer_normalization_is_as_precise_as_its_input() -> None:
    wide = {"x": np.random.default_rng(0).standard_normal((3, 64)) + 1e4, "s": np.ones(64)}
    make = {n: lambda *_, a=a: a for n, a in wide.items()}
    case = Case("LayerNormalization", {"x": ["n", 64], "s": [64]}, [{"n": 3}], outputs=3, make=make)
    y, mean, inverse = rillet.compile(case.model(), jobs=1, threads=1)(**wide)
    deviation = wide["x"] - wide["x"].mean(1, keepdims=True)
    exact = deviation / np.sqrt((deviation**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, rtol=1e-11, atol=1e-11)
    assert (mean.dtype, inverse.dtype) == (np.float32, np.float32)


def test_dropout_of_opset_6_drops_unless_it_is_told_not_to() -> None:
    ones = {"x": lambda *_: np.ones(1000, np.float32)}
    training = Case("Dropout", {"x": ["n"]}, [{"n": 1000}], {"ratio": 0.25}, outputs=2, opset=6, make=ones)
    y, kept = rillet.compile(training.model(), jobs=1, threads=1)(np.ones(1000, np.float32))
    np.testing.assert_array_equal(y, kept / np.float32(0.75))
    assert 700 < kept.sum() < 800


def test_the_declared_rank_of_a_result_tells_the_length_of_its_shape() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"], name="node")
    infos = [helper.make_tensor_value_info(n, t, [d]) for n, t, d in (("x", 1, "n"), ("s", 7, "k"))]
    result = helper.make_tensor_value_info("y", 1, ["a", "b"])
    proto = helper.make_model(
        helper.make_graph([node], "g", infos, [result]), opset_imports=[helper.make_opsetid("", 17)]
    )
    module = rillet.compile(proto, jobs=1, threads=1)
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (-1, 2), (6, 1)):
        np.testing.assert_array_equal(module(x, np.array(shape)), x.reshape(shape))
    with pytest.raises(rillet.RunError, match="node 'node': dimensions 3 and 2 do not agree"):
        module(x, np.array([1, 2, 3]))
