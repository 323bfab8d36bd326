"""``fft``: transforms along the last axes."""

from __future__ import annotations

import re

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg
from torch_mlir.dialects import complex as complex_dialect

from rillet.frontends.building import fourier
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.fourier_sums import Transform
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.mlir.edges import dtype_name
from rillet.ir import builders
from rillet.ir.fourier import Source
from rillet.ir.rewrite import replace

_PARTS = {"complex64": "float32", "complex128": "float64"}


def fft(b: Builder, op: ir.Operation) -> None:
    """Transform along the last ``fft_length`` axes; the real side of RFFT and IRFFT is along the very last one."""
    kind = re.sub(r".*fft_type (\w+)>", r"\1", str(op.attributes["fft_type"]))
    lengths = list(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))
    x = b.wrap(op.operands[0], dtype_name(ir.RankedTensorType(op.operands[0].type).element_type))
    last = x.rank - 1
    others = list(zip(range(x.rank - len(lengths), last), lengths, strict=False))
    inverse = kind in ("IFFT", "IRFFT")
    x = b.unsqueeze(x, [x.rank]) if kind == "RFFT" else _split(b, x)
    if kind != "IRFFT":
        source: Source = "real" if kind == "RFFT" else "complex"
        kept = lengths[-1] // 2 + 1 if kind == "RFFT" else lengths[-1]
        x = fourier.transform_rows(b, x, Transform(lengths[-1], source, "complex", inverse), kept)
    for axis, length in others:
        order = list(range(x.rank))
        order[axis], order[last] = last, axis
        turned = fourier.transform_rows(
            b, b.transpose(x, order), Transform(length, "complex", "complex", inverse), length
        )
        x = b.transpose(turned, order)
    if kind == "IRFFT":
        x = fourier.transform_rows(b, x, Transform(lengths[-1], "half", "real", True), lengths[-1])
        result = b.squeeze(x, [x.rank - 1])
    else:
        result = _joined(b, x)
    replace(op, [builders.cast(b.value(result), list(ir.RankedTensorType(op.results[0].type).shape))])


def _split(b: Builder, x: Tensor) -> Tensor:
    """Complex numbers as a last axis of their parts."""
    dtype = _PARTS[x.dtype]
    shape = [*x.shape, 2]
    loops = builders.dims(x.rank + 1)

    def body(number: Scalar, _: Scalar) -> Scalar:
        part = linalg.IndexOp(x.rank).result
        is_real = arith.cmpi(arith.CmpIPredicate.eq, part, builders.index(0))
        re_, im = complex_dialect.ReOp(number.value).result, complex_dialect.ImOp(number.value).result
        return Scalar(arith.select(is_real, re_, im), dtype)

    output = (b.empty(dtype, shape), loops, dtype, shape)
    return b.generic([(x, loops[:-1])], [output], "p" * len(loops), body)[0]


def _joined(b: Builder, x: Tensor) -> Tensor:
    """The complex numbers whose parts the last axis has."""
    dtype = next(name for name, part in _PARTS.items() if part == x.dtype)
    shape = list(x.shape[:-1])
    loops = builders.dims(len(shape))
    parts = [b.reshape(b.slice_axis(x, x.rank - 1, n, 1), shape) for n in range(2)]
    element = ir.Type.parse(f"complex<{ir.RankedTensorType(b.value(x).type).element_type}>")

    def body(re_: Scalar, im: Scalar, _: Scalar) -> Scalar:
        return Scalar(complex_dialect.CreateOp(element, re_.value, im.value).result, dtype)

    output = (b.empty(dtype, shape), loops, dtype, shape)
    return b.generic([(part, loops) for part in parts], [output], "p" * len(loops), body)[0]
