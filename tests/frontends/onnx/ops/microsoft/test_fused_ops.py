"""Fused activations, products and convolutions of ONNX Runtime's optimizers against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import rillet
from rillet.errors import CompileError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(4)


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


X = f32(2, 5, 24) * 3
ROWS = {"x": ["B", "S", 24]}
IMAGE, KERNEL = f32(1, 4, 9, 9), f32(6, 4, 3, 3)

# Name → operator, inputs, declared shapes, which are constants, attributes.
CASES: dict[str, tuple] = {
    "bias gelu": ("BiasGelu", {"x": X, "c": f32(24)}, ROWS, ("c",), {}),
    "fast gelu, bias": ("FastGelu", {"x": X, "c": f32(24)}, ROWS, ("c",), {}),
    "quick gelu, alpha": ("QuickGelu", {"x": X}, ROWS, (), {"alpha": 0.7}),
    "matmul, turned": ("FusedMatMul", {"x": X, "w": f32(7, 24)}, ROWS, ("w",), {"transB": 1}),
    "matmul, both": ("FusedMatMul", {"x": X, "w": f32(2, 7, 5)}, ROWS, (), {"transA": 1, "transB": 1, "alpha": 2.0}),
    "both batches": (
        "FusedMatMul",
        {"x": f32(5, 2, 3, 8), "w": f32(4, 2, 3, 8)},
        {},
        (),
        {"transBatchA": 1, "transBatchB": 1, "transB": 1, "alpha": 0.5},
    ),
    "batch, turned": ("FusedMatMul", {"x": f32(8, 2, 5), "w": f32(2, 8, 4)}, {}, (), {"transBatchA": 1, "transA": 1}),
    "gemm": ("FusedGemm", {"a": f32(5, 8), "b": f32(6, 8), "c": f32(6)}, {"a": ["M", 8]}, ("b", "c"),
             {"activation": "LeakyRelu", "activation_alpha": 0.1, "transB": 1, "alpha": 0.5}),
    "conv": ("FusedConv", {"x": IMAGE, "w": KERNEL, "c": f32(6)}, {}, ("w", "c"),
             {"activation": "Clip", "activation_params": [-1.0, 2.5], "pads": [1, 1, 1, 1]}),
    "conv, sum": ("FusedConv", {"x": IMAGE, "w": KERNEL, "c": f32(6), "z": f32(1, 6, 7, 7)}, {}, ("w", "c"),
                  {"activation": "Relu", "group": 1}),
    "conv, sigmoid": ("FusedConv", {"x": IMAGE, "w": KERNEL}, {}, ("w",),
                      {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "strides": [2, 2]}),
    "conv, swish": ("FusedConv", {"x": IMAGE, "w": KERNEL}, {}, ("w",), {"activation": "HardSwish"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str) -> None:
    op, inputs, shapes, known, attributes = CASES[name]
    ((actual, expected),) = run_both(contrib_model(op, inputs, ("y",), shapes, known, **attributes), inputs)
    assert_close(actual, expected, 2e-5 if "fast" in name else 2e-6)


@pytest.mark.parametrize("name", ["fast gelu, bias", "both batches"])
def test_half(name: str) -> None:
    """Half precision is float32 rounded at the end, within a tolerance of its inputs' rounding."""
    op, inputs, shapes, known, attributes = CASES[name]
    halves = {n: a.astype(np.float16) for n, a in inputs.items()}
    module = rillet.compile(contrib_model(op, halves, ("y",), shapes, known, **attributes), threads=1)
    wide = {n: a.astype(np.float32) for n, a in halves.items()}
    ((_, expected),) = run_both(contrib_model(op, wide, ("y",), shapes, known, **attributes), wide)
    actual = module.run({n: a for n, a in halves.items() if n not in known})["y"]
    assert actual.dtype == np.float16
    assert_close({"y": actual.astype(np.float32)}, expected, 1.5e-3)


# Activation → the parameters that it takes.
ACTIVATIONS = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "Softplus": {}, "Softsign": {}, "LeakyRelu": {"alpha": 0.2},
    "Elu": {"alpha": 0.7}, "Celu": {"alpha": 0.7}, "ThresholdedRelu": {"alpha": 0.4},
    "Selu": {"alpha": 1.5, "gamma": 0.9}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "ParametricSoftplus": {"alpha": 0.6, "beta": 1.3}, "ScaledTanh": {"alpha": 0.6, "beta": 1.3},
}  # fmt: skip


def test_every_activation_of_a_product() -> None:
    """All in one model: compiling is what takes long."""
    inputs = {"a": f32(5, 8), "b": f32(8, 6)}
    proto = contrib_model("FusedGemm", inputs, ("y",), {"a": ["M", 8]}, ("b",), activation="Relu")
    (first,) = proto.graph.node
    for name, parameters in ACTIVATIONS.items():
        given = {f"activation_{n}": v for n, v in parameters.items()}
        node = helper.make_node("FusedGemm", ["a", "b"], [name], domain=first.domain, activation=name, **given)
        proto.graph.node.append(node)
        proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 2e-6)


def test_gelu() -> None:
    """Of two operators the forms that are left: without bias, and with the usual alpha."""
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        ((actual, expected),) = run_both(contrib_model(op, {"x": X}), {"x": X})
        assert_close(actual, expected, 2e-5)


def test_bias_add() -> None:
    """ONNX Runtime has no kernel of it for this kind of processor."""
    inputs = {"x": f32(2, 5, 8), "c": f32(8), "skip": f32(2, 5, 8)}
    module = rillet.compile(contrib_model("BiasAdd", inputs, known=("c",)), threads=1)
    actual = module.run({"x": inputs["x"], "skip": inputs["skip"]})["y"]
    np.testing.assert_allclose(actual, inputs["x"] + inputs["c"] + inputs["skip"], rtol=1e-6, atol=1e-6)


def test_what_it_cannot_be() -> None:
    inputs = {"a": f32(5, 8), "b": f32(8, 6)}
    with pytest.raises(UnsupportedError, match=r"'n'.*activation 'Mish'; it may be one of Relu, Sigmoid"):
        rillet.compile(contrib_model("FusedGemm", inputs, activation="Mish"))
    with pytest.raises(CompileError, match=r"'n'.*activation 'LeakyRelu' takes alpha; alpha is not given"):
        rillet.compile(contrib_model("FusedGemm", inputs, activation="LeakyRelu"))
    with pytest.raises(CompileError, match=r"'n'.*activation 'Selu' takes alpha and gamma; gamma is not given"):
        rillet.compile(contrib_model("FusedGemm", inputs, activation="Selu", activation_alpha=1.0, activation_beta=2.0))
    with pytest.raises(CompileError, match=r"'n'.*transBatchA needs a batch; A has rank 2"):
        rillet.compile(contrib_model("FusedMatMul", inputs, transBatchA=1))
    with pytest.raises(UnsupportedError, match=r"'n'.*attribute 'beta' is not implemented"):
        rillet.compile(contrib_model("FusedMatMul", inputs, beta=2.0))
