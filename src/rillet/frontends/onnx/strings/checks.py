"""Checks of the tensors of strings that a caller gives."""

from __future__ import annotations

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.tensor import StringTensor, from_packed


def received(b: Builder, name: str, ends: Tensor, data: Tensor) -> StringTensor:
    """An input of the model as it comes in; asserts that its ends lie within its bytes and never go back."""
    result = from_packed(b, ends, data)
    size = convert(scalar_of(data.shape[0]), "int64")
    spans = b.value(result.spans)

    def is_good(at: list[Scalar]) -> Scalar:
        first, last = (b.element(spans, "int64", [at[0], side]) for side in (0, 1))
        return (first >= 0) & (first <= last) & (last <= size)

    flags = b.indexed("bool", [b.extents.product(ends.shape)], is_good)
    require(b, flags, f"input '{name}': the ends of its strings must ascend and stay within its bytes")
    return result
