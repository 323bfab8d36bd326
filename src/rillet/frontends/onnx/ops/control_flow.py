"""If: a known condition chooses its branch during import, an unknown one becomes ``scf.if``.

Extents that change inside a region travel as extra ``index`` results or iteration arguments, so that nothing after it
has to ask a tensor for its size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.sequences import all_tensors
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.structured import DYNAMIC


@op("If")
def if_(node: Node, condition: Tensor) -> list[Tensor]:
    """The outputs of the branch that the condition chooses.

    Where the branches differ in an extent, the result's is dynamic. Raises UnsupportedFeature when the condition is not
    known and the branches differ in rank or type, or give sequences or optionals.
    """
    b = node.b
    branches = [node.attr("then_branch"), node.attr("else_branch")]
    if condition.array is not None:
        return node.run_graph(branches[0 if bool(condition.array.reshape(-1)[0]) else 1], [])
    flag = b.scalar(condition).value
    # The results' types are only known once both branches are imported, so they are built in a provisional op first.
    draft = scf.IfOp(flag, has_else=True)
    outcomes: list[list[Tensor]] = []
    for region, graph in zip(draft.operation.regions, branches, strict=True):
        b.extents.push()
        with ir.InsertionPoint(region.blocks[0]):
            outcomes.append(node.run_graph(graph, []))
        b.extents.pop()
    if not all(all_tensors(outcome) for outcome in outcomes):
        raise UnsupportedFeature(
            "its branches give sequences or optionals, and the condition is not known at compile time", _by_value(node)
        )
    shapes = [_common_shape(node, i, t, o) for i, (t, o) in enumerate(zip(*outcomes, strict=True))]
    dynamic = [axis for shape in shapes for axis, d in enumerate(shape) if d is None]
    dtypes = [t.dtype for t in outcomes[0]]
    types: list[ir.Type] = []
    for region, outcome in zip(draft.operation.regions, outcomes, strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            values = [builders.cast(b.value(t), _as_type(s)) for t, s in zip(outcome, shapes, strict=True)]
            extents = [
                builders.as_index(t.shape[axis])
                for t, s in zip(outcome, shapes, strict=True)
                for axis, d in enumerate(s)
                if d is None
            ]
            scf.YieldOp([*values, *extents])
            types = [v.type for v in (*values, *extents)]
    final = scf.IfOp(flag, types, has_else=True)
    for source, target in zip(draft.operation.regions, final.operation.regions, strict=True):
        block = source.blocks[0]
        target.blocks[0].append_to(source)  # swap the empty block out
        block.append_to(target)
    draft.operation.erase()
    results = list(final.operation.results)
    sizes = iter(results[len(shapes) :])
    assert len(dynamic) == len(results) - len(shapes)
    return [
        b.tensor(value, dtype, [d if d is not None else b.extents.declare(next(sizes)) for d in shape])
        for value, dtype, shape in zip(results, dtypes, shapes, strict=False)
    ]


def _common_shape(node: Node, index: int, a: Tensor, b: Tensor) -> list[Extent | None]:
    """The shape of a result; None where the branches differ or one computes it."""
    if a.rank != b.rank or a.dtype != b.dtype:
        raise UnsupportedFeature(
            f"the branches give output {index} as {a.dtype} of rank {a.rank} and {b.dtype} of rank {b.rank}",
            f"make both branches return the same rank and type, or compile for one condition: {_by_value(node)}",
        )
    return [
        x if isinstance(x, int) and isinstance(y, int) and x == y else None
        for x, y in zip(a.shape, b.shape, strict=True)
    ]


def _by_value(node: Node) -> str:
    """How to say what the condition is: it must follow from the inputs whose values are given."""
    return f"give the inputs that '{node.proto.input[0]}' is computed from to rillet.compile(values={{...}})"


def _as_type(shape: Sequence[Extent | None]) -> list[Extent]:
    """The shape with ``?`` (any value will do for a type) where it is None."""
    return [DYNAMIC if d is None else d for d in shape]
