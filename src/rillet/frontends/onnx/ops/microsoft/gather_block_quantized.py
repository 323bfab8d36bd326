"""GatherBlockQuantized of ONNX Runtime (domain ``com.microsoft``): rows of an embedding of 2, 4 or 8 bits.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. Only the rows that are gathered are dequantized.
"""

from __future__ import annotations

from rillet.dialects import linalg
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.element_types import compute_dtype, is_integer
from rillet.frontends.building.scalars import Scalar, constant, shift_right
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.gather import position
from rillet.frontends.onnx.ops.shape import scalar_of
from rillet.frontends.onnx.registry import op
from rillet.ir import builders


@op("GatherBlockQuantized", domain="com.microsoft")
def gather_block_quantized(
    node: Node, data: Tensor, indices: Tensor, scales: Tensor, zero_points: Tensor | None = None
) -> Tensor:
    """(data - zero_points) * scales of the chosen rows of ``data`` [rows, columns], in the type of ``scales``.

    In ``data`` of uint8, numbers of fewer than 8 bits share a byte; the first one has its lowest bits. Raises
    UnsupportedFeature for other layouts of the blocks.
    """
    b, e = node.b, node.b.extents
    bits, block = node.attr("bits", 4), node.attr("block_size", 128)
    axes = (node.attr("gather_axis", 0), node.attr("quantize_axis", 1))
    if data.rank != 2 or axes not in ((0, 1), (0, -1)):
        raise UnsupportedFeature(
            f"data of rank {data.rank} with axes {axes}", "gather rows of a matrix with blocks in rows"
        )
    if not is_integer(data.dtype) or bits not in (2, 4, 8) or block <= 0:
        raise UnsupportedFeature(
            f"{data.dtype} in {bits} bits with blocks of {block}", "quantize to 2, 4 or 8 bits in blocks"
        )
    packed = data.dtype == "uint8"
    share = 8 // bits if packed else 1
    columns = e.mul(data.shape[1], share)
    blocks = e.ceildiv(columns, block)
    scales = b.refine(scales, [data.shape[0], blocks], "scales")
    if zero_points is not None:
        zero_points = b.refine(zero_points, [data.shape[0], e.ceildiv(blocks, share)], "zero_points")
    shape = [*indices.shape, columns]
    loops = builders.dims(len(shape))
    numbers, factors = b.value(data), b.value(scales)
    zeros = None if zero_points is None else b.value(zero_points)
    extent = scalar_of(data.shape[0])
    wide = compute_dtype(scales.dtype)

    def unpacked(source: builders.ir.Value, row: Scalar, column: Scalar) -> Scalar:
        number = b.element(source, data.dtype, [row, column // share if share > 1 else column])
        if share == 1:
            return convert(number, "int32")
        shift = convert(column % share * bits, data.dtype)
        return convert(shift_right(number, shift) & ((1 << bits) - 1), "int32")

    def body(index: Scalar, _: Scalar) -> Scalar:
        row = position(convert(index, "index"), extent)
        column = Scalar(linalg.IndexOp(len(shape) - 1).result, "index")
        group = column // block
        usual = constant(1 << (bits - 1) if packed else 0, "int32")
        zero = usual if zeros is None else unpacked(zeros, row, group)
        return convert(unpacked(numbers, row, column) - zero, wide) * b.element(factors, scales.dtype, [row, group])

    output = (b.empty(scales.dtype, shape), loops, scales.dtype, shape)
    return b.generic([(indices, loops[:-1])], [output], "p" * len(shape), body)[0]
