"""Recurrent layers."""

from __future__ import annotations

from tests.fuzz.maker import Maker, Stuck
from tests.fuzz.ops.registry import applies

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@applies(0.5)
def recurrent(g: Maker) -> None:
    x = g.value(("float32",), 3, 3)
    features = x.dims[2]
    if not isinstance(features, int) or 0 in x.dims:
        raise Stuck
    op = g.one_of(sorted(_GATES))
    direction = g.one_of(["forward", "reverse", "bidirectional"])
    hidden, directions = g.integer(1, 5), 2 if direction == "bidirectional" else 1
    rows = _GATES[op] * hidden
    operands = [x, g.data(x.dtype, (directions, rows, features)), g.data(x.dtype, (directions, rows, hidden))]
    if g.chance(0.5):
        operands.append(g.data(x.dtype, (directions, 2 * rows)))
    linear = {"linear_before_reset": g.integer(0, 1)} if op == "GRU" else {}
    g.add(op, operands, g.integer(1, 2), hidden_size=hidden, direction=direction, **linear)
