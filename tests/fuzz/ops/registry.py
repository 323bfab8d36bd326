"""How the fuzzer applies each op: one function a family of ops, registered with a weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.maker import Maker

Apply = Callable[[Maker], object]
APPLICATIONS: list[tuple[float, Apply]] = []


def applies(weight: float) -> Callable[[Apply], Apply]:
    def register(function: Apply) -> Apply:
        APPLICATIONS.append((weight, function))
        return function

    return register


def grow(g: Maker) -> None:
    """Add one random application. Raises Stuck when the chosen one does not fit."""
    weights = np.array([w for w, _ in APPLICATIONS])
    APPLICATIONS[int(g.rng.choice(len(weights), p=weights / weights.sum()))][1](g)
