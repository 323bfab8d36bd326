"""The two numeric oracles: ONNX Runtime (optional) and onnx's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import RilletError

if TYPE_CHECKING:
    import onnx
    from onnx.reference import ReferenceEvaluator

Feeds = Mapping[str, np.ndarray]

_COMPLETE_OPSET = 21  # from which on onnx evaluates every operator


class OracleError(RilletError):
    """An oracle is missing or cannot run the model."""


def run_onnxruntime(model: onnx.ModelProto, feeds: Feeds, outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """The model's outputs by name (those named in ``outputs``, else all) from ONNX Runtime, unoptimized, one thread.

    Raises OracleError when ONNX Runtime is not installed or refuses the model or the inputs.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise OracleError(
            "ONNX Runtime is not installed; 'pip install onnxruntime', or verify with the reference evaluator only"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal: errors come as exceptions, warnings are about graphs that we made
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    names = list(outputs) if outputs is not None else [o.name for o in model.graph.output]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = {i.name for i in session.get_inputs()}
        results = session.run(names, {n: a for n, a in feeds.items() if n in wanted})
    except Exception as error:  # ONNX Runtime has an exception class for each kind of failure, without a common base
        raise OracleError(f"ONNX Runtime: {_first_line(error)}") from error
    return dict(zip(names, results, strict=True))


def run_reference(model: onnx.ModelProto, feeds: Feeds, outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """The model's outputs by name (those named in ``outputs``, else all) from onnx's reference evaluator.

    Raises OracleError when it cannot run the model.
    """
    names = list(outputs) if outputs is not None else [o.name for o in model.graph.output]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = _evaluator(model).run(names, dict(feeds))
    except Exception as error:  # the evaluator raises whatever numpy and its op implementations do
        raise OracleError(f"reference evaluator: {_first_line(error)}") from error
    return dict(zip(names, results, strict=True))


def _evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    """onnx has no evaluation of some operators (quantization) before the opset that gave them their present form."""
    from onnx import version_converter
    from onnx.reference import ReferenceEvaluator

    try:
        return ReferenceEvaluator(model)
    except RuntimeError as error:
        opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), _COMPLETE_OPSET)
        if opset >= _COMPLETE_OPSET or "No implementation" not in str(error):
            raise
        return ReferenceEvaluator(version_converter.convert_version(model, _COMPLETE_OPSET))


ORACLES = {"onnxruntime": run_onnxruntime, "reference": run_reference}


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
