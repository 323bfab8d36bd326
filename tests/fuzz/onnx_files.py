"""Mutated ONNX files: ``python -m tests.fuzz.onnx_files --count N --seed S``.

Each seed mutates a model of the corpus and imports it, through dispatch when it imports. Only Rillet's errors may come
out, and none that calls itself an internal one. Mutants run in one child process of bounded memory under a watchdog, so
that a crash, a hang or a memory bomb is reported with its seed.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rillet import pipeline
from rillet.errors import RilletError, UnsupportedError
from rillet.targets import get
from tests.support.importing import import_model

from . import worker
from .corpus import models
from .mutate import mutant

_SECONDS = 60
_MEMORY = 6 << 30
# What messages of our own defects say.
_DEFECT = ("internal", "defect")
_LAST_RESORT = "cannot be imported ("


def bytes_of(seed: int) -> bytes:
    """The mutant of a seed."""
    rng = np.random.default_rng(seed)
    corpus = models()
    return mutant(corpus[int(rng.integers(len(corpus)))], rng)


def check(data: bytes) -> tuple[str, str]:
    """(kind, detail): ok, unsupported, rejected, unclear (an exception of another kind, converted), or bug."""
    try:
        program = import_model(data)
        pipeline.run(program, pipeline.options_for(get("host")), until="dispatch")
    except RilletError as error:
        text = str(error)
        if any(word in text for word in _DEFECT):
            return "bug", traceback.format_exc()
        if _LAST_RESORT in text:
            return "unclear", text
        return ("unsupported" if isinstance(error, UnsupportedError) else "rejected"), text
    except Exception:  # whatever is not Rillet's own is a finding
        return "bug", traceback.format_exc()
    return "ok", ""


def outcomes(first: int, count: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """(seed, (kind, detail)) of each seed, run in a child process; ``crash`` is a further kind."""
    yield from worker.results("tests.fuzz.onnx_files", first, count, _SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.onnx_files", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--write", type=Path, help="write the file of --seed here, and stop")
    parser.add_argument("--show-unclear", action="store_true", help="show errors that came from unforeseen exceptions")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.write:
        options.write.write_bytes(bytes_of(options.seed))
        return 0
    if options.worker:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        worker.work(range(options.seed, options.seed + options.count), lambda seed: check(bytes_of(seed)))
        return 0
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    for seed, (kind, detail) in outcomes(options.seed, options.count):
        counts[kind] += 1
        if kind in ("bug", "crash") or (kind == "unclear" and options.show_unclear):
            print(f"seed {seed}: {kind}: {detail.strip()}", flush=True)
    print(f"{sum(counts.values())} mutants in {time.perf_counter() - started:.0f} s: {dict(counts)}")
    return 1 if counts["bug"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
