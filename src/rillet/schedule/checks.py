"""Checks of the host before it runs a kernel: assertions of the program, and sizes of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import dtypes, locations
from rillet.ir.builders import i64_attr
from rillet.ir.rewrite import defining
from rillet.schedule import host

# Tensors of the same dynamic extents share one check. Their static parts, in bytes, are rounded up to a power of
# 2^_STEP, at least 2^_LEAST.
_STEP, _LEAST = 4, 16


class Checks:
    """Emits checks at the current insertion point and location, none twice."""

    def __init__(self) -> None:
        self._known: list[set[object]] = [set()]

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Checks made inside a region of control flow do not count as made after it."""
        self._known.append(set())
        yield
        self._known.pop()

    def condition(self, op: ir.Operation, scalars: Mapping[ir.Value, ir.Value]) -> None:
        """The ``cf.assert`` ``op`` as ``stream.assert``.

        ``{0}`` and ``{1}`` in its message are the operands of the first comparison in its condition. ``scalars`` maps
        host values to the new ones.
        """
        message = ir.StringAttr(op.attributes["msg"]).value
        condition = scalars[op.operands[0]]
        places = sorted((message.rfind(f"{{{i}}}"), i) for i in range(2))
        compared = _compared(op.operands[0])
        shown = [host.index(0)] * 2
        if places[0][0] >= 0:
            for place, _ in reversed(places):
                message = message[:place] + ("{}" if compared else "?") + message[place + 3 :]
            shown = [scalars[compared[i]] for _, i in places] if compared else shown
        stream.AssertOp(condition, *shown, ir.StringAttr.get(message))

    def size(self, tensor: ir.RankedTensorType, dims: Sequence[ir.Value]) -> None:
        """Fail at run time when the bytes of a tensor with the dynamic extents ``dims`` do not fit a 64-bit number."""
        if not dims:
            return
        factor = dtypes.storage_bytes(tensor.element_type)
        for axis in range(tensor.rank):
            factor *= 1 if tensor.is_dynamic_dim(axis) else tensor.get_dim_size(axis)
        bits = min(max(_LEAST, -(-max(factor - 1, 0).bit_length() // _STEP) * _STEP), 60)
        key = (bits, frozenset((d, dims.count(d)) for d in dims))
        if any(key in known for known in self._known):
            return
        self._known[-1].add(key)
        message = ir.StringAttr.get(locations.label(ir.Location.current))
        stream.CheckSizeOp(list(dims), i64_attr(1 << bits), message)


def _compared(condition: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The operands of the first comparison of ``index`` values that a condition is made of."""
    owner = defining(condition)
    if owner is None:
        return None
    if owner.name == "arith.cmpi":
        a, b = owner.operands
        return (a, b) if isinstance(a.type, ir.IndexType) else None
    found = (_compared(v) for v in owner.operands if v.type == condition.type)
    return next((pair for pair in found if pair is not None), None)
