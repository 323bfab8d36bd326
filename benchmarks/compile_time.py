"""Compile times of Rillet and its peers that compile: ``python -m benchmarks.compile_time``.

Every compile is a cold one in a process of its own, from the ONNX file to the artifact, imports included. The engines
take turns, and each counts with the smallest of its times: by the clock, and of the processors (the process and its
children), which a busy machine disturbs less. Exit status 1 when Rillet fails or takes more
processor time than a peer.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import cases, inputs, report
from benchmarks.engines import COMPILING_PEERS, ENGINES, missing
from benchmarks.machine import identify
from benchmarks.measure import in_fresh_process
from rillet.cli.common import positive

MODELS = tuple(name for name in cases.DEFAULT if name != cases.CALL_OVERHEAD and ":" not in name)
_FIGURES = {"compile_s": "wall", "compile_cpu_s": "CPU"}

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    notes = [note for note in (missing(ENGINES[name]) for name in options.peers) if note]
    engines = ["rillet", *(name for name in options.peers if missing(ENGINES[name]) is None)]
    facts = identify()
    if not options.json:
        print("\n".join([report.machine_line(facts), *notes, header(engines)]), flush=True)
    rows: list[Row] = []
    for case in cases.load_cases(options.models, notes):
        rows.append(measure_compiles(case, engines, options.rounds))
        if not options.json:
            print(line(rows[-1], engines), flush=True)
    if options.json:
        print(json.dumps({"machine": facts, "notes": notes, "rows": rows}, indent=1))
    return 1 if any(is_failure(row) for row in rows) else 0


def measure_compiles(case: cases.Case, engines: Sequence[str], rounds: int) -> Row:
    """For each engine the smallest times over the rounds, or its error, after which it is not tried again."""
    row: Row = {"model": case.name} | {engine: {} for engine in engines}
    for turn in range(rounds):
        first = turn % len(engines)
        for engine in (*engines[first:], *engines[:first]):
            if "error" in row[engine]:
                continue
            with tempfile.TemporaryDirectory(prefix="rillet-compile-") as folder:
                inputs.save(Path(folder), case.inputs)
                facts = in_fresh_process("compile", engine, case.model, Path(folder))
            if "error" in facts:
                row[engine] = {"error": facts["error"]}
                continue
            row[engine] = {key: min(facts[key], row[engine].get(key, facts[key])) for key in _FIGURES}
    return row


def is_failure(row: Row) -> bool:
    """Whether Rillet failed, or took longer than a peer by the processors' time."""
    ours = row["rillet"].get("compile_cpu_s")
    others = [facts["compile_cpu_s"] for facts in row.values() if isinstance(facts, dict) and "compile_cpu_s" in facts]
    return ours is None or ours > min(others)


def header(engines: Sequence[str]) -> str:
    """The titles of the table's columns: seconds, and those of the peers over Rillet's."""
    titles = "".join(f"{f'{engine}, {label}':>20}" for engine in engines for label in _FIGURES.values())
    return f"{'model':20}{titles}{'peer ÷ rillet':>20}"


def line(row: Row, engines: Sequence[str]) -> str:
    """One model's line."""
    cells, ratios, errors = "", [], []
    for engine in engines:
        facts = row[engine]
        cells += "".join(f"{f'{facts[key]:.2f} s' if key in facts else '-':>20}" for key in _FIGURES)
        if "error" in facts:
            errors.append(f"  {engine} failed: {facts['error']}")
        elif engine != "rillet" and "error" not in row["rillet"]:
            ratios.append(" ".join(f"{facts[key] / row['rillet'][key]:.2f}" for key in _FIGURES))
    return f"{row['model']:20}{cells}{', '.join(ratios) or '-':>20}{''.join(errors)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description="Measure compile times.")
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME")
    parser.add_argument("--peers", nargs="*", default=["iree"], choices=COMPILING_PEERS)
    parser.add_argument("--rounds", type=positive, default=3, help="processes for each engine and model")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
