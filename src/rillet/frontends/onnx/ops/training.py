"""The optimizers of ai.onnx.preview.training, opset 1: one elementwise op for each tensor that they update."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, power, select, sqrt
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op

_DOMAIN = "ai.onnx.preview.training"
_Update = Callable[..., Sequence[Scalar]]


def _update_each(node: Node, tensors: Sequence[Tensor], states: int, body: _Update) -> list[Tensor]:
    """``body(x, gradient, *states)`` for each optimized tensor; inputs and outputs are grouped by kind."""
    if len(tensors) % (2 + states):
        raise InvalidNode(f"{len(tensors)} tensors are not a multiple of {2 + states}")
    count = len(tensors) // (2 + states)
    groups = [tensors[i * count : (i + 1) * count] for i in range(2 + states)]
    updated = [
        node.b.map_many(
            body, x, *(node.b.refine(t, x.shape, "of a tensor's state") for t in rest), dtypes=[x.dtype] * (1 + states)
        )
        for x, *rest in zip(*groups, strict=True)
    ]
    return [results[kind] for kind in range(1 + states) for results in updated]


@op("Adagrad", domain=_DOMAIN)
def adagrad(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> list[Tensor]:
    """g = gradient + norm x; h = h + g^2; x = x - r g / (sqrt(h) + epsilon), with r = rate / (1 + step decay).

    The tensors are all x, then all gradients, then all h; the results are all x, then all h.
    """
    b = node.b
    decay, norm = float(node.attr("decay_factor", 0.0)), float(node.attr("norm_coefficient", 0.0))
    epsilon = float(node.attr("epsilon", 1e-6))
    r, t = b.scalar(rate), b.scalar(step)

    def body(x: Scalar, g: Scalar, h: Scalar) -> list[Scalar]:
        learning = convert(r, x.dtype) / (convert(t, x.dtype) * decay + 1.0)
        g = g + x * norm
        h = h + g * g
        return [x - learning * g / (sqrt(h) + epsilon), h]

    return _update_each(node, tensors, 1, body)


@op("Momentum", domain=_DOMAIN)
def momentum(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> list[Tensor]:
    """g = gradient + norm x; v = alpha v + beta g; x = x - rate v, or x - rate (g + alpha v) with Nesterov momentum.

    Step 0 takes 1 for beta. The tensors are all x, then all gradients, then all v; the results are all x, then all v.
    Raises InvalidNode for an unknown mode.
    """
    b = node.b
    alpha, beta, norm = (float(node.attr(name)) for name in ("alpha", "beta", "norm_coefficient"))
    mode = node.attr("mode")
    if mode not in ("standard", "nesterov"):
        raise InvalidNode(f"mode '{mode}' is not one of standard, nesterov")
    r, t = b.scalar(rate), b.scalar(step)

    def body(x: Scalar, g: Scalar, v: Scalar) -> list[Scalar]:
        g = g + x * norm
        # The first step takes the gradient as it is.
        v = v * alpha + g * select(t > 0, constant(beta, x.dtype), 1.0)
        direction = g + v * alpha if mode == "nesterov" else v
        return [x - convert(r, x.dtype) * direction, v]

    return _update_each(node, tensors, 1, body)


@op("Adam", domain=_DOMAIN)
def adam(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> list[Tensor]:
    """g = gradient + norm x; v = alpha v + (1 - alpha) g; h = beta h + (1 - beta) g^2;
    x = (1 - post) (x - r v / (sqrt(h) + epsilon)).

    r = rate sqrt(1 - beta^step) / (1 - alpha^step); at step 0 it is the rate itself. The tensors are all x, then all
    gradients, all v, all h; the results are all x, all v, all h.
    """
    b = node.b
    alpha, beta = float(node.attr("alpha", 0.9)), float(node.attr("beta", 0.999))
    norm, post = float(node.attr("norm_coefficient", 0.0)), float(node.attr("norm_coefficient_post", 0.0))
    epsilon = float(node.attr("epsilon", 1e-6))
    r, t = b.scalar(rate), b.scalar(step)

    def body(x: Scalar, g: Scalar, v: Scalar, h: Scalar) -> list[Scalar]:
        g = g + x * norm
        v = v * alpha + g * (1.0 - alpha)
        h = h * beta + g * g * (1.0 - beta)
        learning, steps = convert(r, x.dtype), convert(t, x.dtype)
        corrected = learning * sqrt(1.0 - power(constant(beta, x.dtype), steps))
        corrected = corrected / (1.0 - power(constant(alpha, x.dtype), steps))
        x = x - select(t > 0, corrected, learning) * v / (sqrt(h) + epsilon)
        return [x * (1.0 - post), v, h]

    return _update_each(node, tensors, 2, body)
