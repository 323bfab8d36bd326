"""Profiles: time, rates and share of the roof of each kernel, and a trace that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import CompileError, compiler_installation
from rillet.runtime import Module
from rillet.support.files import write_atomically

if TYPE_CHECKING:
    from rillet.analysis.roofs import Roofline

Event = tuple[str, int, int]  # kernel, begin, end in nanoseconds


@dataclass(frozen=True)
class Rates:
    """The rates that one dispatch reached; None where they are not known. ``of_roof`` needs a roofline."""

    gflops: float | None = None
    gbytes: float | None = None
    of_roof: float | None = None
    bound: str | None = None  # "compute" or "memory": the roof that ``of_roof`` is a share of


@dataclass(frozen=True, kw_only=True)
class KernelTime(Rates):
    """One kernel over the measured calls; rates are per dispatch at its fastest."""

    name: str
    sources: str
    dispatches: int
    microseconds: float  # of all its dispatches in one call, at their fastest
    share: float


def record(module: Module, inputs: Sequence[np.ndarray | None], calls: int) -> list[list[Event]]:
    """The events of each of ``calls`` calls of a module loaded with ``profile=True``; the first call does not count."""
    module(*inputs)
    module.take_profile()
    runs = []
    for _ in range(calls):
        module(*inputs)
        runs.append(module.take_profile())
    return runs


def measure_roofs(module: Module) -> tuple[Roofline | None, str]:
    """This machine's roofs for the module's kernels, and a line about them: what they are, or why there are none."""
    library = next(e for e in module.libraries if e["selected"])
    try:
        from rillet.analysis import roofs

        probe = roofs.Roofs(roofs.target_of(library["arch"], library["features"]))
    except (ImportError, CompileError) as error:
        reason = f"it takes the compiler: {compiler_installation()}" if isinstance(error, ImportError) else error
        return None, f"no share of the roof, which cannot be measured: {reason}"
    roofline = roofs.measure(probe, {entry["bytes"] for entry in module.entries})
    text = f"{roofline.peak / 1e9:.1f} GFLOP/s (multiply-adds of f32 in registers)"
    return roofline, f"roofs of one thread: {text}, and a copy of as many bytes as the kernel reads and writes"


def rates(entry: dict[str, Any], nanoseconds: float, roofline: Roofline | None) -> Rates:
    """The rates of one dispatch of the kernel that ``entry`` (one of ``Module.entries``) describes."""
    operations, size, time = 2 * entry["macs"], entry["bytes"], max(nanoseconds, 1)
    if not size:  # a module written without these facts
        return Rates()
    of_roof, bound = roofline.share(operations, size, time / 1e9) if roofline else (None, None)
    return Rates(operations / time, size / time, of_roof, bound)


def summarize(
    module: Module, runs: Sequence[Sequence[Event]], roofline: Roofline | None = None, *, with_rates: bool = True
) -> list[KernelTime]:
    """The kernels by time, longest first. Each dispatch counts with its fastest run."""
    positions = zip(*runs, strict=True)
    fastest = [(events[0][0], min(end - begin for _, begin, end in events)) for events in positions]
    total = sum(time for _, time in fastest) or 1
    kernels = []
    for entry in module.entries:
        times = [time for name, time in fastest if name == entry["name"]]
        if not times:
            continue
        kernels.append(
            KernelTime(
                name=entry["name"],
                sources=entry["sources"],
                dispatches=len(times),
                microseconds=sum(times) / 1e3,
                share=sum(times) / total,
                **(asdict(rates(entry, min(times), roofline)) if with_rates else {}),
            )
        )
    return sorted(kernels, key=lambda k: -k.microseconds)


def table(kernels: Sequence[KernelTime]) -> str:
    """The summary as text, with the sums of one call; columns that no kernel has a figure for are left out."""
    with_rates = any(k.gflops is not None for k in kernels)
    with_roof = any(k.of_roof is not None for k in kernels)
    titles = f" {'GFLOP/s':>8} {'GB/s':>7}" * with_rates + f" {'roof':>7}" * with_roof
    lines = [f"{'us':>10} {'share':>6} {'n':>4}{titles}  kernel  (nodes)"]
    for k in kernels:
        figures = f"{k.microseconds:>10.1f} {k.share:>6.1%} {k.dispatches:>4}"
        figures += f" {_figure(k.gflops, '.1f'):>8} {_figure(k.gbytes, '.1f'):>7}" if with_rates else ""
        figures += f" {_figure(k.of_roof, '.0%'):>5} {(k.bound or ' ')[0]}" if with_roof else ""
        lines.append(f"{figures}  {k.name}  ({k.sources})")
    microseconds, dispatches = sum(k.microseconds for k in kernels), sum(k.dispatches for k in kernels)
    total = f"{microseconds:>10.1f} {1:>6.1%} {dispatches:>4}{'':{len(titles)}}  total of a call in these kernels"
    lines.append(total)
    if with_roof:
        lines.append(
            "roof: share of the most there is, of c: computing (multiply-adds by definition; Winograd's convolutions "
            "do fewer, and may pass 100%), m: memory (a copy)"
        )
    return "\n".join(lines)


def _figure(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def write_trace(
    path: Path,
    module: Module,
    runs: Sequence[Sequence[Event]],
    roofline: Roofline | None = None,
    *,
    with_rates: bool = True,
) -> None:
    """Write the events in the Trace Event Format (JSON), which Perfetto and chrome://tracing open."""
    entries = {entry["name"]: entry for entry in module.entries}
    origin = runs[0][0][1] if runs and runs[0] else 0
    events: list[dict[str, Any]] = [
        {
            "name": name,
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": (begin - origin) / 1e3,
            "dur": (end - begin) / 1e3,
            "args": {"call": call, "nodes": entries[name]["sources"]}
            | (asdict(rates(entries[name], end - begin, roofline)) if with_rates else {}),
        }
        for call, run in enumerate(runs)
        for name, begin, end in run
    ]
    write_atomically(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode())
