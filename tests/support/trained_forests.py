"""Data to train forests on, and their models as converters write them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import onnx

import rillet

FEATURES = 6


@contextmanager
def converting() -> Iterator[None]:
    """Within it, converters may write bools and NumPy integers into lists of integers, which protobuf 7 refuses."""
    make: Callable[..., onnx.AttributeProto] = onnx.helper.make_attribute

    def converted(key: str, value: Any, *rest: Any, **more: Any) -> onnx.AttributeProto:
        if isinstance(value, list) and any(isinstance(v, bool | np.bool_ | np.integer) for v in value):
            value = [int(v) for v in value]
        return make(key, value, *rest, **more)

    with mock.patch.object(onnx.helper, "make_attribute", converted), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def samples(rows: int, seed: int, nan: bool = False) -> np.ndarray:
    """Multiples of 1/8, so that halves between them are the same in both precisions."""
    random = np.random.default_rng(seed)
    x = (random.integers(-40, 41, (rows, FEATURES)) / 8).astype(np.float32)
    if nan:
        x[random.random(x.shape) < 0.1] = np.nan
    return x


def classes(x: np.ndarray, count: int) -> np.ndarray:
    values = np.nan_to_num(x)
    scores = values[:, 0] * values[:, 1] + 2 * values[:, 2] - values[:, 3]
    return np.digitize(scores, np.quantile(scores, np.arange(1, count) / count))


def run(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    outputs = rillet.compile(model, jobs=1, threads=1).run({model.graph.input[0].name: x})
    return [outputs[o.name] for o in model.graph.output]
