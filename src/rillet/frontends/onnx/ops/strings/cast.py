"""Cast and CastLike from and to strings."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.literals import to_number
from rillet.frontends.onnx.strings.numerals import to_text
from rillet.frontends.onnx.strings.tensor import STRING, StringTensor


@op("Cast", strings=True, ignores=["saturate", "round_mode", "to"])
def string_cast(node: Node, x: Tensor | StringTensor) -> Tensor | StringTensor:
    """Numbers as strings, or strings as numbers of the type ``to``."""
    to = node.attr("to")
    return _cast(node, x, STRING if to in (8, "STRING") else node.dtype_attr("to"))


@op("CastLike", strings=True, ignores=["saturate", "round_mode"])
def string_cast_like(node: Node, x: Tensor | StringTensor, like: Tensor | StringTensor) -> Tensor | StringTensor:
    """Numbers as strings, or strings as numbers of the type of ``like``."""
    return _cast(node, x, like.dtype)


def _cast(node: Node, x: Tensor | StringTensor, dtype: str) -> Tensor | StringTensor:
    if x.dtype == dtype:
        return x
    if isinstance(x, Tensor):
        return to_text(node.b, x)
    return to_number(node.b, x, dtype)
