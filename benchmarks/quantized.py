"""Measure quantized models: ``python -m benchmarks.quantized``; ``--help`` lists what can be chosen.

Rillet and its peers on the same quantized file, and Rillet on the float model that it was made of (row ``f32``), in
interleaved rounds on the same arrays (`benchmarks.run`). ``error`` is ``max|a - b| / max|b|`` against the model as
onnx's reference evaluator computes it, without saturation between; in the row ``f32`` it is what quantization itself
costs. Where the model has operators that onnx does not define, ONNX Runtime without optimizations is the reference, and
a line says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

import models
from benchmarks import machine, report
from benchmarks.cases import Case
from benchmarks.engines import ENGINES, missing
from benchmarks.quantized_models import SCHEMES, path
from benchmarks.run import Contender, measure_case
from models.fetch import FetchError
from rillet.cli.common import duration, positive
from rillet.frontends.onnx.verification.oracles import OracleError, run_onnxruntime, run_reference

DEFAULT = (
    *(f"{name}:{scheme}" for name in ("ds_cnn", "resnet_8", "mobilenet_v2", "resnet_50") for scheme in ("s8", "u8")),
    "bert_384:dynamic",
)
PEERS = ("ort", "openvino")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status, 1 when Rillet fails on a model."""
    options = _parser().parse_args(arguments)
    notes = [note for note in (missing(ENGINES[name]) for name in options.peers) if note]
    peers = [name for name in options.peers if missing(ENGINES[name]) is None]
    facts = machine.describe(options.threads)
    rows: list[dict[str, Any]] = []
    if not options.json:
        print(report.header(facts, notes))
    for spec in options.models:
        name, _, scheme = spec.partition(":")
        try:
            case = Case(spec, path(name, scheme), models.inputs(name, seed=0))
        except (FetchError, ValueError) as error:
            notes.append(str(error))
            print(error, file=sys.stderr)
            continue
        expected, judge = _reference(case)
        contenders = [Contender(engine, engine, case.model) for engine in ("rillet", *peers)]
        contenders.append(Contender("f32", "rillet", models.path(name)))
        for measured, outputs in measure_case(case, contenders, options.threads, options.seconds, options.rounds):
            for row in measured:
                if row["engine"] in outputs:
                    row |= {"deviation": deviation(outputs[row["engine"]], expected), "reference": judge}
            rows += measured
            if not options.json:
                print(f"{report.table(measured)}\n  error: against {judge}", flush=True)
    result = {"machine": facts, "notes": notes, "rows": rows, "summary": report.summary(rows)}
    print(json.dumps(result, indent=1) if options.json else report.closing(rows))
    return 1 if any(row.get("error") and row["engine"] == "rillet" for row in rows) else 0


def _reference(case: Case) -> tuple[list[np.ndarray], str]:
    """The model's outputs in graph order, and what computed them."""
    model = onnx.load(case.model)
    try:
        results, judge = run_reference(model, case.inputs), "onnx's reference evaluator"
    except OracleError:
        results, judge = run_onnxruntime(model, case.inputs), "ONNX Runtime without optimizations (it may saturate)"
    return [results[output.name] for output in model.graph.output], judge


def deviation(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest ``max|a - b| / max|b|`` over the outputs; infinite where shapes differ."""
    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape:
            return float("inf")
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0)
        worst = max(worst, float(apart / max(np.abs(b.astype(np.float64)).max(initial=0.0), np.finfo(np.float64).tiny)))
    return worst


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantized", description="Measure quantized models.")
    schemes = ", ".join(SCHEMES)
    parser.add_argument("--models", nargs="+", default=list(DEFAULT), metavar="NAME:SCHEME", help=f"schemes: {schemes}")
    parser.add_argument("--threads", nargs="+", type=positive, default=[1, 2], metavar="N")
    parser.add_argument("--peers", nargs="*", default=["ort"], choices=PEERS, help="those not installed are skipped")
    parser.add_argument("--seconds", type=duration, default=2.0, help="time for each engine, model and thread count")
    parser.add_argument("--rounds", type=positive, default=10, help="turns that each engine gets")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
