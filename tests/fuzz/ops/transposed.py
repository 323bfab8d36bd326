"""Transposed convolutions and what else adds windows up."""

from __future__ import annotations

from tests.fuzz.maker import Maker, Stuck
from tests.fuzz.ops.registry import applies


@applies(2)
def conv_transpose(g: Maker) -> None:
    x = g.floating(3, 5)
    channels, rank = x.dims[1], x.rank - 2
    if not isinstance(channels, int) or not channels or 0 in x.dims:
        raise Stuck
    groups = g.one_of([n for n in (1, 1, 2, channels) if channels % n == 0])
    kernel = [g.integer(1, 4) for _ in range(rank)]
    strides = [g.integer(1, 3) for _ in range(rank)]
    dilations = [g.one_of([1, 1, 2]) for _ in range(rank)]
    attributes: dict = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    padding = [g.integer(0, (k - 1) * d) for k, d in zip(kernel * 2, dilations * 2, strict=True)]
    extra = [g.integer(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
    if g.chance(0.7):
        attributes["pads"] = padding
        if g.chance(0.5):
            attributes["output_padding"] = extra
    elif x.rank == 4:
        attributes["auto_pad"] = g.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    extents = zip(x.dims[2:], kernel, strides, dilations, padding, padding[rank:], strict=False)
    pads = attributes.get("pads")
    for d, k, s, n, low, high in extents:
        whole = ((d if isinstance(d, int) else 1) - 1) * s + (k - 1) * n + 1
        if pads and whole - low - high < 1:
            raise Stuck  # nothing is left
    features = g.integer(1, 4 if groups > 1 else 18)
    operands = [x, g.data(x.dtype, (channels, features, *kernel))]
    if g.chance(0.5):
        operands.append(g.data(x.dtype, (features * groups,)))
    g.add("ConvTranspose", operands, group=groups, **attributes)


@applies(0.6)
def col_to_im(g: Maker) -> None:
    x = g.floating(3, 3)
    columns = x.dims[2]
    if not isinstance(columns, int) or not isinstance(x.dims[1], int) or not columns or not x.dims[1]:
        raise Stuck
    kernel = g.one_of([(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if x.dims[1] % (a * b) == 0])
    down = g.one_of([n for n in range(1, columns + 1) if columns % n == 0])
    image = (down + kernel[0] - 1, columns // down + kernel[1] - 1)
    g.add("Col2Im", [x, g.ints(*image), g.ints(*kernel)])
