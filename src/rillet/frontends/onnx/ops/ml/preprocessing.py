"""ai.onnx.ml's ops that prepare features: element by element, or row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, absolute, is_nan, maximum, select, sqrt
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.rows import float_rows
from rillet.frontends.onnx.registry import op

_DOMAIN = "ai.onnx.ml"


@op("Binarizer", domain=_DOMAIN)
def binarizer(node: Node, x: Tensor) -> Tensor:
    """1 where x > threshold, else 0, in x's type."""
    threshold = node.attr("threshold", 0.0)
    if not element_types.is_float(x.dtype):  # an integer is above a number if it is above the integer below
        limits = np.iinfo(x.dtype)
        threshold = int(np.clip(math.floor(threshold), limits.min, limits.max))
    return node.b.map(lambda v: convert(v > threshold, v.dtype), x)


@op("Scaler", domain=_DOMAIN)
def scaler(node: Node, x: Tensor) -> Tensor:
    """(x - offset) * scale as float32; both have one number, or one for each feature.

    Raises InvalidNode where they have another number.
    """
    b = node.b
    source = x if x.dtype == "float64" else b.cast(x, "float32")
    offset, scale = (
        _per_feature(node, source, node.attr(name, None) or [neutral], name)
        for name, neutral in (("offset", 0.0), ("scale", 1.0))
    )
    return b.map(lambda v, o, s: (v - o) * s, source, offset, scale, dtype="float32")


@op("Normalizer", domain=_DOMAIN)
def normalizer(node: Node, x: Tensor) -> Tensor:
    """Each row divided by its ``norm``, as float32: MAX (the largest element), L1 or L2. One of norm 0 stays.

    Raises InvalidNode for another norm.
    """
    b, norm = node.b, node.attr("norm", "MAX")
    rows = float_rows(node, x)
    if norm == "MAX":
        size = b.reduce(rows, [1], -math.inf, lambda v, acc: maximum(acc, v))
    elif norm == "L1":
        size = b.reduce(rows, [1], 0, lambda v, acc: acc + absolute(v))
    elif norm == "L2":
        size = b.map(sqrt, b.reduce(rows, [1], 0, lambda v, acc: acc + v * v))
    else:
        raise InvalidNode(f"norm '{norm}' is not one of MAX, L1, L2")

    def divide(v: Scalar, s: Scalar) -> Scalar:
        return select(s == 0.0, v, v / s)

    return b.reshape(b.map_along(divide, rows.shape, (rows, range(2)), (size, [0]), dtype="float32"), x.shape)


@op("Imputer", domain=_DOMAIN, ignores=["replaced_value_float", "replaced_value_int64"])
def imputer(node: Node, x: Tensor) -> Tensor:
    """Elements equal to the replaced value become the imputed one: one number, or one for each feature.

    A replaced value that is NaN stands for every NaN. Raises InvalidNode where there is no imputed value of x's kind.
    """
    b, is_float = node.b, element_types.is_float(x.dtype)
    imputed, replaced, default = (
        ("imputed_value_floats", "replaced_value_float", 0.0)
        if is_float
        else ("imputed_value_int64s", "replaced_value_int64", 0)
    )
    if not (values := node.attr(imputed, None)):
        raise InvalidNode(f"attribute '{imputed}' is missing, and the input is {x.dtype}")
    wanted = node.attr(replaced, default)

    def body(v: Scalar, value: Scalar) -> Scalar:
        return select(is_nan(v) if math.isnan(wanted) else v == wanted, value, v)

    return b.map(body, x, _per_feature(node, x, values, imputed))


def _per_feature(node: Node, x: Tensor, values: Sequence[float], name: str) -> Tensor:
    """One number or one for each feature, as a constant that broadcasts.

    Raises InvalidNode for another number, and for an x without features.
    """
    if not x.rank:
        raise InvalidNode("its input is a single number; the op takes rows of features")
    features = x.shape[-1]
    if len(values) != 1 and isinstance(features, int) and len(values) != features:
        raise InvalidNode(f"{name} has {len(values)} numbers for {features} features")
    return node.b.constant(np.asarray(values, x.dtype), name=name)
