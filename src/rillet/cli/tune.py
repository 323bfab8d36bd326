"""``rillet tune``: measure alternatives to the cost model's choices on this machine and record what beats them."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.cli.common import (
    add_compiling,
    add_inputs,
    add_shapes,
    counted,
    model_path,
    parse_shapes,
    parse_sizes,
    print_json,
    read_arrays,
    thread_number,
)
from rillet.errors import CompileError, SaveError
from rillet.runtime.sample_inputs import named_sizes, sample_inputs, sized
from rillet.support.files import check_file, path_text

if TYPE_CHECKING:
    from rillet.codegen.knobs import Knobs
    from rillet.runtime import Module
    from rillet.tuning.search import Ranking, Result, Status

_LINE_EVERY_SECONDS = 10.0  # where nobody watches a terminal


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("tune", help="search for faster kernels by measuring on this machine")
    parser.add_argument("model", help="the model to tune (.onnx, .mlir)")
    parser.add_argument("--time-budget", default="60s", metavar="TIME", help="e.g. 90s, 5m, 1h (default: 60s)")
    parser.add_argument("--target", default="host", help="target name; this machine must run it (default: host)")
    add_shapes(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", metavar="RECORD", help="the record to add to (default: the one compile uses)")
    parser.add_argument(
        "--threads", type=thread_number, help="threads of the whole-model times reported (default: one a core)"
    )
    add_compiling(parser)
    parser.add_argument("--report", action="store_true", help="print how the cost model's choices compare, by kernel")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Search within ``--time-budget``, add what was found to the record, and print it. Returns the exit status.

    Raises CompileError for a target whose code this machine cannot measure.
    """
    from rillet.driver.lowering import lower
    from rillet.driver.options import cache_directory
    from rillet.driver.targets import resolve_targets
    from rillet.frontends.registry import open_model
    from rillet.runtime.module import thread_count
    from rillet.tuning import Record, default_path
    from rillet.tuning.search import Search

    seconds = parse_duration(options.time_budget)
    (target,) = resolve_targets(options.target)
    if target.obstacle:
        raise CompileError(f"nothing can be measured for target {target.name}: {target.obstacle}")
    threads = thread_count(options.threads)
    path = default_path() if options.output is None else Path(path_text(options.output, "cannot write", SaveError))
    check_file(path, makes_folder=True)
    known = Record.load(path) if path.exists() else Record()
    shapes, dims = parse_shapes(options.shape), parse_sizes("--dim", options.dim)
    image, kernel_texts = lower(open_model(model_path(options.model), shapes, dims), target)
    with (
        Search(
            image,
            kernel_texts,
            target,
            lambda module: _inputs(module, options),
            known=known,
            cache=cache_directory(not options.no_cache),
            jobs=options.jobs,
            threads=threads,
        ) as search,
        _Display() as display,
    ):
        result = search.run(seconds, display.show)
    # Entries that another search has added in the meantime stay.
    latest = Record.load(path) if path.exists() else Record()
    latest.merged(result.record).save(path)
    if options.json:
        print_json(_facts(result, path))
        return 0
    if options.report:
        print(report(result.rankings))
    print(_text(result, path))
    return 0


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m`` or ``1h``. Raises ``CompileError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or float(match[1]) <= 0:
        raise CompileError(f"--time-budget {text}: expected a time such as 90s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _inputs(module: Module, options: argparse.Namespace) -> list[np.ndarray | None]:
    """The arrays to measure with: those given, else random ones, with dynamic dimensions as ``--size`` says. None
    stands for a default.
    """
    sizes, given = parse_sizes("--size", options.size), read_arrays(options.input)
    told = {**named_sizes(module.inputs, given), **sizes}
    for spec in module.inputs:
        open_ = [dim for dim in sized(spec, told).shape if isinstance(dim, str) or dim < 0]
        if open_ and spec.name not in given:
            how = f"--size {open_[0]}=128 or " if isinstance(open_[0], str) else ""
            raise CompileError(
                f"input '{spec.name}' has a dynamic dimension, and times depend on it: say what to measure at, "
                f"with {how}--input {spec.name}=FILE.npy"
            )
    feeds = sample_inputs(module.inputs, given, sizes, options.seed)
    return [feeds.get(spec.name) for spec in module.inputs]


class _Display:
    """Shows how far the search is: one line rewritten on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> _Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live and self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)

    def show(self, status: Status) -> None:
        now = time.monotonic()
        if not self._live and not status.confirming and now - self._last < _LINE_EVERY_SECONDS:
            return
        self._last = now
        rest = "measuring it once more" if status.confirming else f"{status.seconds_left:.0f} s left"
        line = (
            f"kernel {status.visited} of {status.kernels}, {counted(status.variants, 'variant')} measured, "
            f"best so far {status.gain:.1%} faster, {rest}"
        )
        if self._live:
            line = line[: shutil.get_terminal_size().columns - 1]  # a longer one could not be rewritten
        self._width = max(self._width, len(line))
        end = "" if self._live else "\n"
        print(f"\r{line:{self._width}}" if self._live else line, end=end, file=sys.stderr, flush=True)


def _text(result: Result, path: Path) -> str:
    lines = ["interrupted; what was found is kept"] if result.interrupted else []
    lines += [
        f"{name}: a variant computes something else and was left out; please report this" for name in result.wrong
    ]
    better = [entry for entry in result.record.entries.values() if entry.knobs.given()]
    for entry in sorted(better, key=lambda e: e.tuned_us - e.model_us):
        problem = " ".join(f"{name}={value}" for name, value in entry.problem.items())
        lines.append(
            f"{entry.model_us:10.1f} us -> {entry.tuned_us:10.1f} us  {entry.strategy} {problem}: {_words(entry.knobs)}"
        )
    kernels = len(result.record.entries)
    measured = f"{counted(result.variants, 'variant')} of {counted(kernels, 'kernel')} measured"
    lines.append(f"{measured}, {counted(result.improved, 'kernel')} improved")
    lines.append(
        f"model: {result.default_s * 1e3:.3f} ms by the cost model, {result.tuned_s * 1e3:.3f} ms tuned "
        f"({_compared(result.default_s, result.tuned_s)}) on {counted(result.threads, 'thread')}"
    )
    lines.append(f"record: {path}")
    return "\n".join(lines)


def _compared(before: float, after: float) -> str:
    """How the speed of ``after`` seconds compares with that of ``before``."""
    gain = round(before / after - 1, 3)
    return f"{abs(gain):.1%} {'faster' if gain > 0 else 'slower'}" if gain else "as fast"


def report(rankings: Sequence[Ranking]) -> str:
    """A table of the kernels that were varied, those that take longest first, and a line that sums them up."""
    lines = [f"{'share':>6} {'variants':>8} {'faster':>6} {'model/best':>10} {'ordered':>7}  kernel"]
    for r in rankings:
        ordered = "" if r.ordered is None else f"{r.ordered:.0%}"
        figures = f"{r.share:>6.1%} {r.variants:>8} {r.faster:>6} {r.model_by_best:>10.3f} {ordered:>7}"
        lines.append(f"{figures}  {r.kernel} ({r.strategy})")
    if rankings:
        share = sum(r.share for r in rankings)
        by_time = share / sum(r.share / r.model_by_best for r in rankings)
        mean = statistics.geometric_mean(r.model_by_best for r in rankings)
        worst = max(r.model_by_best for r in rankings)
        lines.append(f"model/best: {by_time:.3f} by time, {mean:.3f} geometric mean of kernels, {worst:.3f} at worst")
    return "\n".join(lines)


def _words(knobs: Knobs) -> str:
    """The choices in a line."""
    whole = dataclasses.replace(knobs, stages=()).given()
    words = [f"{name}={value}" for name, value in whole.items()]
    return " ".join([*words, *(f"stage {n} ({_words(s)})" for n, s in enumerate(knobs.stages) if s.given())])


def _facts(result: Result, path: Path) -> dict[str, Any]:
    return {
        "record": str(path),
        "variants": result.variants,
        "kernels": len(result.record.entries),
        "improved": result.improved,
        "model_ms": result.default_s * 1e3,
        "tuned_ms": result.tuned_s * 1e3,
        "threads": result.threads,
        "interrupted": result.interrupted,
        "wrong": list(result.wrong),
        "rankings": [dataclasses.asdict(ranking) for ranking in result.rankings],
    }
