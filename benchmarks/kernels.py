"""Measure single kernels against this machine's roofs: ``python -m benchmarks.kernels``; ``--help`` for the choices.

Every kernel is compiled from an ONNX model of that one operation, for each instruction set asked for, and runs on one
thread. Its roofs (`rillet.analysis.roofs`) are measured between its calls: the peak of multiply-adds in registers on
the same instruction set, and a copy that moves as many bytes as the operation must. All arrays begin at cache lines.
Outputs are compared with ONNX Runtime's. Exit status 1 when they disagree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.engines import ENGINES, Arrays, Call, missing
from benchmarks.kernel_cases import CASES, KernelCase, at_cache_line
from benchmarks.machine import identify
from benchmarks.measure import interleaved
from models.compare import error_ratio
from models.zoo import serialize
from rillet import targets
from rillet.analysis.roofs import Roofs
from rillet.cli.common import duration, positive
from rillet.errors import CompileError

_PEAK_ROUNDS = 200_000
_PEER = "ort"

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    cases = [c for c in CASES if not options.kernels or any(part in c.name for part in options.kernels)]
    if options.list:
        print("\n".join(c.name for c in cases))
        return 0
    if not cases:
        print(f"no kernel has {' or '.join(map(repr, options.kernels))} in its name; try --list", file=sys.stderr)
        return 2
    try:
        reasons = {name: unsupported(name) for name in options.target_cpu}
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    runnable = [name for name, reason in reasons.items() if reason is None]
    notes = [reason for reason in reasons.values() if reason is not None]
    if not runnable:
        print("\n".join([*notes, "no target is left to measure"]), file=sys.stderr)
        return 2
    peer = None if options.without_peer or missing(ENGINES[_PEER]) else _PEER
    facts = identify()
    if not options.json:
        print("\n".join([f"{report.machine_line(facts)}, one thread", *notes, _HEADER]))
    rows: list[Row] = []
    roofs = {name: Roofs(targets.get(name)) for name in runnable}
    for case in cases:
        measured = measure_kernel(case, roofs, peer, options.seconds, options.rounds)
        rows += measured
        if not options.json:
            print(table(measured), flush=True)
    if options.json:
        print(json.dumps({"machine": facts, "notes": notes, "rows": rows}, indent=1))
    return 1 if any(row.get("error_ratio", 0) > 1 for row in rows) else 0


def unsupported(name: str) -> str | None:
    """Why this machine cannot run code for the target, or None. Raises `CompileError` for an unknown name."""
    obstacle = targets.get(name).obstacle
    return f"{name}: skipped, {obstacle}" if obstacle else None


def measure_kernel(
    case: KernelCase, roofs: dict[str, Roofs], peer: str | None, seconds: float, rounds: int
) -> list[Row]:
    """One row for each target of ``roofs``, and one for the peer: times, rates, and shares of the roofs."""
    inputs = case.inputs()
    calls: dict[str, Call] = {}
    facts: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="rillet-kernel-") as folder:
        model = Path(folder) / "kernel.onnx"
        model.write_bytes(serialize(case.build()))
        for name in roofs:
            calls[name], facts[name] = _compiled(model, name, inputs)
        if peer is not None:
            calls[peer] = _peer(case, Path(folder), peer, inputs)
    outputs = {name: np.array(call()[0]) for name, call in calls.items()}
    size = case.traffic // 2
    arrays = at_cache_line(np.zeros(size, np.uint8)), at_cache_line(np.ones(size, np.uint8))
    times = interleaved(calls | _roof_calls(roofs, arrays), seconds, rounds)
    copy_gbs = case.traffic / min(times["copy"]) / 1e9
    rows = []
    for name, output in outputs.items():
        samples = times[name]
        best = min(samples)
        row: Row = {"kernel": case.name, "target": name, **facts.get(name, {})}
        row |= {"min_s": best, "median_s": statistics.median(samples), "calls": len(samples)}
        row |= {"gflops": case.work / best / 1e9, "gbs": case.traffic / best / 1e9, "copy_gbs": copy_gbs}
        if name in roofs:
            row["peak_gflops"] = roofs[name].multiply_add(1) * _PEAK_ROUNDS / min(times[_peak(name)]) / 1e9
            shares = {"compute": row["gflops"] / row["peak_gflops"], "memory": row["gbs"] / row["copy_gbs"]}
            row["bound"] = max(shares, key=shares.__getitem__)
            row["of_roof"] = shares[row["bound"]]
        if peer is not None and name != peer:
            row["error_ratio"] = error_ratio([output], [outputs[peer]])
        rows.append(row)
    return rows


def _roof_calls(roofs: dict[str, Roofs], arrays: tuple[np.ndarray, np.ndarray]) -> dict[str, Call]:
    def peak(target: Roofs) -> Call:
        return lambda: [np.array(target.multiply_add(_PEAK_ROUNDS))]

    calls: dict[str, Call] = {_peak(name): peak(target) for name, target in roofs.items()}
    copier = next(iter(roofs.values()))
    return calls | {"copy": lambda: [np.array(copier.copy(*arrays))]}


def _peak(target: str) -> str:
    return f"peak of {target}"


def _compiled(model: Path, target: str, inputs: Arrays) -> tuple[Call, dict[str, Any]]:
    import rillet

    module = rillet.compile(str(model), target=target, threads=1)
    assert isinstance(module, rillet.Module)
    arrays = [inputs[info.name] for info in module.inputs]
    stats = module.stats

    def call() -> list[np.ndarray]:
        result = module(*arrays)
        assert isinstance(result, np.ndarray)
        return [result]

    return call, {key: stats[key] for key in ("dispatch_count", "code_bytes")}


def _peer(case: KernelCase, folder: Path, name: str, inputs: Arrays) -> Call:
    """The peer's call; its output is in the layout of Rillet's."""
    if case.peer_build is None:
        call, _ = ENGINES[name].load(folder / "kernel.onnx", inputs, 1)
        return call
    model = folder / "peer.onnx"
    model.write_bytes(serialize(case.peer_build()))
    channels_first = {key: at_cache_line(np.moveaxis(array, -1, 1)) for key, array in inputs.items()}
    call, _ = ENGINES[name].load(model, channels_first, 1)
    return lambda: [np.moveaxis(array, 1, -1) for array in call()]


_HEADER = (
    f"{'kernel':36}{'code':11}{'min':>11}{'median':>11}{'GFLOP/s':>9}{'peak':>7}{'GB/s':>7}{'copy':>7}"
    f"{'of roof':>9}{'error':>7}"
)


def table(rows: Sequence[Row]) -> str:
    """One line a row. ``of roof``: of the peak (c) or of the copy bandwidth (m), whichever is the tighter bound."""
    lines = []
    for row in rows:
        peak = f"{row['peak_gflops']:.1f}" if "peak_gflops" in row else "-"
        share = f"{row['of_roof']:.1%} {row['bound'][:1]}" if "of_roof" in row else "-"
        error = f"{row['error_ratio']:.2f}" if "error_ratio" in row else "-"
        extra = f"  {row['dispatch_count']} dispatches" if row.get("dispatch_count", 1) > 1 else ""
        lines.append(
            f"{row['kernel']:36}{row['target']:11}{row['min_s'] * 1e6:>8.1f} us{row['median_s'] * 1e6:>8.1f} us"
            f"{row['gflops']:>9.1f}{peak:>7}{row['gbs']:>7.1f}{row['copy_gbs']:>7.1f}{share:>9}{error:>7}{extra}"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description="Measure single kernels.")
    parser.add_argument("--kernels", nargs="+", metavar="PART", help="only kernels with one of these in their names")
    parser.add_argument("--target-cpu", nargs="+", default=["host"], metavar="TARGET", help="see `rillet targets`")
    parser.add_argument("--without-peer", action="store_true", help="do not run ONNX Runtime beside")
    parser.add_argument("--seconds", type=duration, default=0.5, help="time for each kernel, instruction set and roof")
    parser.add_argument("--rounds", type=positive, default=5, help="turns that each gets")
    parser.add_argument("--list", action="store_true", help="print the kernels' names and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
