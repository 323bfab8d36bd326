"""The elementwise operation that is the only user of a value."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.rewrite import users
from rillet.ir.structured import Structured, is_permutation, structured


def follower(value: ir.Value) -> tuple[Structured, int] | None:
    """The only user of ``value`` and the number of its input that ``value`` is, if it computes each element of its one
    result from the element of ``value`` at the same position; else None. Its other inputs are not examined."""
    found = users(value)
    after = structured(found[0]) if len(found) == 1 else None
    if after is None or len(after.inits) != 1 or not after.is_elementwise or after.init_is_read():
        return None
    if after.inputs.count(value) != 1:
        return None
    number = after.inputs.index(value)
    own = after.maps[number]
    if not is_permutation(own, after.loops) or after.init_maps[0] != own:
        return None
    return after, number
