"""The kernel functions of support vector machines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rillet.frontends.building.contraction import contract
from rillet.frontends.building.scalars import Scalar, constant, exp, power, tanh
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.ir import builders

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def kernel_values(node: Node, rows: Tensor, count: int) -> Tensor:
    """[rows, count]: the kernel function of each row [rows, features] and each of ``count`` support vectors.

    Raises InvalidNode for an unknown kernel, and where the numbers of vectors or features do not fit.
    """
    b, kind = node.b, node.attr("kernel_type", "LINEAR")
    if kind not in KERNELS:
        raise InvalidNode(f"kernel_type '{kind}' is not one of {', '.join(KERNELS)}")
    parameters = node.attr("kernel_params", None) or [0.0, 0.0, 0.0]
    if len(parameters) != 3:
        raise InvalidNode(f"kernel_params has {len(parameters)} numbers; they are gamma, coef0 and degree")
    gamma, offset, degree = parameters
    vectors = _support_vectors(node, rows, count)
    if kind == "RBF":
        return b.map(lambda d: exp(d * -gamma), _squared_distances(node, rows, vectors))
    products = contract(b, ["mk", "kn"], "mn", [rows, vectors], rows.dtype)
    if kind == "LINEAR":
        return products
    bend: Callable[[Scalar], Scalar] = tanh if kind == "SIGMOID" else lambda v: _raised(v, degree)
    return b.map(lambda v: bend(v * gamma + offset), products)


def _support_vectors(node: Node, rows: Tensor, count: int) -> Tensor:
    """[features, count]"""
    given = np.asarray(node.attr("support_vectors", None) or [], rows.dtype)
    if not given.size or given.size % count:
        raise InvalidNode(f"support_vectors has {given.size} numbers, which are not {count} vectors of equal length")
    width, features = given.size // count, rows.shape[1]
    if isinstance(features, int) and features != width:
        raise InvalidNode(f"its input has {features} features, and its support vectors {width}")
    return node.b.constant(np.ascontiguousarray(given.reshape(count, width).T), name="support_vectors")


def _squared_distances(node: Node, rows: Tensor, vectors: Tensor) -> Tensor:
    """Sums of squared differences; products would cancel where features are large and differ little."""
    b = node.b
    m, n, k = builders.dims(3)
    shape = [rows.shape[0], vectors.shape[1]]
    output = (b.init(0, rows.dtype, shape), [m, n], rows.dtype, shape)

    def body(x: Scalar, s: Scalar, total: Scalar) -> Scalar:
        difference = x - s
        return total + difference * difference

    return b.generic([(rows, [m, k]), (vectors, [k, n])], [output], "ppr", body)[0]


def _raised(v: Scalar, degree: float) -> Scalar:
    """v to the power of ``degree``: by products where it is a small whole number."""
    if not degree.is_integer() or not 0 < degree <= 8:
        return power(v, constant(degree, v.dtype))
    result = v
    for bit in bin(int(degree))[3:]:
        result = result * result * v if bit == "1" else result * result
    return result
