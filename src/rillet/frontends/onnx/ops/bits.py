"""BitCast: the same bits under another element type."""

from __future__ import annotations

from torch_mlir.dialects import arith

from rillet.frontends.building import element_types
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import builders


@op("BitCast", since=26)
def bit_cast(node: Node, x: Tensor) -> Tensor:
    """The bits of x as another element type of the same width; a bool is a byte.

    Raises InvalidNode for types of different widths and UnsupportedFeature for complex ones.
    """
    b = node.b
    dtype = node.dtype_attr("to")
    if element_types.is_complex(x.dtype) or element_types.is_complex(dtype):
        raise UnsupportedFeature(f"bits of {x.dtype} as {dtype}", "split complex numbers into their parts before")
    if "bool" in (x.dtype, dtype):
        # A bool is a byte of 0 or 1.
        if element_types.bits(x.dtype if dtype == "bool" else dtype) not in (1, 8):
            raise InvalidNode(f"{x.dtype} and {dtype} have different widths")
        return b.cast(x, dtype)
    if element_types.bits(x.dtype) != element_types.bits(dtype):
        raise InvalidNode(f"{x.dtype} and {dtype} have different widths")
    # Storage values, not the ones that bodies compute with: narrow floats must not pass through float32.
    loops = builders.dims(x.rank)
    target = element_types.element_type(dtype)

    def body(value: builders.ir.Value, _: builders.ir.Value) -> builders.ir.Value:
        return value if value.type == target else arith.bitcast(target, value)

    result = builders.generic([(b.value(x), loops)], [(b.empty(dtype, x.shape), loops)], "p" * x.rank, body)
    return b.tensor(result[0], dtype, x.shape)
