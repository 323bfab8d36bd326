"""Transforms of a few points in registers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.emit.values import constant


class Complex(NamedTuple):
    """A complex number in two registers, scalars or vectors."""

    re: ir.Value
    im: ir.Value

    def __add__(self, other: Complex) -> Complex:  # type: ignore[override]
        return Complex(add(self.re, other.re), add(self.im, other.im))

    def __sub__(self, other: Complex) -> Complex:
        return Complex(sub(self.re, other.re), sub(self.im, other.im))

    def __mul__(self, other: Complex) -> Complex:  # type: ignore[override]
        return Complex(
            sub(mul(self.re, other.re), mul(self.im, other.im)), add(mul(self.re, other.im), mul(self.im, other.re))
        )

    def scaled(self, factor: ir.Value) -> Complex:
        """The product with a real number."""
        return Complex(mul(self.re, factor), mul(self.im, factor))

    @property
    def conjugate(self) -> Complex:
        """The number with its imaginary part negated."""
        return Complex(self.re, negated(self.im))

    @property
    def swapped(self) -> Complex:
        """The parts exchanged: the conjugate times i. A forward transform between two of them is an inverse one."""
        return Complex(self.im, self.re)

    def turned(self, root: complex) -> Complex:
        """The product with a root of unity that is known."""
        quarter = {1: self, -1j: Complex(self.im, negated(self.re)), -1: self.negated(), 1j: self.minus_im_re()}
        for known, result in quarter.items():
            if abs(root - known) < 1e-12:
                return result
        type_ = self.re.type
        if abs(abs(root.real) - abs(root.imag)) < 1e-12:
            both = add(self.re, self.im), sub(self.im, self.re)
            half = constant(math.sqrt(0.5), type_)
            # (1 - i), then the quarter turns that are left
            return Complex(mul(both[0], half), mul(both[1], half)).turned(root * (1 + 1j) * math.sqrt(0.5))
        return self * Complex(constant(root.real, type_), constant(root.imag, type_))

    def negated(self) -> Complex:
        """Both parts negated."""
        return Complex(negated(self.re), negated(self.im))

    def minus_im_re(self) -> Complex:
        """The product with i."""
        return Complex(negated(self.im), self.re)


def butterfly(points: Sequence[Complex]) -> list[Complex]:
    """The forward transform of the points, whose number's prime factors should be small."""
    count = len(points)
    if count == 1:
        return list(points)
    if count == 2:
        return [points[0] + points[1], points[0] - points[1]]
    first = 4 if count % 4 == 0 and count > 4 else next(n for n in range(2, count + 1) if count % n == 0)
    if first == count:
        return _odd(points)
    rest = count // first
    columns = [butterfly(points[n::rest]) for n in range(rest)]
    results: list[Complex | None] = [None] * count
    for k in range(first):
        turned = [columns[n][k].turned(root(n * k, count)) for n in range(rest)]
        results[k::first] = butterfly(turned)
    return [r for r in results if r is not None]


def root(number: int, count: int) -> complex:
    """``exp(-2 pi i number / count)``"""
    return cmath.exp(-2j * cmath.pi * (number % count) / count)


def _odd(points: Sequence[Complex]) -> list[Complex]:
    """An odd number of points by its definition, with the symmetry of cosines and sines."""
    count, first = len(points), points[0]
    type_ = first.re.type
    half = range(1, count // 2 + 1)
    sums = [points[n] + points[count - n] for n in half]
    differences = [points[n] - points[count - n] for n in half]
    total = first
    for s in sums:
        total = total + s
    results = {0: total}
    for k in half:
        even, odd = first, None
        for n, s, d in zip(half, sums, differences, strict=True):
            w = root(n * k, count)
            even = even + s.scaled(constant(w.real, type_))
            term = d.scaled(constant(-w.imag, type_))
            odd = term if odd is None else odd + term
        assert odd is not None
        results[k] = Complex(add(even.re, odd.im), sub(even.im, odd.re))
        results[count - k] = Complex(sub(even.re, odd.im), add(even.im, odd.re))
    return [results[k] for k in range(count)]


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    """``a + b``, which may be fused with a product."""
    return arith.AddFOp(a, b, fastmath=_fused()).result


def sub(a: ir.Value, b: ir.Value) -> ir.Value:
    """``a - b``, which may be fused with a product."""
    return arith.SubFOp(a, b, fastmath=_fused()).result


def mul(a: ir.Value, b: ir.Value) -> ir.Value:
    """``a * b``, which may be fused with a sum."""
    return arith.MulFOp(a, b, fastmath=_fused()).result


def negated(a: ir.Value) -> ir.Value:
    """``-a``"""
    return arith.NegFOp(a).result


def _fused() -> ir.Attribute:
    return ir.Attribute.parse("#arith.fastmath<contract>")
