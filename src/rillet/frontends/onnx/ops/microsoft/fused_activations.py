"""Activations and sums with a bias that ONNX Runtime's optimizers write (domain ``com.microsoft``).

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rillet.frontends.building import scalars
from rillet.frontends.building.scalars import Scalar, maximum, minimum, select, sigmoid
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.activation import (
    celu_of,
    elu_of,
    gelu_by_tanh,
    gelu_of,
    hard_sigmoid_of,
    hard_swish_of,
    selu_of,
    softplus_of,
    softsign_of,
)
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"


@op("Gelu", domain=_DOMAIN)
def gelu(node: Node, x: Tensor) -> Tensor:
    """x/2 (1 + erf(x/sqrt 2))"""
    return node.b.map(gelu_of, x)


@op("BiasGelu", domain=_DOMAIN)
def bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """Gelu of x + bias; the bias [columns] runs along the last dimension."""
    bias = node.b.refine(bias, x.shape[-1:], "bias")
    return node.b.map(lambda v, c: gelu_of(v + c), x, bias, shape=x.shape)


@op("FastGelu", domain=_DOMAIN)
def fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The tanh approximation of Gelu, of x + bias."""
    if bias is None:
        return node.b.map(gelu_by_tanh, x)
    bias = node.b.refine(bias, x.shape[-1:], "bias")
    return node.b.map(lambda v, c: gelu_by_tanh(v + c), x, bias, shape=x.shape)


@op("QuickGelu", domain=_DOMAIN)
def quick_gelu(node: Node, x: Tensor) -> Tensor:
    """x * sigmoid(alpha * x)"""
    alpha = float(node.attr("alpha", 1.702))
    return node.b.map(lambda v: v * sigmoid(v * alpha), x)


@op("BiasAdd", domain=_DOMAIN)
def bias_add(node: Node, x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """x + bias + skip"""
    bias, skip = node.b.refine(bias, x.shape[-1:], "bias"), node.b.refine(skip, x.shape, "skip")
    return node.b.map(lambda v, c, s: v + c + s, x, bias, skip, shape=x.shape)


# Activations by name, and the parameters that each takes.
_ACTIVATIONS: dict[str, tuple[tuple[str, ...], Callable[..., Scalar]]] = {
    "Relu": ((), lambda v: maximum(v, 0)),
    "Sigmoid": ((), sigmoid),
    "Tanh": ((), scalars.tanh),
    "Softplus": ((), softplus_of),
    "Softsign": ((), softsign_of),
    "HardSwish": ((), hard_swish_of),
    "LeakyRelu": (("alpha",), lambda v, alpha: select(v < 0, v * alpha, v)),
    "Elu": (("alpha",), elu_of),
    "Celu": (("alpha",), celu_of),
    "ThresholdedRelu": (("alpha",), lambda v, alpha: select(v > alpha, v, 0)),
    "Selu": (("alpha", "gamma"), selu_of),
    "HardSigmoid": (("alpha", "beta"), hard_sigmoid_of),
    "ParametricSoftplus": (("alpha", "beta"), lambda v, alpha, beta: softplus_of(v * beta) * alpha),
    "ScaledTanh": (("alpha", "beta"), lambda v, alpha, beta: scalars.tanh(v * beta) * alpha),
    "Clip": (("alpha", "beta"), lambda v, low, high: minimum(maximum(v, low), high)),
}


def fused_activation(name: str, given: Mapping[str, float] | Sequence[float]) -> Callable[[Scalar], Scalar] | None:
    """The activation that a node applies to its result; None where it has none. ``given`` has its parameters, by name
    or in order.

    Raises UnsupportedFeature for an unknown one and InvalidNode for a missing parameter.
    """
    if not name:
        return None
    if name not in _ACTIVATIONS:
        raise UnsupportedFeature(f"activation '{name}'", f"it may be one of {', '.join(_ACTIVATIONS)}")
    names, body = _ACTIVATIONS[name]
    known = given if isinstance(given, Mapping) else dict(zip(names, given, strict=False))
    if missing := [n for n in names if n not in known]:
        raise InvalidNode(f"activation '{name}' takes {' and '.join(names)}; {' and '.join(missing)} is not given")
    values = [float(known[n]) for n in names]
    return lambda v: body(v, *values)
