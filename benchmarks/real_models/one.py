"""One model in a process of its own (``python -m benchmarks.real_models.one NAME PATH SECONDS``): one JSON object."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import interleaved
from benchmarks.real_models.arrays import arrays_for, rules
from rillet.errors import RilletError, UnsupportedError
from rillet.verify.difference import difference

_ROUNDS = 8
_STEPS = 0.02


def measure(name: str, path: Path, seconds: float) -> dict[str, Any]:
    """The facts of one model: whether it compiles and agrees, how long that takes, and call times of both engines."""
    import rillet

    session = _session(path)
    feeds = arrays_for(name, session.get_inputs(), rules())
    facts: dict[str, Any] = {"name": name, "bytes": path.stat().st_size}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as cache:
        try:
            module = rillet.compile(path, threads=1, cache=cache)
        except UnsupportedError as error:
            return facts | {"refused": str(error)}
        except RilletError as error:
            return facts | {"failed": str(error)}
    facts["compile_s"] = time.perf_counter() - start
    arrays = [feeds[spec.name] for spec in module.inputs]
    got = module.run(dict(zip((spec.name for spec in module.inputs), arrays, strict=True)))
    facts["difference"], facts["note"] = _difference(path, session, feeds, got)
    calls: dict[str, Any] = {"rillet": lambda: module(*arrays), "ort": lambda: session.run(None, feeds)}
    for engine, samples in interleaved(calls, seconds, _ROUNDS).items():
        facts |= {f"{engine}_min_s": min(samples), f"{engine}_median_s": statistics.median(samples)}
    return facts


def _session(path: Path, optimized: bool = True) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _difference(path: Path, session: Any, feeds: Mapping[str, np.ndarray], got: Mapping[str, Any]) -> tuple[str, str]:
    """What is wrong with our outputs, or "", and with whom they agree where that is not ONNX Runtime as it is.

    ONNX Runtime's optimizations reorder sums and saturate those of 8-bit products; without them it still saturates
    some, which onnx's evaluator does not. In a quantized model one value that rounds the other way moves the output by
    a step: there the root of the mean square of the error may be ``_STEPS`` of that of the output.
    """
    names = [output.name for output in session.get_outputs()]
    apart = _apart(names, got, session.run(None, dict(feeds)))
    if not apart:
        return "", ""
    allowed = _STEPS if _is_quantized(path) else 0.0
    for note, run in _OTHERS.items():
        try:
            expected = run(path, feeds)
        except Exception:  # an oracle that does not know the model says nothing of it
            continue
        values = [expected[name] for name in names]
        if not _apart(names, got, values) or _largest_error(names, got, values) <= allowed:
            return "", note
    return apart, ""


def _unoptimized(path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = _session(path, optimized=False)
    return dict(zip((output.name for output in session.get_outputs()), session.run(None, dict(feeds)), strict=True))


def _evaluated(path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    import onnx

    from rillet.frontends.onnx.verification.oracles import run_reference

    return run_reference(onnx.load(path), feeds)


_OTHERS: dict[str, Callable[[Path, Mapping[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "agrees with ONNX Runtime without optimizations": _unoptimized,
    "agrees with onnx's evaluator": _evaluated,
}


def _apart(names: Sequence[str], got: Mapping[str, Any], expected: Sequence[Any]) -> str:
    for name, value in zip(names, expected, strict=True):
        one = difference(got[name], value)
        if not one.agrees:
            return f"{name}: {one}"
    return ""


def _largest_error(names: Sequence[str], got: Mapping[str, Any], expected: Sequence[Any]) -> float:
    """The largest of the outputs' relative errors, by the root of the mean square; infinite for another shape."""
    errors = [float("inf")] if any(got[n].shape != e.shape for n, e in zip(names, expected, strict=True)) else [0.0]
    for name, value in zip(names, expected, strict=True):
        a, b = got[name].astype(np.float64), value.astype(np.float64)
        if a.shape == b.shape and a.size:
            errors.append(float(np.sqrt(np.mean((a - b) ** 2)) / max(np.sqrt(np.mean(b**2)), 1e-12)))
    return max(errors)


def _is_quantized(path: Path) -> bool:
    import onnx

    ops = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    return any("Quantize" in op or "Integer" in op or "QLinear" in op for op in ops)


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    name, path, seconds = arguments
    np.seterr(all="ignore")
    print(json.dumps(measure(name, Path(path), float(seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
