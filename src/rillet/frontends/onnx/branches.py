"""Two ways to go on, between which run time chooses: ``scf.if``.

Extents that change inside a region travel as extra ``index`` results, so that nothing after it has to ask a tensor for
its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.drafts import give_up
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import UnsupportedFeature
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.structured import DYNAMIC

if TYPE_CHECKING:
    import onnx


Way = Callable[[], list[Any]]


class DivergingBranches(UnsupportedFeature):
    """A node gives values of different ranks or types, and run time tells which: what follows is imported for each.

    ``ways`` give its outputs where ``flag`` is true and where it is false; ``demands`` say what must be so where only
    the first or only the second can be taken.
    """

    def __init__(self, reason: str, advice: str, flag: ir.Value, ways: tuple[Way, Way], demands: tuple[str, str]):
        super().__init__(reason, advice)
        self.flag = flag
        self.ways = ways
        self.demands = demands


class Branches:
    """Both branches of a condition. They are built in a draft: the types of the results are known only then."""

    def __init__(self, b: Builder, flag: ir.Value):
        self._b = b
        self._flag = flag
        self._draft = scf.IfOp(flag, has_else=True)

    def build(self, branch: int, work: Callable[[], list[Any]]) -> list[Any]:
        """What ``work`` gives when it builds the then-branch (0) or the else-branch (1)."""
        self._b.extents.push()
        try:
            with ir.InsertionPoint(self._draft.operation.regions[branch].blocks[0]):
                return work()
        finally:
            self._b.extents.pop()

    def finish(self, outcomes: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """The results, of which both branches' have one rank and type each. Where an extent differs it is dynamic."""
        b = self._b
        shapes = [_common_shape(t, o) for t, o in zip(*outcomes, strict=True)]
        types: list[ir.Type] = []
        for region, outcome in zip(self._draft.operation.regions, outcomes, strict=True):
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
        final = scf.IfOp(self._flag, types, has_else=True)
        for source, target in zip(self._draft.operation.regions, final.operation.regions, strict=True):
            block = source.blocks[0]
            target.blocks[0].append_to(source)  # swap the empty block out
            block.append_to(target)
        self._draft.operation.erase()
        results = list(final.operation.results)
        sizes = iter(results[len(shapes) :])
        return [
            b.tensor(value, t.dtype, [d if d is not None else b.extents.declare(next(sizes)) for d in shape])
            for value, t, shape in zip(results, outcomes[0], shapes, strict=False)
        ]

    def give_up(self) -> None:
        """Build nothing more in it, and remove it in the end."""
        give_up(self._draft.operation)


@dataclass(frozen=True)
class Wanted:
    """The names whose values a sequence of nodes is imported for, and the ranks that they are declared to have."""

    names: tuple[str, ...]
    ranks: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: onnx.GraphProto) -> Wanted:
        """The outputs of a graph."""
        ranks = {
            o.name: len(o.type.tensor_type.shape.dim) for o in graph.output if o.type.tensor_type.HasField("shape")
        }
        return cls(tuple(o.name for o in graph.output), ranks)

    def possible(self, outcomes: Sequence[Sequence[Any] | None]) -> list[int]:
        """Which of two outcomes can be taken: both where they agree, else the one that is as declared."""
        there = [n for n, o in enumerate(outcomes) if o is not None and all(isinstance(v, Tensor) for v in o)]
        if len(there) < 2 or differ([tensors(outcome) for outcome in outcomes]) is None:
            return there
        declared = [n for n in there if self._is_declared(tensors(outcomes[n]))]
        return declared if len(declared) == 1 else []

    def _is_declared(self, outcome: Sequence[Tensor]) -> bool:
        return all(self.ranks.get(name, v.rank) == v.rank for name, v in zip(self.names, outcome, strict=True))


def tensors(values: Sequence[Any] | None) -> list[Tensor]:
    """The tensors of an outcome that has no other values."""
    return [value for value in values or () if isinstance(value, Tensor)]


def differ(outcomes: Sequence[Sequence[Tensor]]) -> int | None:
    """The first result that the branches give with different ranks or types, or None."""
    for index, (a, b) in enumerate(zip(*outcomes, strict=True)):
        if a.rank != b.rank or a.dtype != b.dtype:
            return index
    return None


def _common_shape(a: Tensor, b: Tensor) -> list[Extent | None]:
    """The shape of a result; None where the branches differ or one computes it."""
    return [
        x if isinstance(x, int) and isinstance(y, int) and x == y else None
        for x, y in zip(a.shape, b.shape, strict=True)
    ]


def _as_type(shape: Sequence[Extent | None]) -> list[Extent]:
    """The shape with ``?`` (any value will do for a type) where it is None."""
    return [DYNAMIC if d is None else d for d in shape]
