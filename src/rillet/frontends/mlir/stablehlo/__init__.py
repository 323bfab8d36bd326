"""StableHLO ops that upstream does not convert to linalg: rewritten before (``prepare``), or lowered after."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.building.builder import Builder
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.mlir.foreign import node_of
from rillet.frontends.mlir.stablehlo import control_flow, dimensions, fft, scatter, sorting
from rillet.ir import Program
from rillet.ir.structured import walk

_LOWERINGS: dict[str, Callable[[Builder, ir.Operation], None]] = {
    "stablehlo.while": control_flow.while_loop,
    "stablehlo.if": control_flow.branch,
    "stablehlo.case": control_flow.branch,
    "stablehlo.sort": sorting.sort,
    "stablehlo.scatter": scatter.scatter,
    "stablehlo.fft": fft.fft,
    "stablehlo.get_dimension_size": dimensions.get_dimension_size,
}


def lower(program: Program) -> None:
    """Lower the ops that the conversion to linalg has left; their bodies are converted already.

    Raises UnsupportedError for an op of these kinds that cannot be lowered.
    """
    main = program.main()
    refused: list[UnsupportedNode] = []
    for op in reversed(list(walk(main))):  # inner ops come before the ops that hold them
        if op.name not in _LOWERINGS:
            continue
        builder = Builder(program, main.regions[0].blocks[0].operations[0].operation)
        with ir.InsertionPoint(op), op.location:
            try:
                _LOWERINGS[op.name](builder, op)
            except UnsupportedFeature as error:
                refused.append(node_of(op, error.reason, error.advice))
    if refused:
        raise UnsupportedError(refused[::-1])
