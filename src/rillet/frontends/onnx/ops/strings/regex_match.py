"""RegexFullMatch: the compiler makes an automaton of the pattern, and a loop over the bytes steps through it."""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.strings.matching import full_match
from rillet.frontends.onnx.strings.regex.automaton import build
from rillet.frontends.onnx.strings.regex.parser import parse
from rillet.frontends.onnx.strings.tensor import StringTensor


@op("RegexFullMatch", since=20, strings=True)
def regex_full_match(node: Node, x: StringTensor) -> Tensor:
    """Whether each string as a whole matches ``pattern``, in RE2's syntax."""
    return full_match(node.b, x, build(parse(node.attr("pattern"))))
