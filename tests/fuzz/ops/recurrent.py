"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from tests.fuzz.maker import Maker, Stuck, Value
from tests.fuzz.ops.registry import applies

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
_ACTIVATIONS = ("Tanh", "Sigmoid", "Relu")


@applies(1)
def recurrent(g: Maker) -> None:
    x = g.bounded(g.value(("float32",), 3, 3), 1000)
    steps, batch, features = x.dims
    if not isinstance(features, int):
        raise Stuck
    g.filled(*x.dims)
    op = g.one_of(sorted(_GATES))
    direction = g.one_of(["forward", "reverse", "bidirectional"])
    hidden, directions = g.integer(1, 5), 2 if direction == "bidirectional" else 1
    rows = _GATES[op] * hidden
    operands: list[Value | str] = [x, *(g.data(x.dtype, (directions, rows, n)) for n in (features, hidden))]
    operands.append(g.data(x.dtype, (directions, 2 * rows)) if g.chance(0.5) else "")
    known = isinstance(steps, int) and isinstance(batch, int)
    operands.append(g.constant(g.rng.integers(1, steps + 1, batch).astype(np.int32)) if known and g.chance(0.3) else "")  # type: ignore[operator,arg-type]
    for _ in range(2 if op == "LSTM" else 1):
        operands.append(g.data(x.dtype, (directions, batch, hidden)) if g.chance(0.4) else "")
    if op == "LSTM":
        operands.append(g.data(x.dtype, (directions, 3 * hidden)) if g.chance(0.3) else "")
    while operands[-1] == "":
        operands.pop()
    attributes: dict = {"linear_before_reset": g.integer(0, 1)} if op == "GRU" else {}
    if g.chance(0.25):
        attributes["activations"] = [g.one_of(_ACTIVATIONS) for _ in range(_FUNCTIONS[op])] * directions
    if g.chance(0.15):
        attributes["clip"] = 2.0
    results = g.add(
        op, operands, g.integer(1, 3 if op == "LSTM" else 2), hidden_size=hidden, direction=direction, **attributes
    )
    if len(results) > 1 and g.chance(0.4):
        g.values.remove(g.one_of(results))  # nobody wants it
