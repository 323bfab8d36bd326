"""The clock: the time of each kernel of several builds of one model, measured inside the model and interleaved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rillet.runtime import Module

# Outputs agree when max|a - b| <= _RELATIVE max|b| + _ABSOLUTE, since sums may be taken in another order.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5


@dataclass(frozen=True)
class Clock:
    """How long to measure: ``seconds`` for each build, at least ``fewest`` and at most ``most`` calls of each."""

    seconds: float = 0.25
    fewest: int = 5
    most: int = 1000

    def calls(self, seconds: float) -> int:
        """How many calls to measure, when one takes ``seconds`` seconds."""
        return min(self.most, max(self.fewest, round(self.seconds / max(seconds, 1e-9))))

    def duration(self, seconds: float) -> float:
        """Seconds to measure a build whose calls take ``seconds`` each; the first call is not measured."""
        return seconds * (1 + self.calls(seconds))


def kernel_times(
    modules: Sequence[Module], inputs: Sequence[np.ndarray | None], clock: Clock
) -> list[dict[str, float]]:
    """For each module (loaded with ``profile=True``), each kernel's seconds in one call: each dispatch at its fastest.

    The modules take turns call by call, so that other load on the machine affects all of them alike.
    """
    fastest: list[list[tuple[str, int]]] = []
    started = time.perf_counter()
    for module in modules:
        module(*inputs)
        module.take_profile()
    per_call = (time.perf_counter() - started) / len(modules)
    for number in range(clock.calls(per_call)):
        for which, module in enumerate(modules):
            module(*inputs)
            events = [(name, end - begin) for name, begin, end in module.take_profile()]
            if number == 0:
                fastest.append(events)
            else:
                pairs = zip(fastest[which], events, strict=True)
                fastest[which] = [(name, min(best, now)) for (name, best), (_, now) in pairs]
    return [_by_kernel(events) for events in fastest]


def call_times(modules: Sequence[Module], inputs: Sequence[np.ndarray | None], clock: Clock) -> list[float]:
    """Each module's fastest call in seconds; the modules take turns."""
    best = [float("inf")] * len(modules)
    started = time.perf_counter()
    for module in modules:
        module(*inputs)
    per_call = (time.perf_counter() - started) / len(modules)
    for _ in range(clock.calls(per_call)):
        for number, module in enumerate(modules):
            start = time.perf_counter()
            module(*inputs)
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def outputs(module: Module, inputs: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    """The module's outputs; the values of a sequence of maps, a row for each."""
    result = module(*inputs)
    values = result if isinstance(result, tuple) else (result,)
    return tuple(np.array([list(row.values()) for row in v]) if isinstance(v, list) else v for v in values)


def agree(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    """Whether outputs are equal within float tolerance; integers and booleans must be the same."""
    return all(_agree(a, b) for a, b in zip(actual, expected, strict=True))


def _agree(actual: np.ndarray, expected: np.ndarray) -> bool:
    if actual.shape != expected.shape:
        return False
    if actual.dtype.kind not in "fc":
        return np.array_equal(actual, expected)
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return False
    wide = np.result_type(expected, np.float64)
    difference = np.abs(actual[finite].astype(wide) - expected[finite].astype(wide))
    scale = np.abs(expected[finite].astype(wide))
    return bool(difference.max(initial=0.0) <= _RELATIVE * scale.max(initial=0.0) + _ABSOLUTE)


def _by_kernel(events: Sequence[tuple[str, int]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for name, nanoseconds in events:
        totals[name] = totals.get(name, 0.0) + nanoseconds / 1e9
    return totals
