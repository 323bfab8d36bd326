"""Pass numbers of ONNX's suite by kind and op family, and the most frequent reasons of failure.

    python -m tests.conformance.report [PATTERN] [--jobs N] [--json FILE]

Tests run in worker processes, so that a crash is a failed test; a new worker takes over.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.conformance.suite import Outcome, cases, expected_failures, run


class _Worker:
    def __init__(self) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        # Forked before MLIR is used in this process: the suite's cases are loaded once for all workers.
        self.process: BaseProcess = multiprocessing.get_context("fork").Process(
            target=_work, args=(theirs,), daemon=True
        )
        self.process.start()
        theirs.close()
        self.name: str | None = None

    def give(self, pending: list[str]) -> None:
        """Hand out the next test, or tell the worker to stop."""
        self.name = pending.pop() if pending else None
        self.connection.send(self.name)


def _work(connection: Connection) -> None:
    while (name := connection.recv()) is not None:
        connection.send(run(cases()[name]))


def run_all(names: list[str], jobs: int) -> dict[str, Outcome]:
    """The outcome of each test, in no particular order."""
    pending = list(reversed(names))
    workers = [_Worker() for _ in range(min(jobs, len(names)))]
    outcomes: dict[str, Outcome] = {}
    for worker in workers:
        worker.give(pending)
    while busy := {w.connection: w for w in workers if w.name is not None}:
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            assert worker.name is not None
            try:
                outcomes[worker.name] = worker.connection.recv()
            except EOFError:
                worker.process.join()
                outcomes[worker.name] = Outcome("crash", f"exit status {worker.process.exitcode}")
                workers[workers.index(worker)] = worker = _Worker()
            worker.give(pending)
    return outcomes


def family(name: str) -> str:
    """The op family of a test: the first word of its name, its variants being the rest."""
    words = name.partition("/")[2].removeprefix("test_").split("_")
    return words[0] if len(words[0]) > 2 or len(words) == 1 else "_".join(words[:2])


def _reason(outcome: Outcome) -> str:
    lines = [line.strip() for line in outcome.reason.splitlines() if line.strip()] or [""]
    line = lines[1] if lines[0].endswith("supported:") and len(lines) > 1 else lines[0]
    return f"{outcome.status}: " + re.sub(r"'[^']*'", "'…'", line)[:140]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="regular expression that test names must contain")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    arguments = parser.parse_args()
    names = [name for name in sorted(cases()) if re.search(arguments.pattern, name)]
    start = time.perf_counter()
    outcomes = run_all(names, arguments.jobs)
    seconds = time.perf_counter() - start
    passed = Counter(name.partition("/")[0] for name, o in outcomes.items() if o.status == "passed")
    total = Counter(name.partition("/")[0] for name in names)
    for kind in total:
        print(f"{kind:20} {passed[kind]:5} of {total[kind]:5}  {100 * passed[kind] / total[kind]:5.1f} %")
    specialized = sum(o.specialized for o in outcomes.values())
    print(f"compiled for the value of an input: {specialized}; {seconds:.0f} s with {arguments.jobs} processes\n")
    by_family: dict[str, list[bool]] = defaultdict(list)
    for name, outcome in outcomes.items():
        by_family[family(name)].append(outcome.status == "passed")
    for key, results in sorted(by_family.items(), key=lambda item: (sum(item[1]) - len(item[1]), item[0])):
        if not all(results):
            print(f"{key:28} {sum(results):4} of {len(results):4}")
    print()
    reasons = Counter(_reason(o) for o in outcomes.values() if o.status != "passed")
    for reason, count in reasons.most_common(30):
        print(f"{count:4}  {reason}")
    expected = expected_failures()
    unexpected = [n for n, o in outcomes.items() if o.status != expected.get(n, ("passed", ""))[0]]
    print(
        f"\n{len(unexpected)} differ from the list of expected failures" + "".join(f"\n  {n}" for n in unexpected[:50])
    )
    if arguments.json:
        arguments.json.write_text(json.dumps({n: asdict(o) for n, o in sorted(outcomes.items())}, indent=1))


if __name__ == "__main__":
    main()
