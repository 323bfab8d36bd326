"""Measure what unknown sizes cost: ``python -m benchmarks.dynamic``; ``--help`` for the choices.

Each layer is compiled twice from one model, with sizes that only run time tells and with the same sizes pinned, and
both run interleaved on one thread, beside ONNX Runtime. ``pinned`` is the minimum of the pinned layer's calls over the
minimum of the other's: 1 where unknown sizes cost nothing. Outputs are compared with ONNX Runtime's. Exit status 1 when
they disagree.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.dynamic_cases import CASES, DynamicCase
from benchmarks.engines import ENGINES, Call, missing
from benchmarks.machine import identify
from benchmarks.measure import interleaved
from models.compare import error_ratio
from models.zoo import serialize
from rillet.cli.common import duration, positive

Row = dict[str, Any]
_PEER = "ort"
_HEADER = f"{'layer':28}{'pinned':>12}{'dynamic':>12}{_PEER:>12}{'pinned/dyn':>12}{'ort/dyn':>9}{'error':>7}"


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    cases = [c for c in CASES if not options.layers or any(part in c.name for part in options.layers)]
    if options.list:
        print("\n".join(c.name for c in cases))
        return 0
    if not cases:
        print(f"no layer has {' or '.join(map(repr, options.layers))} in its name; try --list", file=sys.stderr)
        return 2
    peer = None if options.without_peer or missing(ENGINES[_PEER]) else _PEER
    facts = identify()
    if not options.json:
        print("\n".join([f"{report.machine_line(facts)}, one thread", _HEADER]))
    rows: list[Row] = []
    for case in cases:
        rows.append(measure_layer(case, peer, options.seconds, options.rounds))
        if not options.json:
            print(line(rows[-1]), flush=True)
    if options.json:
        print(json.dumps({"machine": facts, "rows": rows}, indent=1))
    else:
        print(f"geometric mean of pinned/dyn: {geometric_mean([row['pinned'] / row['dynamic'] for row in rows]):.3f}")
    return 1 if any(row.get("error_ratio", 0) > 1 for row in rows) else 0


def measure_layer(case: DynamicCase, peer: str | None, seconds: float, rounds: int) -> Row:
    """Minimum seconds of the layer by how it is compiled, and the peer's."""
    x = case.input()
    with tempfile.TemporaryDirectory(prefix="rillet-layer-") as folder:
        model = Path(folder) / "layer.onnx"
        model.write_bytes(serialize(case.build()))
        calls = {"pinned": _compiled(model, case.sizes, x), "dynamic": _compiled(model, {}, x)}
        if peer is not None:
            calls[peer], _ = ENGINES[peer].load(model, {"x": x}, 1)
        outputs = {name: np.array(call()[0]) for name, call in calls.items()}
        times = interleaved(calls, seconds, rounds)
    row: Row = {"layer": case.name} | {name: min(samples) for name, samples in times.items()}
    if peer is not None:
        row["error_ratio"] = max(error_ratio([outputs[n]], [outputs[peer]]) for n in ("pinned", "dynamic"))
    return row


def _compiled(model: Path, sizes: dict[str, int], x: np.ndarray) -> Call:
    import rillet

    module = rillet.compile(str(model), dims=sizes, threads=1)
    assert isinstance(module, rillet.Module)

    def call() -> list[np.ndarray]:
        result = module(x)
        assert isinstance(result, np.ndarray)
        return [result]

    return call


def line(row: Row) -> str:
    """The row of the table."""
    cells = [f"{row['pinned'] * 1e6:>9.1f} us", f"{row['dynamic'] * 1e6:>9.1f} us"]
    cells.append(f"{row[_PEER] * 1e6:>9.1f} us" if _PEER in row else f"{'-':>12}")
    cells.append(f"{row['pinned'] / row['dynamic']:>12.2f}")
    cells.append(f"{row[_PEER] / row['dynamic']:>9.2f}" if _PEER in row else f"{'-':>9}")
    cells.append(f"{row['error_ratio']:>7.2f}" if "error_ratio" in row else f"{'-':>7}")
    return f"{row['layer']:28}" + "".join(cells)


def geometric_mean(values: list[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic", description="Measure unknown sizes.")
    parser.add_argument("--layers", nargs="+", metavar="PART", help="only layers with one of these in their names")
    parser.add_argument("--without-peer", action="store_true", help="do not run ONNX Runtime beside")
    parser.add_argument("--seconds", type=duration, default=0.5, help="time for each layer and way to compile it")
    parser.add_argument("--rounds", type=positive, default=5, help="turns that each gets")
    parser.add_argument("--list", action="store_true", help="print the layers' names and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
