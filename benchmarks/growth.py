"""Compile time and memory of graphs of many nodes: ``python -m benchmarks.growth``.

Each compile is a cold one in a process of its own, without worker processes. Exit status 1 when a graph takes more
processor time a node, or more memory, than the bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.growing_graphs import GRAPHS
from rillet.cli.common import positive

_MOST_MS, _MOST_MB = 5.0, 1000.0


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.one:
        print(json.dumps(measure(options.one, options.nodes[0])))
        return 0
    print(f"{'graph':32}{'nodes':>8}{'CPU':>10}{'a node':>10}{'memory':>10}")
    slow = False
    for name in options.graphs:
        for nodes in options.nodes:
            cpu, memory = _in_fresh_process(name, nodes)
            slow |= cpu / nodes * 1e3 > _MOST_MS or memory > _MOST_MB
            print(f"{name:32}{nodes:8}{cpu:8.1f} s{cpu / nodes * 1e3:7.2f} ms{memory:7.0f} MB", flush=True)
    return 1 if slow else 0


def measure(name: str, nodes: int) -> tuple[float, float]:
    """Seconds of processor time that compiling the graph takes, and the process's peak memory in MB."""
    import rillet

    rillet.compile(GRAPHS["chain"](2), cache=False, jobs=1)  # what is imported and set up once
    model = GRAPHS[name](nodes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    rillet.compile(model, cache=False, jobs=1, progress=lambda finished, total: None)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, after.ru_maxrss / 1e3


def _in_fresh_process(name: str, nodes: int) -> tuple[float, float]:
    root = Path(__file__).resolve().parent.parent
    paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "benchmarks.growth", "--one", name, "--nodes", str(nodes)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, cwd=root, check=True)
    cpu, memory = json.loads(done.stdout)
    return cpu, memory


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="Measure how compiles grow.")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS), metavar="NAME")
    parser.add_argument("--nodes", nargs="+", type=positive, default=[1000, 4000])
    parser.add_argument("--one", choices=list(GRAPHS), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
