"""The process that the oracles run in."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.support import worker_process

if TYPE_CHECKING:
    import onnx
    from onnx.reference import ReferenceEvaluator

_PR_SET_PDEATHSIG = 1
_COMPLETE_OPSET = 21  # from which on onnx evaluates every operator


def answer(oracle: str, model: bytes, feeds: dict[str, np.ndarray], outputs: list[str]) -> list[Any] | str:
    """The values of ``outputs``, or why there are none."""
    try:
        return _RUN[oracle](model, feeds, outputs)
    except Exception as error:  # they raise what they please: ONNX Runtime's have no common base
        return _first_line(error)


def run_onnxruntime(model: bytes, feeds: dict[str, np.ndarray], outputs: list[str]) -> list[Any]:
    """The values of ONNX Runtime, unoptimized and on one thread."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # it would leave a file about its session in the temporary folder
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal: errors come as exceptions, warnings are about graphs that we made
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    return session.run(outputs, {n: a for n, a in feeds.items() if n in wanted})


def run_reference(model: bytes, feeds: dict[str, np.ndarray], outputs: list[str]) -> list[Any]:
    """The values of onnx's reference evaluator."""
    import onnx

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _evaluator(onnx.load_model_from_string(model)).run(outputs, feeds)


_RUN = {"ONNX Runtime": run_onnxruntime, "reference evaluator": run_reference}


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


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def _die_first() -> None:
    """Make the system end this process before its parent when memory runs out, and with its parent in any case."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(OSError, AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    _die_first()
    worker_process.serve(answer)
