"""ai.onnx.ml: the ops on numbers (those on strings are not supported)."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_each, for_range, store
from rillet.frontends.building.scalars import Scalar, constant, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op

_DOMAIN = "ai.onnx.ml"


@op("Binarizer", domain=_DOMAIN)
def binarizer(node: Node, x: Tensor) -> Tensor:
    """1 where x > threshold, else 0, in x's type."""
    threshold = node.attr("threshold", 0.0)
    return node.b.map(lambda v: convert(v > threshold, v.dtype), x)


@op("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(node: Node, x: Tensor, positions: Tensor) -> Tensor:
    """Elements of the last dimension at ``positions``."""
    b = node.b
    source, chosen = b.value(x), b.value(b.reshape(positions, [b.extents.product(positions.shape)]))
    shape = [*(x.shape[:-1] or [1]), b.extents.product(positions.shape)]
    lead = x.rank - 1

    def body(at: list[Scalar]) -> Scalar:
        place = convert(b.element(chosen, positions.dtype, [at[-1]]), "index")
        return b.element(source, x.dtype, [*at[:lead], place])

    return b.indexed(x.dtype, shape, body)


@op("LabelEncoder", since=2, domain=_DOMAIN)
def label_encoder(node: Node, x: Tensor) -> Tensor:
    """A table of keys and values; the last of equal keys wins, a NaN key matches every NaN.

    Raises InvalidNode when they are missing or differ in number.
    """
    b = node.b
    keys, values, default = _attribute(node, "keys"), _attribute(node, "values"), _default(node)
    if keys is None or values is None or keys.size != values.size:
        raise InvalidNode("keys and values are missing or have different lengths")
    keys, values = keys.reshape(-1).astype(x.dtype), values.reshape(-1)
    table_keys, table_values = b.value(b.constant(keys, name="keys")), b.value(b.constant(values, name="values"))
    dtype = values.dtype.name
    if default is None:
        default = np.zeros(1, values.dtype)
    if element_types.is_float(dtype) and not node.has("default_float") and not node.has("default_tensor"):
        default = np.asarray([-0.0], values.dtype)
    otherwise = float(default.reshape(-1)[0]) if element_types.is_float(dtype) else int(default.reshape(-1)[0])
    source = b.value(x)

    def body(at: list[Scalar], result: ir.Value) -> ir.Value:
        wanted = b.element(source, x.dtype, at)

        def probe(i: Scalar, found: ir.Value) -> ir.Value:
            key = b.element(table_keys, x.dtype, [i])
            match = key == wanted
            if element_types.is_float(key.dtype):
                match = match | (scalars.is_nan(key) & scalars.is_nan(wanted))
            return select(match, b.element(table_values, dtype, [i]), Scalar(found, compute)).value

        compute = element_types.compute_dtype(dtype)
        found = for_range(0, len(keys), [constant(otherwise, compute).value], probe)[0]
        return store(Scalar(found, compute), dtype, result, at)

    return b.tensor(for_each(x.shape, [b.empty(dtype, x.shape)], body)[0], dtype, x.shape)


def _attribute(node: Node, kind: str) -> np.ndarray | None:
    """keys_* or values_*: a tensor, or a list of int64 or float32."""
    if node.has(f"{kind}_strings"):
        raise UnsupportedFeature(f"{kind} that are strings", "number the strings before the model")
    if node.has(f"{kind}_tensor"):
        array = node.attr(f"{kind}_tensor")
        if array.dtype == object:
            raise UnsupportedFeature(f"{kind} that are strings", "number the strings before the model")
        return array
    if node.has(f"{kind}_int64s"):
        return np.asarray(node.attr(f"{kind}_int64s"), np.int64)
    return np.asarray(node.attr(f"{kind}_floats"), np.float32) if node.has(f"{kind}_floats") else None


def _default(node: Node) -> np.ndarray | None:
    if node.has("default_tensor"):
        return node.attr("default_tensor")
    if node.has("values_int64s"):
        return np.asarray([node.attr("default_int64", -1)], np.int64)
    if node.has("values_floats"):
        return np.asarray([node.attr("default_float", -0.0)], np.float32)
    return None
