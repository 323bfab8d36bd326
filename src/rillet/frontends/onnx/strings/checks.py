"""Conditions on all elements, checked at run time."""

from __future__ import annotations

from torch_mlir.dialects import arith, cf

from rillet.frontends.layout import Builder
from rillet.frontends.onnx.loops import scalar_of
from rillet.frontends.onnx.strings.tensor import StringTensor, from_packed
from rillet.frontends.scalars import Scalar, convert
from rillet.frontends.tensors import Tensor
from rillet.ir import builders


def require(b: Builder, flags: Tensor, message: str) -> None:
    """Assert that all elements of a bool tensor are true."""
    wrong = b.map(lambda v: convert(~v, "int64"), flags, dtype="int64")
    total = b.reduce(wrong, list(range(flags.rank)), 0, lambda v, acc: acc + v, dtype="int64")
    number = convert(b.scalar(total), "index").value
    cf.assert_(arith.cmpi(arith.CmpIPredicate.eq, number, builders.index(0)), message)


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
