"""Activations: one elementwise generic each."""

from __future__ import annotations

import math

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, exp, maximum, minimum, select, sigmoid, tanh
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op


@op("Relu")
def relu(node: Node, x: Tensor) -> Tensor:
    """max(x, 0), for floats and integers."""
    return node.b.map(lambda v: maximum(v, 0), x)


@op("Sigmoid")
def logistic(node: Node, x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))"""
    return node.b.map(sigmoid, x)


@op("Tanh")
def hyperbolic_tangent(node: Node, x: Tensor) -> Tensor:
    """tanh(x)"""
    return node.b.map(tanh, x)


@op("LeakyRelu", since=6)
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    """x, or alpha x where x < 0"""
    alpha = float(node.attr("alpha", 0.01))
    return node.b.map(lambda v: select(v < 0, v * alpha, v), x)


@op("PRelu")
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """x, or slope x where x < 0

    ``slope`` broadcasts to x. Before opset 7 a vector of slopes has one for each channel (dimension 1).
    """
    if node.opset < 7 and slope.rank == 1 and slope.shape[0] != 1 and x.rank > 1:
        slope = node.b.reshape(slope, [slope.shape[0], *[1] * (x.rank - 2)])
    return node.b.map(lambda v, s: select(v < 0, v * s, v), x, slope)


@op("ThresholdedRelu")
def thresholded_relu(node: Node, x: Tensor) -> Tensor:
    """x where x > alpha, else 0"""
    alpha = float(node.attr("alpha", 1.0))
    return node.b.map(lambda v: select(v > alpha, v, 0), x)


@op("Elu", since=6)
def elu(node: Node, x: Tensor) -> Tensor:
    """x, or alpha (exp(x) - 1) where x < 0"""
    alpha = float(node.attr("alpha", 1.0))
    return node.b.map(lambda v: elu_of(v, alpha), x)


def elu_of(v: Scalar, alpha: float) -> Scalar:
    """v, or alpha (exp(v) - 1) where v < 0"""
    return select(v < 0, (exp(minimum(v, 0.0)) - 1.0) * alpha, v)


@op("Celu", since=12)
def celu(node: Node, x: Tensor) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))"""
    alpha = float(node.attr("alpha", 1.0))
    return node.b.map(lambda v: celu_of(v, alpha), x)


def celu_of(v: Scalar, alpha: float) -> Scalar:
    """max(0, v) + min(0, alpha (exp(v / alpha) - 1))"""
    return maximum(v, 0.0) + minimum((exp(v / alpha) - 1.0) * alpha, 0.0)


@op("Selu", since=6)
def selu(node: Node, x: Tensor) -> Tensor:
    """gamma x, or gamma alpha (exp(x) - 1) where x <= 0"""
    alpha = float(node.attr("alpha", 1.67326319217681884765625))
    gamma = float(node.attr("gamma", 1.05070102214813232421875))
    return node.b.map(lambda v: selu_of(v, alpha, gamma), x)


def selu_of(v: Scalar, alpha: float, gamma: float) -> Scalar:
    """gamma v, or gamma alpha (exp(v) - 1) where v <= 0"""
    return select(v > 0, v, (exp(minimum(v, 0.0)) - 1.0) * alpha) * gamma


@op("Gelu", since=20)
def gelu(node: Node, x: Tensor) -> Tensor:
    """x/2 (1 + erf(x/sqrt 2)), or its tanh approximation."""
    return node.b.map(gelu_by_tanh if node.attr("approximate", "none") == "tanh" else gelu_of, x)


def gelu_of(v: Scalar) -> Scalar:
    """v/2 (1 + erf(v/sqrt 2))"""
    return v * 0.5 * (scalars.erf(v * math.sqrt(0.5)) + 1.0)


def gelu_by_tanh(v: Scalar) -> Scalar:
    """``gelu_of`` as v/2 (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3)))"""
    return v * 0.5 * (tanh((v + v * v * v * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


def softplus_of(v: Scalar) -> Scalar:
    """log(1 + exp(v)) without overflow."""
    return maximum(v, 0.0) + scalars.log1p(exp(-scalars.absolute(v)))


@op("Softplus")
def softplus(node: Node, x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return node.b.map(softplus_of, x)


@op("Mish", since=18)
def mish(node: Node, x: Tensor) -> Tensor:
    """x tanh(log(1 + exp(x)))"""
    return node.b.map(lambda v: v * tanh(softplus_of(v)), x)


@op("Swish", since=24)
def swish(node: Node, x: Tensor) -> Tensor:
    """x sigmoid(alpha x)"""
    alpha = float(node.attr("alpha", 1.0))
    return node.b.map(lambda v: v * sigmoid(v * alpha), x)


@op("Softsign")
def softsign(node: Node, x: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    return node.b.map(softsign_of, x)


def softsign_of(v: Scalar) -> Scalar:
    """v / (1 + |v|)"""
    return v / (scalars.absolute(v) + 1.0)


@op("HardSigmoid", since=6)
def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    """max(0, min(1, alpha x + beta))"""
    alpha, beta = float(node.attr("alpha", 0.2)), float(node.attr("beta", 0.5))
    return node.b.map(lambda v: hard_sigmoid_of(v, alpha, beta), x)


def hard_sigmoid_of(v: Scalar, alpha: float = 0.2, beta: float = 0.5) -> Scalar:
    """max(0, min(1, alpha v + beta))"""
    return maximum(minimum(v * alpha + beta, 1.0), 0.0)


@op("HardSwish", since=14)
def hard_swish(node: Node, x: Tensor) -> Tensor:
    """x max(0, min(1, x/6 + 1/2))"""
    return node.b.map(hard_swish_of, x)


def hard_swish_of(v: Scalar) -> Scalar:
    """v max(0, min(1, v/6 + 1/2))"""
    return v * hard_sigmoid_of(v, 1 / 6, 0.5)


@op("Shrink")
def shrink(node: Node, x: Tensor) -> Tensor:
    """x + bias where x < -lambd, x - bias where x > lambd, else 0; integers are computed in float32."""
    bias, limit = float(node.attr("bias", 0.0)), float(node.attr("lambd", 0.5))

    def body(v: Scalar) -> Scalar:
        wide = v if element_types.is_float(v.dtype) else convert(v, "float32")
        low = select(wide < -limit, wide + bias, constant(0, wide.dtype))
        return convert(select(wide > limit, wide - bias, low), v.dtype)

    return node.b.map(body, x)
