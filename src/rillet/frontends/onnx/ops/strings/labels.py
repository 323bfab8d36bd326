"""ai.onnx.ml's LabelEncoder and CategoryMapper, and TfIdfVectorizer, where keys, values or n-grams are strings.

A string becomes its place in the list of keys, and the op goes on with numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rillet.frontends.building import scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.ml.models import label_encoder
from rillet.frontends.onnx.ops.n_grams import tf_idf_vectorizer
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.search import find
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array

_DOMAIN = "ai.onnx.ml"


@op("LabelEncoder", since=2, domain=_DOMAIN, strings=True, ignores=["default_string"])
def string_label_encoder(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """The value of each key, a string or a number; any other element becomes the default value.

    Raises InvalidNode when keys and values differ in number, or the keys and x in kind.
    """
    keys, values = _list(node, "keys"), _list(node, "values")
    if keys is None or values is None or keys.size != values.size:
        raise InvalidNode("keys and values are missing or have different lengths")
    if (keys.dtype == object) != isinstance(x, StringTensor):
        raise InvalidNode("the input and the keys must both be strings or both numbers")
    if values.dtype == object:
        default = node.attr("default_tensor", None)
        unknown = default.reshape(-1)[0] if default is not None else node.attr("default_string", "_Unused")
        return _entries(node, x, keys, [*values, unknown])
    if isinstance(x, StringTensor):
        return label_encoder(_on_places(node, keys.size), find(node.b, x, list(keys)))
    return label_encoder(node, x)


@op("LabelEncoder", until=1, domain=_DOMAIN, strings=True)
def indexed_label_encoder(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """LabelEncoder, version 1: a string becomes its place in ``classes_strings``, and a place becomes the string."""
    names = node.attr("classes_strings", None) or []
    numbers = list(range(len(names)))
    return _mapped(node, x, names, numbers)


@op("CategoryMapper", domain=_DOMAIN, strings=True)
def category_mapper(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """The integer of each string, or the string of each integer; one without a partner becomes the default.

    Source: ai.onnx.ml CategoryMapper. Raises InvalidNode when strings and integers differ in number.
    """
    names, numbers = node.attr("cats_strings"), node.attr("cats_int64s")
    if len(names) != len(numbers):
        raise InvalidNode(f"{len(names)} strings for {len(numbers)} integers")
    return _mapped(node, x, names, numbers)


def _mapped(node: Node, x: Tensor | StringTensor, names: list[str], numbers: list[int]) -> Tensor | StringTensor:
    """Strings as the numbers at the same place, or numbers as strings."""
    text, number = node.attr("default_string", "_Unused"), node.attr("default_int64", -1)
    if not isinstance(x, StringTensor):
        return _entries(node, x, np.asarray(numbers, np.int64), [*names, text])
    attributes = {"values_int64s": numbers, "default_int64": number, **_places(len(names))}
    return label_encoder(_with(node, attributes), find(node.b, x, names))


@op("TfIdfVectorizer", since=9, strings=True)
def string_tf_idf_vectorizer(node: Node, x: StringTensor) -> Tensor:
    """TfIdfVectorizer of strings, numbered first; a string that occurs in no n-gram becomes -1, which no n-gram has."""
    pool = node.attr("pool_strings")
    known = list(dict.fromkeys(pool))
    numbers = {text: number for number, text in enumerate(known)}
    attributes = {name: node.attr(name) for name in _TF_IDF if node.has(name)}
    attributes["pool_int64s"] = [numbers[text] for text in pool]
    return tf_idf_vectorizer(_with(node, attributes), find(node.b, x, known))


_TF_IDF = ("max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes", "weights")


def _list(node: Node, kind: str) -> np.ndarray | None:
    """keys_* or values_* as an array; strings are objects."""
    if node.has(f"{kind}_tensor"):
        return node.attr(f"{kind}_tensor").reshape(-1)
    for suffix, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if node.has(f"{kind}_{suffix}"):
            return np.asarray(node.attr(f"{kind}_{suffix}"), dtype)
    return None


def _entries(node: Node, x: Tensor | StringTensor, keys: np.ndarray, texts: list[str]) -> StringTensor:
    """The string of ``texts`` for each key; the last one for any other element."""
    b, count = node.b, len(keys)
    if isinstance(x, StringTensor):
        found = find(b, x, list(keys))
        places = b.map(lambda v: scalars.select(v < 0, scalars.constant(count, "int64"), v), found)
    else:
        attributes = {"keys_tensor": keys, "values_int64s": list(range(count)), "default_int64": count}
        places = label_encoder(_with(node, attributes), x)
    table = from_array(b, np.array(texts, dtype=object), "values")
    ids = b.value(table.ids)

    def pick(place: scalars.Scalar) -> scalars.Scalar:
        return b.element(ids, "int64", [convert(place, "index")])

    return table.with_ids(b.map(pick, places))


def _places(count: int) -> dict[str, Any]:
    return {"keys_int64s": list(range(count))}


def _on_places(node: Node, count: int) -> Node:
    """The node with the keys' places instead of keys that are strings."""
    kept = ("values_tensor", "values_int64s", "values_floats", "default_tensor", "default_int64", "default_float")
    return _with(node, {**{name: node.attr(name) for name in kept if node.has(name)}, **_places(count)})


def _with(node: Node, attributes: dict[str, Any]) -> Node:
    """The same node with other attributes."""
    return Node(node.proto, node.name, node.opset, node.b, node.inputs, attributes, node.run_graph)
