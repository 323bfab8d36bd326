"""If: a known condition chooses its branch during import, an unknown one becomes ``scf.if``."""

from __future__ import annotations

from functools import partial

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.frontends.onnx.branches import Branches, DivergingBranches, differ
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.frontends.onnx.sequences import all_tensors


@op("If")
def if_(node: Node, condition: Tensor) -> list[Tensor]:
    """The outputs of the branch that the condition chooses.

    Where the branches differ in an extent, the result's is dynamic. Raises DivergingBranches when the condition is not
    known and the branches differ in rank or type, UnsupportedFeature when they give sequences or optionals.
    """
    branches = [node.attr("then_branch"), node.attr("else_branch")]
    if condition.array is not None:
        return node.run_graph(branches[0 if bool(condition.array.reshape(-1)[0]) else 1], [])
    flag = node.b.scalar(condition).value
    both = Branches(node.b, flag)
    first, second = (partial(node.run_graph, graph, []) for graph in branches)
    outcomes = [both.build(number, way) for number, way in enumerate((first, second))]
    by_value = f"give the inputs that '{node.proto.input[0]}' is computed from to rillet.compile(values={{...}})"
    if not all(all_tensors(outcome) for outcome in outcomes):
        raise UnsupportedFeature(
            "its branches give sequences or optionals, and the condition is not known at compile time", by_value
        )
    apart = differ(outcomes)
    if apart is None:
        return both.finish(outcomes)
    both.give_up()
    name = node.proto.input[0]
    types = " and ".join(f"{outcome[apart].dtype} of rank {outcome[apart].rank}" for outcome in outcomes)
    raise DivergingBranches(
        f"the branches give output {apart} as {types}",
        f"make both branches return the same rank and type, or compile for one condition: {by_value}",
        flag,
        (first, second),
        (f"its condition '{name}' must be True here", f"its condition '{name}' must be False here"),
    )
