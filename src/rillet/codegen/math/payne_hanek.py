"""Reduction of large angles: ``x - n pi/2`` for an x of any size (Payne and Hanek, Radian reduction for trigonometric
functions, 1983).

Let ``x = m 2^e`` in whole numbers. Bits of ``2/pi`` that contribute multiples of 4 to ``x 2/pi`` are left out, and so
are bits too small to matter: three words remain. Their product with m, modulo four, has the quadrant in its first two
bits and enough of the fraction behind them, since no number of the format comes closer than about one word to a
multiple of ``pi/2``. All arithmetic uses digits of 32 bits, which every target can multiply.
"""

from __future__ import annotations

import functools
import itertools
import math as pymath

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from rillet.codegen.math.exponential import FORMATS
from rillet.codegen.math.expression import E
from rillet.ir.structured import DYNAMIC

SMALLEST = 2.0**10  # magnitude that is reduced here
_DIGIT = 32
_MASK = (1 << _DIGIT) - 1
_ZEROS = 2 * _DIGIT  # in the table before the binary point
_LONGEST = 6  # digits of the three words of an f64
_TABLE = "two_over_pi"
# pi/2 in two parts; the first has half the bits of the format.
_PI_2 = {32: (1.5703125, 4.83826794896619231e-4), 64: (1.5707963109016418, 1.58932547735281966e-8)}


def reduce(x: E) -> tuple[E, E]:
    """``r = x - n pi/2`` on [-pi/4, pi/4], rounded, and n modulo 4 in the low bits of an integer as wide as x. x:
    scalar or vector of f32 or f64. The result is undefined for elements below ``SMALLEST``, infinity and NaN."""
    if not isinstance(x.value.type, ir.VectorType):
        return _reduce(x)
    integers = x.bits()
    (lanes,) = ir.VectorType(x.value.type).shape
    bounds = [arith.ConstantOp.create_index(n).result for n in (0, lanes, 1)]
    loop = scf.ForOp(*bounds, [x.value, integers.value])
    with ir.InsertionPoint(loop.body):
        lane, static = loop.induction_variable, [DYNAMIC]
        results = _reduce(E(vector.ExtractOp(x.value, [lane], static).result, x.arithmetic))
        carried = zip(results, loop.inner_iter_args, strict=True)
        scf.YieldOp([vector.InsertOp(e.value, into, [lane], static).result for e, into in carried])
    r, n = (E(v, x.arithmetic) for v in loop.results)
    return r, n


def _reduce(x: E) -> tuple[E, E]:
    width, form = x.width, FORMATS[x.width]
    magnitude = (x.bits() & ((1 << (width - 1)) - 1)).resize(64)
    exponent = magnitude.logical_shift(form.mantissa)
    exponent = exponent.at_least(form.bias + pymath.frexp(SMALLEST)[1] - 1).at_most(2 * form.bias)
    m = (magnitude & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    # The first bit behind the point that counts has the weight 2^(1 - e).
    digits = _window(exponent + (_ZEROS - 2 - form.bias - form.mantissa), 3 * width // _DIGIT)
    product = _times(m, digits, form.mantissa)
    words = [_word(product[n * width // _DIGIT :], width) for n in range(2)]
    quadrant = (words[0] + (1 << (width - 3))).logical_shift(width - 2)
    high, low = (words[0] << 2) | words[1].logical_shift(width - 2), words[1] << 2
    below = high >> (width - 1)  # all bits set where n is more than x 2/pi
    r = _as_angle(high ^ below, low ^ below, x.element)
    negative = x < 0.0
    r = (negative ^ below.differs(0)).where(-r, r)
    return r, negative.where(quadrant.constant(0) - quadrant, quadrant)


def _window(position: E, count: int) -> list[E]:
    """``count`` digits of the table from bit ``position`` on, most significant first."""
    first, shift = position.logical_shift(5), position & (_DIGIT - 1)
    table = memref.GetGlobalOp(ir.MemRefType.get([len(_table())], _i32()), _declare_table()).result
    loaded = []
    for n in range(count + 1):
        place = arith.IndexCastOp(ir.IndexType.get(), (first + n).value).result
        loaded.append(E(memref.LoadOp(table, [place]).result, position.arithmetic).resize(64))
    pairs = itertools.pairwise(loaded)
    return [((a << _DIGIT) | b).logical_shift(_DIGIT - shift) & _MASK for a, b in pairs]


def _times(m: E, digits: list[E], mantissa: int) -> list[E]:
    """``m`` times the number with these digits, modulo the range of the digits."""
    result = [m.constant(0)] * len(digits)
    for row in range(0, mantissa + 1, _DIGIT):
        factor, carry = m.logical_shift(row) & _MASK, m.constant(0)
        for n in reversed(range(row // _DIGIT, len(digits))):
            place = n - row // _DIGIT
            total = factor * digits[n] + result[place] + carry
            result[place], carry = total & _MASK, total.logical_shift(_DIGIT)
    return result


def _word(digits: list[E], width: int) -> E:
    """The first digits as one integer of ``width`` bits."""
    return digits[0].resize(32) if width == 32 else (digits[0] << _DIGIT) | digits[1]


def _as_angle(high: E, low: E, element: ir.Type) -> E:
    """``(high + low 2^-w) 2^-w pi/2`` for an integer of w - 1 bits and one of w. The first part's product is exact, so
    the sum of all parts is rounded once."""
    width, (pi_2, rest_of_pi_2) = high.width, _PI_2[high.width]
    behind = (1 << (width - (FORMATS[width].mantissa + 1) // 2)) - 1
    first = (high & ~behind).to_float(element) * 2.0**-width
    middle = (high & behind).to_float(element) * 2.0**-width
    last = low.logical_shift(1).to_float(element) * 2.0 ** (1 - 2 * width)
    return first * pi_2 + (first * rest_of_pi_2 + (middle + last) * (pi_2 + rest_of_pi_2))


@functools.cache
def _table() -> tuple[int, ...]:
    """The digits of ``2/pi`` that the largest f64 needs."""
    count = (_ZEROS + 1024) // _DIGIT + _LONGEST + 1
    bits = count * _DIGIT - _ZEROS
    number = (2 << 2 * bits) // _pi(bits)
    return tuple(number >> (bits + _ZEROS - _DIGIT * (n + 1)) & _MASK for n in range(count))


def _pi(bits: int) -> int:
    """``pi 2^bits``, by Machin's formula, ``pi = 16 arctan 1/5 - 4 arctan 1/239``."""
    spare = 32

    def arctan_of_inverse(n: int) -> int:
        power = total = (1 << (bits + spare)) // n
        k = 1
        while power:
            power, k = power // -(n * n), k + 2
            total += power // k
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> spare


def _declare_table() -> str:
    """The name of the table in the module that is being written; the first call adds the table."""
    module = ir.InsertionPoint.current.block.owner
    while module.operation.name != "builtin.module":
        module = module.operation.parent
    block = module.regions[0].blocks[0]
    names = [op.attributes["sym_name"].value for op in block.operations if op.operation.name == "memref.global"]
    if _TABLE not in names:
        type_ = ir.RankedTensorType.get([len(_table())], _i32())
        signed = [digit - (digit >> 31 << 32) for digit in _table()]
        value = ir.DenseElementsAttr.get([ir.IntegerAttr.get(_i32(), digit) for digit in signed], type_)
        with ir.InsertionPoint.at_block_begin(block):
            memref.GlobalOp(
                _TABLE,
                ir.MemRefType.get([len(_table())], _i32()),
                initial_value=value,
                constant=True,
                sym_visibility="private",
            )
    return _TABLE


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)
