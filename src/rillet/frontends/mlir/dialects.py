"""The dialects that upstream's own passes bring to ``linalg`` on tensors, as data.

Functions are inlined first, then each dialect that a module uses runs its pipeline, in the order of the list.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch_mlir import ir

_TOSA = (
    "tosa-optional-decompositions",
    "tosa-infer-shapes",
    "tosa-make-broadcastable",
    "tosa-to-linalg-named",
    "tosa-layerwise-constant-fold",
    "tosa-make-broadcastable",
    "tosa-to-linalg",
    "tosa-to-arith",
    "tosa-to-tensor",
    "tosa-to-scf",
)
_STABLEHLO = ("chlo-legalize-to-stablehlo", "stablehlo-legalize-to-linalg")


@dataclass(frozen=True)
class Conversion:
    """How the ops of ``dialects`` become linalg: ``passes`` run on each function."""

    dialects: frozenset[str]
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        return f"builtin.module(func.func({','.join(self.passes)}))"


_CONVERSIONS = (
    Conversion(frozenset({"tosa"}), _TOSA),
    Conversion(frozenset({"stablehlo"}), _STABLEHLO),
)


def conversions(used: Collection[str]) -> list[Conversion]:
    """The conversions that a module needs whose ops are of the dialects ``used``."""
    return [c for c in _CONVERSIONS if c.dialects.intersection(used)]


def load(context: ir.Context) -> None:
    """Make StableHLO's dialects and passes known; all others are upstream's own."""
    from torch_mlir._mlir_libs import _stablehlo

    _stablehlo.register_stablehlo_passes()
    with context:
        _stablehlo.register_dialect(context)
