"""Compare Rillet with ONNX Runtime and with shipped outputs: ``python -m models.compare [NAME ...] [--threads 1 2]``.

Every model is compiled once, saved, loaded for each thread count and run on several inputs; dynamic models get several
shapes. Results agree when ``max|a - b| <= 1e-4 max|b| + 1e-5`` for every output. Exit status 1 on any disagreement or
failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from models import zoo
from models.fetch import FetchError
from models.light import LIGHT, light_expected

_SEEDS = (0, 1)
_BATCHES = {"minilm": (1, 3), "magika": (1, 4)}
"""Batch sizes to try on models with a dynamic one."""


def error_ratio(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest ``max|a - b| / (1e-4 max|b| + 1e-5)`` over the outputs: 1 or less is agreement.

    Infinite when the count, a shape, a dtype or the places of NaN differ. Integers and booleans must be equal.
    """
    if len(actual) != len(expected):
        return float("inf")
    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(a, b) else float("inf"))
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        special = ~np.isfinite(b)
        if not np.array_equal(a[special], b[special], equal_nan=True) or not np.isfinite(a[~special]).all():
            return float("inf")
        a, b = a[~special], b[~special]
        difference, scale = np.abs(a - b).max(initial=0.0), np.abs(b).max(initial=0.0)
        worst = max(worst, float(difference / (1e-4 * scale + 1e-5)))
    return worst


def compare(name: str, thread_counts: Sequence[int]) -> Iterator[tuple[str, float]]:
    """(what was compared, error ratio) for each input, thread count and reference of one model."""
    import onnxruntime

    import rillet

    path = zoo.path(name)
    feeds = [
        (f"seed {seed}" + (f", batch {batch}" if batch > 1 else ""), zoo.inputs(name, seed, batch))
        for seed in _SEEDS
        for batch in _BATCHES.get(name, (1,))
    ]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = [session.run(names, feed) for _, feed in feeds]
    with tempfile.TemporaryDirectory(prefix="rillet-compare-") as folder:
        artifact = Path(folder) / f"{name}.rlm"
        rillet.compile(str(path)).save(str(artifact))
        for threads in thread_counts:
            module = rillet.load(str(artifact), threads=threads)
            for (label, feed), reference in zip(feeds, expected, strict=True):
                results = module.run(feed)
                actual = [results[output] for output in names]
                yield f"{threads} thread(s), {label}", error_ratio(actual, reference)
                if name in LIGHT and label == "seed 0":
                    yield f"{threads} thread(s), shipped outputs", error_ratio(actual, light_expected(name))


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m models.compare", description="Compare Rillet with ONNX Runtime.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: every model of the zoo")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(zoo.NAMES)):
        parser.error(f"unknown model {', '.join(unknown)}; known are {', '.join(zoo.NAMES)}")
    return 1 if sum(not report(name, options.threads) for name in options.names or zoo.NAMES) else 0


def report(name: str, thread_counts: Sequence[int]) -> bool:
    """Compare one model and print a line for it; whether everything agreed."""
    import rillet

    start = time.perf_counter()
    try:
        ratios = dict(compare(name, thread_counts))
    except (rillet.RilletError, FetchError) as error:
        print(f"{name:24} FAILED  " + "\n    ".join(str(error).strip().splitlines()), flush=True)
        return False
    worst = max(ratios, key=ratios.__getitem__)
    agrees = ratios[worst] <= 1
    verdict = "ok" if agrees else "WRONG"
    seconds = time.perf_counter() - start
    print(f"{name:24} {verdict:6}  error {ratios[worst]:.3f} of the tolerance ({worst}), {seconds:.1f} s", flush=True)
    return agrees


if __name__ == "__main__":
    sys.exit(main())
