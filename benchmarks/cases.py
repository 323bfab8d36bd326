"""What is measured: models of the zoo with a batch size, and the smallest graph there is for a call's overhead."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import models
from models.fetch import FetchError, cache_dir
from models.graph import GraphBuilder
from models.zoo import serialize

CALL_OVERHEAD = "call_overhead"
DEFAULT = (CALL_OVERHEAD, *models.GENERATED, "efficientnet_lite0", "minilm", "minilm:8")


@dataclass(frozen=True)
class Case:
    """One model file and the arrays it is called with, in the graph's input order."""

    name: str
    model: Path
    inputs: dict[str, np.ndarray]


def load_case(spec: str) -> Case:
    """A case from ``NAME`` or ``NAME:BATCH``. Raises `ValueError` for unknown names, `FetchError` offline."""
    name, _, batch = spec.partition(":")
    if name == CALL_OVERHEAD:
        return _call_overhead()
    if batch and not batch.isdecimal():
        raise ValueError(f"{spec}: the batch size after the colon must be a whole number")
    return Case(spec, models.path(name), models.inputs(name, seed=0, batch=int(batch or 1)))


def load_cases(specs: Iterable[str], notes: list[str]) -> Iterator[Case]:
    """The cases of ``specs``; what cannot be had is reported on the error stream and added to ``notes``."""
    for spec in specs:
        try:
            case = load_case(spec)
        except (FetchError, ValueError) as error:
            notes.append(f"{spec}: {error}")
            print(notes[-1], file=sys.stderr)
            continue
        yield case


def _call_overhead() -> Case:
    """y = x + x on 16 floats: what remains is the price of calling."""
    g = GraphBuilder(CALL_OVERHEAD)
    x = g.input("x", (1, 16))
    model = g.build({"y": (g.op("Add", [x, x], "add"), (1, 16))})
    path = cache_dir() / f"{CALL_OVERHEAD}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(serialize(model))
    return Case(CALL_OVERHEAD, path, {"x": np.linspace(-1, 1, 16, dtype=np.float32)[None]})
