"""TfIdfVectorizer of strings, which are numbered first."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.n_grams import tf_idf_vectorizer
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.search import find
from rillet.frontends.onnx.strings.tensor import StringTensor

_KEPT = ("max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes", "weights")


@op("TfIdfVectorizer", since=9, strings=True)
def string_tf_idf_vectorizer(node: Node, x: StringTensor) -> Tensor:
    """A string that occurs in no n-gram becomes -1, which no n-gram has."""
    pool = node.attr("pool_strings")
    known = list(dict.fromkeys(pool))
    numbers = {text: number for number, text in enumerate(known)}
    attributes = {name: node.attr(name) for name in _KEPT if node.has(name)}
    attributes["pool_int64s"] = [numbers[text] for text in pool]
    numbered = Node(node.proto, node.name, node.opset, node.b, node.inputs, attributes, node.run_graph)
    return tf_idf_vectorizer(numbered, find(node.b, x, known))
