"""Optimization of the tensor form: folding, layouts, cleanup (docs/reference/tensor-form.md)."""

from __future__ import annotations

from rillet.ir.passes import Pass
from rillet.optimize import assertions, canonicalize
from rillet.optimize.contractions import gathers_as_windows, split_contractions, transposed_convolutions
from rillet.optimize.folding import flush_denormals, fold_constants, fold_elementwise, fold_scale
from rillet.optimize.form import check
from rillet.optimize.layouts import absorb_transposes, channels_last, compose_moves, factor_reshapes, sink
from rillet.optimize.quantized import (
    block_weights,
    computed_zero_points,
    integer_contractions,
    merge_scales,
    sink_dequantizations,
)


def passes() -> list[Pass]:
    """The passes of this stage, in order."""
    return [
        Pass("assertions", "optimize", assertions.run),  # first: later passes rely on them
        Pass("canonicalize", "optimize", canonicalize.run),
        Pass("fold-constants", "optimize", fold_constants.run, fold_constants.Options()),
        Pass("gathers-as-windows", "optimize", gathers_as_windows.run),
        Pass("sink-dequantizations", "optimize", sink_dequantizations.run),
        Pass("fold-moved-constants", "optimize", fold_constants.run, fold_constants.Options()),
        Pass("computed-zero-points", "optimize", computed_zero_points.run),
        Pass("integer-contractions", "optimize", integer_contractions.run),
        Pass("block-weights", "optimize", block_weights.run),
        Pass(
            "fold-elementwise", "optimize", fold_elementwise.run, fold_elementwise.Options()
        ),  # what no contraction took
        Pass("fold-scale", "optimize", fold_scale.run),
        Pass("split-contractions", "optimize", split_contractions.run, split_contractions.Options()),
        Pass("factor-reshapes", "optimize", factor_reshapes.run),
        Pass("channels-last", "optimize", channels_last.run),
        Pass("transposed-convolutions", "optimize", transposed_convolutions.run, transposed_convolutions.Options()),
        Pass("sink", "optimize", sink.run, sink.Options()),
        Pass("absorb-transposes", "optimize", absorb_transposes.run),
        Pass("compose-moves", "optimize", compose_moves.run),
        Pass("fold-constants-again", "optimize", fold_constants.run, fold_constants.Options()),
        Pass("fold-scale-again", "optimize", fold_scale.run),
        Pass("merge-scales", "optimize", merge_scales.run, merge_scales.Options()),
        Pass("flush-denormals", "optimize", flush_denormals.run),  # what no scale brings back to size
        Pass("cleanup", "optimize", canonicalize.run),
    ]


__all__ = ["check", "passes"]
