"""``rillet bench``: time a model's calls on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rillet.cli import profile
from rillet.cli.common import (
    add_inputs,
    add_source,
    duration,
    has_dynamic_sizes,
    open_module,
    print_json,
    read_inputs,
)
from rillet.errors import RunError
from rillet.runtime import Module, load
from rillet.support.files import check_file

_NO_RATES = "no rates: some sizes are known at calls only; compile with --dim NAME=128 for each of them"


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("bench", help="time a model's calls")
    add_source(parser)
    add_inputs(parser)
    parser.add_argument("--seconds", type=duration, default=2.0, help="how long to measure")
    parser.add_argument("--profile", action="store_true", help="where the time goes, kernel by kernel, on one thread")
    parser.add_argument("--trace", metavar="FILE", help="write a trace that Perfetto opens; goes with --profile")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Time calls and print the fastest and the median, or with ``--profile`` the kernels. Returns the exit status.

    Raises RunError for options that do not go together.
    """
    if options.trace is not None and not options.profile:
        raise RunError("--trace writes what --profile measures: give both")
    if options.trace is not None:
        check_file(options.trace)
    if options.profile and options.threads not in (None, 1):
        raise RunError(
            "--profile times kernels one after the other on one thread, so that their times add up to a call's: "
            f"leave out --threads {options.threads}"
        )
    module = open_module(options)
    feeds = read_inputs(module, options)
    inputs = [feeds.get(spec.name) for spec in module.inputs]  # None: the input's default
    if not options.json:
        print("".join(f"{line}\n" for line in assumed(module, feeds, options)), end="")
    if options.profile:
        return show_profile(module, inputs, options)
    module(*inputs)
    times = measure(lambda: module(*inputs), options.seconds)
    macs = None if has_dynamic_sizes(module.inputs, module.stats) else module.stats.get("macs", 0)
    facts = {
        "calls": len(times),
        "min_us": min(times) * 1e6,
        "median_us": statistics.median(times) * 1e6,
        "gmacs_per_second": None if macs is None else macs / min(times) / 1e9,
        "inputs": {name: list(array.shape) for name, array in feeds.items()},
        "stats": module.stats,
    }
    if options.json:
        print_json(facts)
        return 0
    print(f"{facts['calls']} calls: min {facts['min_us']:.1f} us, median {facts['median_us']:.1f} us")
    if macs:
        print(f"{facts['gmacs_per_second']:.1f} GMAC/s")
    return 0


def assumed(module: Module, feeds: Mapping[str, np.ndarray], options: argparse.Namespace) -> list[str]:
    """A line for each input that is not given and has dynamic dimensions whose size no option gives."""
    given = {text.partition("=")[0] for text in options.input}
    told = {text.partition("=")[0] for text in options.size}
    told |= {d for spec in module.inputs if spec.name in given for d in spec.shape if isinstance(d, str)}
    lines = []
    for spec in module.inputs:
        open_ = [d for d in spec.shape if d not in told and (isinstance(d, str) or d < 0)]
        if spec.name not in given and open_:
            how = [f"--size {d}=..." for d in dict.fromkeys(open_) if d != -1]
            lines.append(
                f"input '{spec.name}' {[*spec.shape]}: measured at {[*feeds[spec.name].shape]}; times of other sizes: "
                f"{' '.join([*how, 'or' if how else '', f'--input {spec.name}=FILE.npy']).strip()}"
            )
    return lines


def show_profile(module: Module, inputs: Sequence[np.ndarray | None], options: argparse.Namespace) -> int:
    """Profile a module and print its kernels, longest first."""
    watched = load(module.to_bytes(), threads=1, profile=True)
    runs = profile.record(watched, inputs, calls=10)
    known = not has_dynamic_sizes(watched.inputs, watched.stats)
    roofline, note = profile.measure_roofs(watched) if known else (None, _NO_RATES)
    kernels = profile.summarize(watched, runs, roofline, with_rates=known)
    if options.trace is not None:
        profile.write_trace(Path(options.trace), watched, runs, roofline, with_rates=known)
    if options.json:
        print_json([dataclasses.asdict(kernel) for kernel in kernels])
        return 0
    print(note)
    print(profile.table(kernels))
    return 0


def measure(call: Any, seconds: float) -> list[float]:
    """Seconds of each call, repeated for about ``seconds`` (at least five calls)."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times
