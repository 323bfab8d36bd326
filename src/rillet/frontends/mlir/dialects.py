"""The dialects that upstream's own passes convert to ``linalg`` on tensors, as data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.frontends.mlir import tosa
from rillet.frontends.mlir.stablehlo.prepare import prepare


@dataclass(frozen=True)
class Conversion:
    """A pass pipeline that converts the ops of ``dialects`` to linalg, over a module whose functions are inlined."""

    dialects: frozenset[str]
    passes: tuple[str, ...]
    prepare: Callable[[ir.Module], None] | None = None  # before the passes run

    @property
    def pipeline(self) -> str:
        """The passes as one pipeline in MLIR's textual form."""
        return f"builtin.module({','.join(self.passes)})"


_TOSA = Conversion(
    frozenset({"tosa"}),
    (
        "func.func(tosa-to-scf)",  # first: the other conversions see the ops in its bodies, but not what holds them
        "func.func(tosa-optional-decompositions)",
        "func.func(tosa-infer-shapes)",
        "func.func(tosa-make-broadcastable)",
        "func.func(tosa-to-linalg-named)",
        "func.func(tosa-layerwise-constant-fold)",
        "func.func(tosa-make-broadcastable)",
        "func.func(tosa-to-linalg)",
        "func.func(tosa-to-arith{include-apply-rescale=true})",
        "func.func(tosa-to-tensor)",
    ),
    tosa.prepare,
)
_STABLEHLO = Conversion(
    frozenset({"stablehlo", "chlo"}),
    (
        "func.func(stablehlo-legalize-quant-to-math)",
        "func.func(chlo-legalize-to-stablehlo)",
        "func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false})",
        "func.func(stablehlo-canonicalize-dynamism)",
        "func.func(stablehlo-legalize-to-linalg)",
    ),
    prepare,
)
_COMPLEX = Conversion(
    frozenset({"complex", "stablehlo", "chlo"}),
    ("func.func(linalg-generalize-named-ops)", "convert-complex-to-standard"),
)
_NEEDS_CHLO = "builtin.module(func.func(stablehlo-legalize-quant-to-math))"  # nothing else loads the dialect chlo
_CONVERSIONS = (_TOSA, _STABLEHLO, _COMPLEX)


def conversions(used: Collection[str]) -> list[Conversion]:
    """The conversions for a module with ops of the dialects ``used``, in the order in which they run."""
    return [c for c in _CONVERSIONS if c.dialects.intersection(used)]


def load(context: ir.Context) -> None:
    """Make StableHLO's dialects and passes known; all others are upstream's own."""
    from torch_mlir._mlir_libs import _stablehlo

    _stablehlo.register_stablehlo_passes()
    with context, ir.Location.unknown():
        _stablehlo.register_dialect(context)
        PassManager.parse(_NEEDS_CHLO).run(ir.Module.create().operation)
