"""An elementwise body as ``factor * x + offset``, with factor and offset known arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.ir.rewrite import defining
from rillet.ir.structured import Structured


@dataclass(frozen=True)
class Affine:
    """``factor * x + offset``; the arrays are float64 and broadcast over the operation's loops."""

    factor: np.ndarray
    offset: np.ndarray

    def after(self, first: Affine) -> Affine:
        """This function applied to the result of ``first``."""
        return Affine(self.factor * first.factor, self.factor * first.offset + self.offset)


_Known = np.ndarray | Affine


def affine_form(view: Structured, variable: int, known: Mapping[int, np.ndarray]) -> Affine | None:
    """The body of ``view`` as an affine function of input ``variable``; ``known`` has the other inputs' arrays, already
    broadcast over the loops. None when the body is anything else, or has a factor or an offset that is not finite."""
    values: dict[ir.Value, _Known] = {view.body.arguments[i]: np.asarray(a, np.float64) for i, a in known.items()}
    values[view.body.arguments[variable]] = Affine(np.float64(1.0), np.float64(0.0))  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        for op in view.body_ops():
            operands = [_value(v, values) for v in op.operands]
            if any(o is None for o in operands):
                return None
            result = _apply(op.name, [o for o in operands if o is not None])
            if result is None:
                return None
            values[op.results[0]] = result
    final = values.get(view.yielded()[0])
    if not isinstance(final, Affine):
        return None
    return final if np.all(np.isfinite(final.factor)) and np.all(np.isfinite(final.offset)) else None


def fits_f32(known: np.ndarray) -> bool:
    """Whether numbers stay finite and fully precise in f32."""
    size = np.abs(np.asarray(known, np.float64))
    info = np.finfo(np.float32)
    return bool(np.all((size == 0) | (size >= info.smallest_normal) & (size <= info.max)))


def _value(value: ir.Value, values: Mapping[ir.Value, _Known]) -> _Known | None:
    if value in values:
        return values[value]
    owner = defining(value)
    if owner is None or owner.name != "arith.constant" or not isinstance(owner.attributes["value"], ir.FloatAttr):
        return None
    return np.asarray(owner.attributes["value"].value, np.float64)


def _apply(name: str, operands: list[_Known]) -> _Known | None:
    """One scalar operation on known values and affine functions."""
    if name == "arith.negf":
        return _apply("arith.mulf", [operands[0], np.float64(-1.0)])  # type: ignore[list-item]
    if len(operands) != 2 or name not in ("arith.addf", "arith.subf", "arith.mulf", "arith.divf"):
        return None
    a, b = operands
    if name == "arith.addf":
        return _add(a, b)
    if name == "arith.subf":
        return _add(a, _scale(b, np.float64(-1.0)))  # type: ignore[arg-type]
    if isinstance(a, Affine) and isinstance(b, Affine):
        return None
    if name == "arith.mulf":
        return _scale(a, b) if not isinstance(b, Affine) else _scale(b, a)  # type: ignore[arg-type]
    return None if isinstance(b, Affine) or not np.all(b) else _scale(a, 1.0 / b)


def _add(a: _Known, b: _Known) -> _Known | None:
    if isinstance(a, Affine) and isinstance(b, Affine):
        return Affine(a.factor + b.factor, a.offset + b.offset)
    if isinstance(a, Affine):
        return Affine(a.factor, a.offset + b)
    return Affine(b.factor, b.offset + a) if isinstance(b, Affine) else a + b


def _scale(a: _Known, factor: np.ndarray) -> _Known:
    return Affine(a.factor * factor, a.offset * factor) if isinstance(a, Affine) else a * factor
