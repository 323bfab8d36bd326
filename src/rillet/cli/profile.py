"""Profiles: time, arithmetic rate and memory rate of each kernel, and a trace that Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rillet.runtime import Module

Event = tuple[str, int, int]  # kernel, begin, end in nanoseconds


@dataclass
class KernelTime:
    """One kernel over the measured calls; rates are per dispatch at its fastest."""

    name: str
    sources: str
    dispatches: int
    microseconds: float  # of all its dispatches in one call, at their fastest
    share: float
    gflops: float
    gbytes: float


def record(module: Module, inputs: Sequence[np.ndarray], calls: int) -> list[list[Event]]:
    """The events of each of ``calls`` calls of a module loaded with ``profile=True``; the first call does not count."""
    module(*inputs)
    module.take_profile()
    runs = []
    for _ in range(calls):
        module(*inputs)
        runs.append(module.take_profile())
    return runs


def summarize(module: Module, runs: Sequence[Sequence[Event]]) -> list[KernelTime]:
    """The kernels by time, longest first. Each dispatch counts with its fastest run."""
    positions = zip(*runs, strict=True)
    fastest = [(events[0][0], min(end - begin for _, begin, end in events)) for events in positions]
    total = sum(time for _, time in fastest) or 1
    kernels = []
    for entry in module.entries:
        times = [time for name, time in fastest if name == entry["name"]]
        if not times:
            continue
        best = max(min(times), 1)
        kernels.append(
            KernelTime(
                name=entry["name"],
                sources=entry["sources"],
                dispatches=len(times),
                microseconds=sum(times) / 1e3,
                share=sum(times) / total,
                gflops=2 * entry["macs"] / best,
                gbytes=entry["bytes"] / best,
            )
        )
    return sorted(kernels, key=lambda k: -k.microseconds)


def table(kernels: Sequence[KernelTime]) -> str:
    """The summary as text."""
    lines = [f"{'us':>10} {'share':>6} {'n':>4} {'GFLOP/s':>8} {'GB/s':>7}  kernel  (nodes)"]
    for k in kernels:
        figures = f"{k.microseconds:>10.1f} {k.share:>6.1%} {k.dispatches:>4} {k.gflops:>8.1f} {k.gbytes:>7.1f}"
        lines.append(f"{figures}  {k.name}  ({k.sources})")
    return "\n".join(lines)


def write_trace(path: Path, module: Module, runs: Sequence[Sequence[Event]]) -> None:
    """Write the events in the Trace Event Format (JSON), which Perfetto and chrome://tracing open."""
    sources = {entry["name"]: entry["sources"] for entry in module.entries}
    origin = runs[0][0][1] if runs and runs[0] else 0
    events: list[dict[str, Any]] = [
        {
            "name": name,
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": (begin - origin) / 1e3,
            "dur": (end - begin) / 1e3,
            "args": {"call": call, "nodes": sources.get(name, "")},
        }
        for call, run in enumerate(runs)
        for name, begin, end in run
    ]
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))
