"""ai.onnx.ml's LabelEncoder and CategoryMapper: values for keys, both of them strings or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rillet.frontends.building import element_types
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.lookup import entries, places
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.tensor import StringTensor

_DOMAIN = "ai.onnx.ml"
_KINDS = {"strings": ("default_string", "_Unused"), "int64s": ("default_int64", -1), "floats": ("default_float", -0.0)}
_DEFAULTS = ("default_string", "default_int64", "default_float", "default_tensor")


@op("LabelEncoder", since=2, domain=_DOMAIN, strings=True, ignores=_DEFAULTS)
@op("LabelEncoder", since=2, domain=_DOMAIN, ignores=_DEFAULTS)
def label_encoder(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """The value of each key, the last one among equal keys; any other element becomes the default of the values' type.

    Raises InvalidNode when keys and values differ in number, or the keys and x in kind.
    """
    keys, values = _list(node, "keys"), _list(node, "values")
    if keys is None or values is None or keys.size != values.size or not keys.size:
        raise InvalidNode("keys and values are missing or have different lengths")
    if (keys.dtype == object) != isinstance(x, StringTensor):
        raise InvalidNode("the input and the keys must both be strings or both numbers")
    texts = values.tolist() if values.dtype == object else values
    return entries(node, places(node, x, keys), texts, _default(node, values))


@op("LabelEncoder", until=1, domain=_DOMAIN, strings=True)
def indexed_label_encoder(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """LabelEncoder, version 1: a string becomes its place in ``classes_strings``, and a place becomes the string."""
    names = node.attr("classes_strings", None) or []
    return _mapped(node, x, names, list(range(len(names))))


@op("CategoryMapper", domain=_DOMAIN, strings=True)
def category_mapper(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """The integer of each string, or the string of each integer; one without a partner becomes the default."""
    return _mapped(node, x, node.attr("cats_strings"), node.attr("cats_int64s"))


def _mapped(node: Node, x: Tensor | StringTensor, names: list[str], numbers: list[int]) -> Tensor | StringTensor:
    """Strings as the numbers at the same place, or numbers as strings. Raises InvalidNode unless they pair up."""
    if len(names) != len(numbers) or not names:
        raise InvalidNode(f"{len(names)} strings for {len(numbers)} integers")
    text, number = node.attr("default_string", "_Unused"), node.attr("default_int64", -1)
    integers = np.array(numbers, np.int64)
    if isinstance(x, StringTensor):
        return entries(node, places(node, x, names), integers, number)
    return entries(node, places(node, x, integers), names, text)


def _list(node: Node, side: str) -> np.ndarray | None:
    """keys_* or values_* as a vector; strings are objects."""
    if node.has(f"{side}_tensor"):
        return node.attr(f"{side}_tensor").reshape(-1)
    for suffix, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if node.has(f"{side}_{suffix}"):
            return np.asarray(node.attr(f"{side}_{suffix}"), dtype)
    return None


def _default(node: Node, values: np.ndarray) -> Any:
    """The default for values of this type."""
    if node.has("default_tensor"):
        return node.attr("default_tensor").reshape(-1)[0]
    kind = "strings" if values.dtype == object else "floats"
    if element_types.is_integer(values.dtype.name):
        kind = "int64s"
    return node.attr(*_KINDS[kind])
