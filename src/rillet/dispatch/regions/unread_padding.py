"""Decides when a convolution should read its operand without padding: it then checks whether positions exist, and skips
windows that lie in the padding.

Where the taps of a window are far apart (dilation), many of them read only padding for all results of a register tile,
and the padded tensor is several times as large as its source. Skipping a product with zero is exact only if the other
factor is finite, which is known for constants.
"""

from __future__ import annotations

import itertools

import numpy as np
from torch_mlir import ir

from rillet.ir import Program, constants
from rillet.ir.contraction import contraction
from rillet.ir.extents import margins, padding_value
from rillet.ir.linear import linear
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC, Structured

_TILE_ROWS = 6  # results along the innermost image axis that take or skip a position of the window together
_SHORTEST_RUN = 16  # the fewest elements between two checks
_WORTHWHILE = 0.1


def adds_nothing(program: Program, pad: ir.Operation, reader: Structured) -> bool:
    """Whether products with the padding leave the sums of ``reader`` unchanged: zeros times finite constants."""
    roles = contraction(reader)
    if roles is None or reader.inputs[roles.lhs] != pad.results[0] or not _is_zero(padding_value(pad)):
        return False
    weights = constants.array_of(program, reader.inputs[roles.rhs])
    return weights is not None and bool(np.isfinite(weights.astype(np.float32)).all())


def is_depthwise(pad: ir.Operation, reader: Structured) -> bool:
    """Whether ``reader`` is a convolution of the result of ``pad`` whose channels lie last and stay apart. Its kernels
    choose their source for a whole line at a time, and skip only what they must."""
    roles = contraction(reader)
    if roles is None or not roles.is_convolution or roles.n or reader.inputs[roles.lhs] != pad.results[0]:
        return False
    innermost = reader.maps[roles.lhs][-1]
    return innermost in roles.batch and reader.extents[innermost] >= _SHORTEST_RUN  # type: ignore[index]


def pays(pad: ir.Operation, reader: Structured) -> bool:
    """Whether a convolution should read the source of ``pad`` instead of its result, if the padding adds nothing."""
    roles = contraction(reader)
    if roles is None or not roles.is_convolution or not roles.n or reader.inputs[roles.lhs] != pad.results[0]:
        return False
    innermost = reader.maps[roles.lhs][-1]
    if innermost not in roles.k or reader.extents[innermost] < _SHORTEST_RUN:  # type: ignore[index]
        return False
    return 1 - _computed(pad, reader, roles.lhs, max(roles.image)) >= _WORTHWHILE


def _computed(pad: ir.Operation, reader: Structured, operand: int, innermost: int) -> float:
    """The share of the multiplications that remains when register tiles skip the padding."""
    lows, _ = margins(pad)
    extents, source = reader.extents, ir.RankedTensorType(pad.operands[0].type).shape
    share = 1.0
    for expr, low, size in zip(reader.maps[operand], lows, source, strict=True):
        form = linear(expr, reader.loops)
        if low == 0 or form is None or not isinstance(low, int):
            continue
        coefficients, constant = form.terms, form.constant
        outer, window = form.among(reader.parallel_loops), form.among(reader.reduction_loops)
        if len(outer) != 1 or DYNAMIC in (extents[d] for d in (*outer, *window)):
            continue
        (image,) = outer
        together = _TILE_ROWS if image == innermost else 1
        blocks = [range(b, min(b + together, extents[image])) for b in range(0, extents[image], together)]
        taps = list(itertools.product(*(range(extents[d]) for d in window)))
        taken = 0
        for tap in taps:
            offset = constant - low + sum(coefficients[d] * i for d, i in zip(window, tap, strict=True))
            step = coefficients[image]
            taken += sum(len(b) for b in blocks if any(0 <= step * at + offset < size for at in b))
        share *= taken / max(1, len(taps) * extents[image])
    return share


def _is_zero(value: ir.Value) -> bool:
    owner = defining(value)
    if owner is None or owner.name != "arith.constant":
        return False
    attribute = owner.attributes["value"]
    return isinstance(attribute, ir.FloatAttr) and attribute.value == 0
