"""What classifiers and regressors of ai.onnx.ml do with their scores at the end: ``post_transform``."""

from __future__ import annotations

import math
from enum import Enum

from rillet.frontends.building import scalars
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.reduction import softmax_of

# In the order of TreeEnsemble's numbers.
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ZERO = 1e-7  # the largest absolute value that SOFTMAX_ZERO takes for zero
_WINITZKI = 0.147


class SecondScore(Enum):
    """The score of the other class where a classifier of two computes one score, s. It comes first."""

    COMPLEMENT = "1 - s"
    NEGATION = "-s"


def post_transform_of(node: Node) -> str:
    """The node's ``post_transform``, by name. Raises InvalidNode for one that ONNX does not have."""
    kind = node.attr("post_transform", "NONE")
    if kind not in POST_TRANSFORMS:
        raise InvalidNode(f"post_transform '{kind}' is not one of {', '.join(POST_TRANSFORMS)}")
    return kind


def transformed(node: Node, scores: Tensor, kind: str, second: SecondScore | None = None) -> Tensor:
    """Scores [rows, n] of a float type after a transformation; [rows, 2] where n is 1 and a second one is to be made.

    As ONNX Runtime has it, a single score is transformed by PROBIT only, and by LOGISTIC beside its negation, whichever
    second score is to be made.
    """
    if scores.shape[1] != 1:
        return _TRANSFORMS[kind](node, scores)
    if second is None:
        return probit(node, scores) if kind == "PROBIT" else scores
    both = _with_second(node, scores, SecondScore.NEGATION if kind == "LOGISTIC" else second)
    return _TRANSFORMS[kind](node, both) if kind in ("LOGISTIC", "PROBIT") else both


def _with_second(node: Node, scores: Tensor, second: SecondScore) -> Tensor:
    b = node.b
    signs = b.constant([[-1.0, 1.0]], scores.dtype, "signs")
    if second is SecondScore.NEGATION:
        return b.map(lambda s, sign: s * sign, scores, signs)
    ones = b.constant([[1.0, 0.0]], scores.dtype, "ones")
    return b.map(lambda s, sign, one: s * sign + one, scores, signs, ones)


def _unchanged(node: Node, scores: Tensor) -> Tensor:
    return scores


def _logistic(node: Node, scores: Tensor) -> Tensor:
    return node.b.map(scalars.sigmoid, scores)


def _softmax(node: Node, scores: Tensor) -> Tensor:
    return softmax_of(node, scores, 1)


def softmax_zero(node: Node, scores: Tensor) -> Tensor:
    """Softmax along the rows of [rows, n] without the scores that are zero, which stay zero.

    A row of zeros becomes 0.5, as in ONNX's reference evaluator; ONNX Runtime divides zero by zero there.
    """
    b = node.b
    whole, rows = range(2), [0]
    peak = b.reduce(scores, [1], -math.inf, lambda v, acc: scalars.maximum(acc, v))

    def power(v: Scalar, m: Scalar) -> Scalar:
        is_zero = scalars.absolute(v) <= _ZERO
        return select(is_zero, v * scalars.exp(-m), scalars.exp(v - m))

    powers = b.map_along(power, scores.shape, (scores, whole), (peak, rows), dtype=scores.dtype)
    total = b.reduce(powers, [1], 0, lambda v, acc: acc + v)

    def share(v: Scalar, s: Scalar) -> Scalar:
        return select(s == 0.0, constant(0.5, v.dtype), v / s)

    return b.map_along(share, scores.shape, (powers, whole), (total, rows), dtype=scores.dtype)


def probit(node: Node, scores: Tensor) -> Tensor:
    """The quantile function of the normal distribution, as both ONNX Runtime and ONNX's evaluator approximate it.

    Source: S. Winitzki, A handy approximation for the error function and its inverse (2008); to 0.2 %.
    """

    def body(p: Scalar) -> Scalar:
        x = p * 2.0 - 1.0
        log = scalars.log((1.0 - x) * (1.0 + x))
        half = log * 0.5 + 2.0 / (math.pi * _WINITZKI)
        size = scalars.sqrt(scalars.sqrt(half * half - log * (1.0 / _WINITZKI)) - half)
        return select(x < 0.0, -size, size) * math.sqrt(2.0)

    return node.b.map(body, scores)


_TRANSFORMS = {
    "NONE": _unchanged,
    "SOFTMAX": _softmax,
    "LOGISTIC": _logistic,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": probit,
}
