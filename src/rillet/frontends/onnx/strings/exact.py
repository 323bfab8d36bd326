"""Decimal text to the nearest float, with integers as long as it takes.

The significant digits are one long integer in limbs of 32 bits. A positive exponent multiplies it by powers of five;
for a negative one it has zero limbs below, enough for the quotient's precision, and is divided. Digits and remainders
that are cut off only matter by whether they are 0. Powers of two go into the exponent.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, maximum, minimum, select, shift_left, shift_right
from rillet.frontends.onnx.strings.formats import Format
from rillet.frontends.onnx.strings.ranges import Reader

_LIMBS = 192
_LIMB = 32
_MASK = (1 << _LIMB) - 1
_DIGITS = 800  # significant ones that are kept; a double's rounding depends on no more than 768
_RANGE = (-1400, 500)  # of the power of ten: beyond, with these many digits, all is 0 or infinite
_MOST = 10**6  # at which a written exponent stays
_CHUNK = 13  # the largest power of five that fits a limb


class _Decimal:
    """The content of a text: ``[-] digits * 10^exponent``, or infinity or NaN."""

    def __init__(self, negative: Scalar, exponent: Scalar, is_infinite: Scalar, is_nan: Scalar):
        self.negative, self.exponent, self.is_infinite, self.is_nan = negative, exponent, is_infinite, is_nan


class Exact:
    """Parses the elements of a tensor of strings as floats of one format; made outside of the loop over them."""

    def __init__(self, b: Builder, reader: Reader, form: Format):
        self._b, self._reader, self._form = b, reader, form

    def scratch(self) -> ir.Value:
        """The tensor for the long integer, which the loop carries."""
        return self._b.empty("uint32", [_LIMBS])

    def as_float(self, bits: Scalar) -> ir.Value:
        """The float that ``bits`` (uint64) are."""
        form = self._form
        element = {(64, 52): ir.F64Type, (32, 23): ir.F32Type, (16, 10): ir.F16Type, (16, 7): ir.BF16Type}
        narrow = convert(bits, f"uint{form.bits}")
        return arith.bitcast(element[form.bits, form.fraction].get(), narrow.value)

    def parse(self, position: Scalar, limbs: ir.Value) -> tuple[Scalar, ir.Value]:
        """The bits (uint64) of the float that a valid text stands for."""
        form = self._form
        text = self._scan(position)
        power = minimum(maximum(text.exponent, _RANGE[0]), _RANGE[1])
        down = maximum(-power, 0)
        zero = constant(0, "index")
        # log2(5) < 2.322; 66 bits are more than any format's and one for rounding.
        low = select(down == 0, zero, (down * 2322 + 66_000) // (_LIMB * 1000) + 1)
        limbs = for_range(0, low, [limbs], lambda i, v: self._put(v, i, constant(0, "uint64")))[0]
        limbs, used, cut = self._digits(position, limbs, low)
        is_zero = used == low
        limbs, used = self._multiplied(limbs, used, maximum(power, 0))
        limbs, used, rest = self._divided(limbs, used, select(is_zero, zero, down))
        bits = self._rounded(limbs, used, cut | rest, power - low * _LIMB)
        infinity = form.exponents << form.fraction
        bits = select(is_zero, constant(0, "uint64"), bits)
        bits = select(text.is_infinite, constant(infinity, "uint64"), bits)
        bits = select(text.is_nan, constant(infinity | 1 << (form.fraction - 1), "uint64"), bits)
        return bits | select(text.negative, constant(1 << (form.bits - 1), "uint64"), 0), limbs

    # --- reading the text ---

    def _characters(
        self, position: Scalar, start: list[ir.Value], step: Callable[..., list[ir.Value]]
    ) -> list[ir.Value]:
        """Go through a text: ``state = step(character, digit, is_digit, *state)``."""
        text = self._reader.range(position)

        def one(at: Scalar, *state: ir.Value) -> list[ir.Value]:
            character = self._reader.byte(at)
            digit = character - ord("0")
            return step(character, digit, (digit >= 0) & (digit <= 9), *state)

        return for_range(text.first, text.last, start, one)

    def _scan(self, position: Scalar) -> _Decimal:
        def step(
            character: Scalar,
            digit: Scalar,
            is_digit: Scalar,
            negative: ir.Value,
            behind_e: ir.Value,
            down: ir.Value,
            written: ir.Value,
            behind_point: ir.Value,
            scale: ir.Value,
            significant: ir.Value,
            letter: ir.Value,
        ) -> list[ir.Value]:
            is_exponent, is_fraction = Scalar(behind_e, "bool"), Scalar(behind_point, "bool")
            minus = character == ord("-")
            exponent, kept, first = Scalar(written, "index"), Scalar(significant, "index"), Scalar(letter, "int32")
            in_number = is_digit & ~is_exponent
            longer = minimum(exponent * 10 + convert(digit, "index"), _MOST)
            lower = character | 0x20
            return [
                (Scalar(negative, "bool") | (minus & ~is_exponent)).value,
                (is_exponent | (lower == ord("e"))).value,
                (Scalar(down, "bool") | (minus & is_exponent)).value,
                select(is_digit & is_exponent, longer, exponent).value,
                (is_fraction | (character == ord("."))).value,
                (Scalar(scale, "index") + convert(in_number & is_fraction, "index")).value,
                (kept + convert(in_number & ((kept > 0) | (digit > 0)), "index")).value,
                select((first == 0) & (lower >= ord("a")), lower, first).value,
            ]

        no, zero = constant(False, "bool").value, constant(0, "index").value
        start = [no, no, no, zero, no, zero, zero, constant(0, "int32").value]
        dtypes = ("bool", "bool", "bool", "index", "bool", "index", "index", "int32")
        result = self._characters(position, start, step)
        negative, _, down, written, _, scale, significant, letter = (
            Scalar(v, dtype) for v, dtype in zip(result, dtypes, strict=True)
        )
        exponent = select(down, -written, written) - scale + maximum(significant - _DIGITS, 0)
        return _Decimal(negative, exponent, letter == ord("i"), letter == ord("n"))

    def _digits(self, position: Scalar, limbs: ir.Value, low: Scalar) -> tuple[ir.Value, Scalar, Scalar]:
        """The long integer of the digits from limb ``low`` on, its end, and whether what follows is not 0."""

        def step(
            character: Scalar,
            digit: Scalar,
            is_digit: Scalar,
            limbs: ir.Value,
            used: ir.Value,
            seen: ir.Value,
            cut: ir.Value,
            behind_e: ir.Value,
        ) -> list[ir.Value]:
            end, count, is_exponent = Scalar(used, "index"), Scalar(seen, "index"), Scalar(behind_e, "bool")
            counts = is_digit & ~is_exponent & ((count > 0) | (digit > 0))
            kept = counts & (count < _DIGITS)
            limbs, grown = self._times(limbs, low, select(kept, end, low), 10, convert(digit, "uint64"), kept)
            lost = counts & ~kept & (digit > 0)
            return [
                limbs,
                select(kept, grown, end).value,
                (count + convert(counts, "index")).value,
                (Scalar(cut, "bool") | lost).value,
                (is_exponent | ((character | 0x20) == ord("e"))).value,
            ]

        no = constant(False, "bool").value
        start = [limbs, low.value, constant(0, "index").value, no, no]
        limbs, used, _, cut, _ = self._characters(position, start, step)
        return limbs, Scalar(used, "index"), Scalar(cut, "bool")

    # --- the long integer ---

    def _get(self, limbs: ir.Value, at: Scalar) -> Scalar:
        return convert(self._b.element(limbs, "uint32", [at]), "uint64")

    @staticmethod
    def _put(limbs: ir.Value, at: Scalar, value: Scalar) -> ir.Value:
        return store(convert(value, "uint32"), "uint32", limbs, [at])

    def _times(
        self, limbs: ir.Value, low: Scalar, used: Scalar, factor: int, added: Scalar, writes: Scalar
    ) -> tuple[ir.Value, Scalar]:
        """Limbs ``low`` to ``used`` times ``factor`` plus ``added``, and the new end.

        What is carried over is only written with ``writes``.
        """

        def one(at: Scalar, limbs: ir.Value, carry: ir.Value) -> list[ir.Value]:
            product = self._get(limbs, at) * factor + Scalar(carry, "uint64")
            return [self._put(limbs, at, product & _MASK), shift_right(product, _LIMB).value]

        limbs, carry = for_range(low, used, [limbs, added.value], one)
        rest = Scalar(carry, "uint64")
        last = constant(_LIMBS - 1, "index")
        limbs = self._put(limbs, select(writes, used, last), rest)
        return limbs, used + convert(rest != 0, "index")

    def _multiplied(self, limbs: ir.Value, used: Scalar, power: Scalar) -> tuple[ir.Value, Scalar]:
        """The long integer times 5^power."""
        yes, zero = constant(True, "bool"), constant(0, "index")

        def by(factor: int) -> Callable[..., list[ir.Value]]:
            def one(_: Scalar, limbs: ir.Value, used: ir.Value) -> list[ir.Value]:
                limbs, end = self._times(limbs, zero, Scalar(used, "index"), factor, constant(0, "uint64"), yes)
                return [limbs, end.value]

            return one

        state = for_range(0, power // _CHUNK, [limbs, used.value], by(5**_CHUNK))
        limbs, end = for_range(0, power % _CHUNK, state, by(5))
        return limbs, Scalar(end, "index")

    def _divided(self, limbs: ir.Value, used: Scalar, power: Scalar) -> tuple[ir.Value, Scalar, Scalar]:
        """The long integer divided by 5^power, and whether there is a remainder."""

        def by(divisor: int) -> Callable[..., list[ir.Value]]:
            def one(_: Scalar, limbs: ir.Value, used: ir.Value, rest: ir.Value) -> list[ir.Value]:
                end = Scalar(used, "index")

                def limb(i: Scalar, limbs: ir.Value, remainder: ir.Value) -> list[ir.Value]:
                    at = end - 1 - i
                    value = shift_left(Scalar(remainder, "uint64"), _LIMB) | self._get(limbs, at)
                    return [self._put(limbs, at, value // divisor), (value % divisor).value]

                limbs, remainder = for_range(0, end, [limbs, constant(0, "uint64").value], limb)
                top = self._get(limbs, maximum(end - 1, 0))
                return [
                    limbs,
                    (end - convert((end > 0) & (top == 0), "index")).value,
                    (Scalar(rest, "bool") | (Scalar(remainder, "uint64") != 0)).value,
                ]

            return one

        state = for_range(0, power // _CHUNK, [limbs, used.value, constant(False, "bool").value], by(5**_CHUNK))
        limbs, end, rest = for_range(0, power % _CHUNK, state, by(5))
        return limbs, Scalar(end, "index"), Scalar(rest, "bool")

    # --- rounding ---

    def _rounded(self, limbs: ir.Value, used: Scalar, rest: Scalar, exponent: Scalar) -> Scalar:
        """The bits of the float nearest to the long integer (and a bit more with ``rest``) times 2^exponent."""
        form = self._form
        value, below = self._leading(limbs, used)
        rest = rest | below[1]
        scale = (used - 2) * _LIMB - below[0] + exponent  # value * 2^scale
        shift = minimum(maximum(constant(form.least, "index") - scale, 63 - form.fraction), 65)
        q = scale + shift
        amount = convert(shift, "uint64")
        c = shift_right(value, amount)
        one = constant(1, "uint64")
        left = value & (shift_left(one, amount) - 1)
        half = shift_left(one, amount - 1)
        up = (left > half) | ((left == half) & (rest | ((c & 1) == 1)))
        bits = shift_left(convert(q - form.least, "uint64"), form.fraction) + c + convert(up, "uint64")
        infinity = constant(form.exponents << form.fraction, "uint64")
        # All that a shift by 65 leaves is less than half of the smallest float.
        bits = select(shift < 65, minimum(bits, infinity), 0)
        return select(q > form.largest, infinity, bits)

    def _leading(self, limbs: ir.Value, used: Scalar) -> tuple[Scalar, tuple[Scalar, Scalar]]:
        """The first 64 bits, the highest one set; how far they were moved up, and whether other bits follow."""
        zero = constant(0, "uint64")

        def limb(below_top: int) -> Scalar:
            at = used - 1 - below_top
            return select(at >= 0, self._get(limbs, maximum(at, 0)), zero)

        top = limb(0)
        zeros = constant(0, "uint64")
        for step in (16, 8, 4, 2, 1):
            small = shift_left(top, zeros) < 1 << (_LIMB - step)
            zeros = select(small, zeros + step, zeros)
        third = shift_left(limb(2), zeros)
        value = shift_left(shift_left(top, _LIMB) | limb(1), zeros) | shift_right(third, _LIMB)

        def one(at: Scalar, found: ir.Value) -> ir.Value:
            return (Scalar(found, "bool") | (self._get(limbs, at) != 0)).value

        follows = ((third & _MASK) != 0).value
        found = Scalar(for_range(0, maximum(used - 3, 0), [follows], one)[0], "bool")
        return value, (convert(zeros, "index"), found)
