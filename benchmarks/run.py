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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cases, inputs, machine, report
from benchmarks.engines import ENGINES, PEERS, missing
from benchmarks.measure import in_fresh_process, interleaved
from models.compare import error_ratio
from rillet.cli.common import duration, positive

REFERENCES = ("ort", "openvino", "iree", "rillet")


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
        for measured in measure_case(case, engines, options.threads, options.seconds, options.rounds):
            rows += measured
            if not options.json:
                print(report.table(measured), flush=True)
    result = {"machine": facts, "notes": notes, "rows": rows, "summary": report.summary(rows)}
    print(json.dumps(result, indent=1) if options.json else report.closing(rows))
    failed = any(row.get("error") and row["engine"] == "rillet" for row in rows)
    return 1 if failed or any(row.get("error_ratio", 0) > 1 for row in rows) else 0


def measure_case(
    case: cases.Case, engines: list[str], thread_counts: list[int], seconds: float, rounds: int
) -> Iterator[list[dict[str, Any]]]:
    """For each thread count one row (a flat dictionary) by engine; a row of one that failed holds ``error``."""
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder = Path(name)
        inputs.save(folder, case.inputs)
        compiled = {engine: compile_facts(engine, case.model, folder) for engine in engines}
        for threads in thread_counts:
            rows = [
                {"model": case.name, "threads": threads, "engine": engine}
                | compiled[engine]
                | load_facts(engine, compiled[engine], folder, threads)
                for engine in engines
            ]
            time_calls(rows, case, seconds, rounds)
            yield [{key: value for key, value in row.items() if key != "artifact"} for row in rows]


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


def time_calls(rows: list[dict[str, Any]], case: cases.Case, seconds: float, rounds: int) -> None:
    """Add call times and the disagreement with the reference to the rows of the engines that work."""
    calls, outputs = {}, {}
    for row in rows:
        if "error" in row:
            continue
        engine = row["engine"]
        try:
            calls[engine], _ = ENGINES[engine].load(Path(row["artifact"]), case.inputs, row["threads"])
            outputs[engine] = [np.array(value) for value in calls[engine]()]
        except Exception as error:  # an engine's failure is a result; the others are still measured
            calls.pop(engine, None)
            row["error"] = f"{type(error).__name__}: {error}"[:300]
    reference = next((engine for engine in REFERENCES if engine in outputs), None)
    times = interleaved(calls, seconds, rounds)
    for row in rows:
        engine = row["engine"]
        if engine not in calls:
            continue
        samples = times[engine]
        row |= {"min_s": min(samples), "median_s": statistics.median(samples), "calls": len(samples)}
        if engine != reference:
            row["error_ratio"] = error_ratio(outputs[engine], outputs[reference])


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
