"""Measure Rillet and its peers in one run: ``python -m benchmarks.run``; ``--help`` lists what can be chosen.

For each model and thread count: compile time, load time and peak memory from fresh processes, then call times of all
engines in this process, in interleaved rounds on the same arrays, with outputs compared. Exit status 1 when Rillet
fails on a model or an engine's outputs disagree with the reference (the first engine of `REFERENCES` that ran).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cases, inputs, machine, report
from benchmarks.engines import ENGINES, PEERS, missing
from benchmarks.measure import in_fresh_process, interleaved
from models.compare import error_ratio
from rillet.cli.common import duration, positive

REFERENCES = ("ort", "openvino", "iree", "rillet")


@dataclass(frozen=True)
class Contender:
    """One row of a table: an engine, the file it runs, and its label."""

    label: str
    engine: str
    model: Path


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    engines = [*([] if options.without_rillet else ["rillet"]), *options.peers]
    notes = [note for note in (missing(ENGINES[name]) for name in engines) if note]
    engines = [name for name in engines if missing(ENGINES[name]) is None]
    facts = machine.describe(options.threads)
    rows: list[dict[str, Any]] = []
    if not options.json:
        print(report.header(facts, notes))
    for case in cases.load_cases(options.models, notes):
        contenders = [Contender(engine, engine, case.model) for engine in engines]
        for measured, outputs in measure_case(case, contenders, options.threads, options.seconds, options.rounds):
            _compare(measured, outputs)
            rows += measured
            if not options.json:
                print(report.table(measured), flush=True)
    result = {"machine": facts, "notes": notes, "rows": rows, "summary": report.summary(rows)}
    print(json.dumps(result, indent=1) if options.json else report.closing(rows))
    failed = any(row.get("error") and row["engine"] == "rillet" for row in rows)
    return 1 if failed or any(row.get("error_ratio", 0) > 1 for row in rows) else 0


def measure_case(
    case: cases.Case, contenders: Sequence[Contender], thread_counts: list[int], seconds: float, rounds: int
) -> Iterator[tuple[list[dict[str, Any]], dict[str, list[np.ndarray]]]]:
    """For each thread count one row (a flat dictionary) by contender, and the outputs of those that work by label.

    A row of one that failed holds ``error``; ``engine`` is the label.
    """
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        inputs.save(folder, case.inputs)
        compiled = {c.label: compile_facts(c.engine, c.model, folder) for c in contenders}
        for threads in thread_counts:
            rows = [
                {"model": case.name, "threads": threads, "engine": c.label}
                | compiled[c.label]
                | load_facts(c.engine, compiled[c.label], folder, threads)
                for c in contenders
            ]
            outputs = time_calls(rows, contenders, case.inputs, seconds, rounds)
            yield [{key: value for key, value in row.items() if key != "artifact"} for row in rows], outputs


def compile_facts(engine: str, model: Path, folder: Path) -> dict[str, Any]:
    """The engine's compile figures from a fresh process; for Rillet also those with its cache warm."""
    facts = in_fresh_process("compile", engine, model, folder)
    if "error" in facts:
        return facts
    peak = facts.pop("tree_peak_bytes")
    if "compile_s" in facts:
        facts["compile_peak_bytes"] = peak
    if engine == "rillet":
        facts["warm_compile_s"] = in_fresh_process("compile", engine, model, folder).get("compile_s")
    return facts


def load_facts(engine: str, compiled: dict[str, Any], folder: Path, threads: int) -> dict[str, Any]:
    """Load, first call and peak memory from a fresh process; nothing when compiling failed."""
    if "error" in compiled:
        return {}
    facts = in_fresh_process("load", engine, Path(compiled["artifact"]), folder, threads)
    facts.pop("tree_peak_bytes", None)
    return facts


def time_calls(
    rows: list[dict[str, Any]],
    contenders: Sequence[Contender],
    arrays: Mapping[str, np.ndarray],
    seconds: float,
    rounds: int,
) -> dict[str, list[np.ndarray]]:
    """Add call times to the rows of the contenders that work; their outputs by label."""
    calls, outputs = {}, {}
    for row, contender in zip(rows, contenders, strict=True):
        if "error" in row:
            continue
        label = contender.label
        try:
            calls[label], _ = ENGINES[contender.engine].load(Path(row["artifact"]), arrays, row["threads"])
            outputs[label] = [np.array(value) for value in calls[label]()]
        except Exception as error:  # an engine's failure is a result; the others are still measured
            calls.pop(label, None)
            row["error"] = f"{type(error).__name__}: {error}"[:300]
    times = interleaved(calls, seconds, rounds)
    for row in rows:
        if samples := times.get(row["engine"]):
            row |= {"min_s": min(samples), "median_s": statistics.median(samples), "calls": len(samples)}
    return outputs


def _compare(rows: list[dict[str, Any]], outputs: Mapping[str, list[np.ndarray]]) -> None:
    """Add the disagreement with the reference to the rows of the other engines that work."""
    reference = next((engine for engine in REFERENCES if engine in outputs), None)
    for row in rows:
        if row["engine"] in outputs and row["engine"] != reference and reference is not None:
            row["error_ratio"] = error_ratio(outputs[row["engine"]], outputs[reference])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure Rillet and its peers.")
    parser.add_argument("--models", nargs="+", default=list(cases.DEFAULT), metavar="NAME[:BATCH]")
    parser.add_argument("--threads", nargs="+", type=positive, default=[1, 2], metavar="N")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, help="those not installed are skipped")
    parser.add_argument("--without-rillet", action="store_true", help="measure the peers only")
    parser.add_argument("--seconds", type=duration, default=3.0, help="time for each engine, model and thread count")
    parser.add_argument("--rounds", type=positive, default=10, help="turns that each engine gets")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
