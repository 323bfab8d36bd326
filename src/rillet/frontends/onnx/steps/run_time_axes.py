"""Axes that only run time tells: the node is compiled for each value that they can have, behind conditions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from itertools import permutations

import numpy as np
from torch_mlir.dialects import cf

from rillet.frontends.building.scalars import Scalar, select
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.branches import Branches, differ, tensors
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value

# The operand that holds an op's axes. Reductions have it from opset 13 or 18 on.
_AXES = {"CumSum": 1, "DFT": 2, "Pad": 3, "Slice": 3, "Squeeze": 1, "Unsqueeze": 1}
_REDUCTION = "Reduce"
_MOST_CASES = 24
_Case = tuple[int, ...]


def choose_axes(use: NodeUse) -> Sequence[Value | None] | None:
    """Import the node once for each value of its axes, where these are few numbers that are not known."""
    operand = 1 if use.proto.op_type.startswith(_REDUCTION) else _AXES.get(use.proto.op_type)
    if use.domain or operand is None or len(use.inputs) <= operand:
        return None
    x, axes = use.inputs[0], use.inputs[operand]
    if not isinstance(x, Tensor) or not isinstance(axes, Tensor) or axes.array is not None or axes.rank > 1:
        return None
    count = axes.shape[0] if axes.rank else 1
    if not isinstance(count, int) or count < 1:
        return None
    rank = x.rank + count if use.proto.op_type == "Unsqueeze" else x.rank
    cases = list(permutations(range(rank), count))
    if not 1 <= len(cases) <= _MOST_CASES:
        return None
    outputs = _choose(use, operand, _normalized(use, axes, count, rank), cases)
    if outputs is None:
        raise InvalidNode("no axes fit its operands")
    return outputs


def _normalized(use: NodeUse, axes: Tensor, count: int, rank: int) -> list[Scalar]:
    """The axes, counted from the first one; those out of range stay out of it."""
    b = use.b
    given = [b.scalar(b.slice_axis(axes, 0, i, 1) if axes.rank else axes) for i in range(count)]
    return [select(axis < 0, axis + rank, axis) for axis in given]


def _choose(use: NodeUse, operand: int, axes: Sequence[Scalar], cases: Sequence[_Case]) -> list[Tensor] | None:
    """The outputs for that of the cases that the axes are; None where the node can have none of them."""
    if not cases:
        return None
    flag = reduce(lambda a, b: a & b, (axis == number for axis, number in zip(axes, cases[0], strict=True))).value
    both = Branches(use.b, flag)
    try:
        first = tensors(both.build(0, partial(_of_case, use, operand, cases[0])))
    except InvalidNode:
        both.give_up()
        return _choose(use, operand, axes, cases[1:])
    rest = both.build(1, lambda: _choose(use, operand, axes, cases[1:]) or [])
    if not rest:  # this is the only case
        both.give_up()
        cf.assert_(flag, f"node '{use.name}': the axes are not what the operands can have")
        return tensors(_of_case(use, operand, cases[0]))
    if differ([first, rest]) is not None:
        raise UnsupportedFeature("the result's type depends on the axes", "make axes an initializer")
    return both.finish([first, rest])


def _of_case(use: NodeUse, operand: int, case: _Case) -> list[Value | None]:
    axes = use.inputs[operand]
    assert isinstance(axes, Tensor)
    array = np.array(case if axes.rank else case[0], np.dtype(axes.dtype))
    known = use.b.constant(array, name=use.proto.input[operand])
    return list(use.walk.lower(use.with_inputs([*use.inputs[:operand], known, *use.inputs[operand + 1 :]])))
