"""Reading a padded tensor without making it: where a position lies outside the tensor, a constant is read instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from rillet.codegen import index
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.recognize.linear_access import Access
from rillet.ir.structured import DYNAMIC

Place = tuple[ir.Value, Index]  # flat memory and an offset into it
Condition: TypeAlias = ir.Value | bool


class Padded:
    """A padded operand of a kernel: ``inside`` is the tensor as flat memory. Create it at the start of the body."""

    def __init__(self, kernel: KernelBuilder, access: Access, inside: ir.Value, run: int):
        """``run``: the most elements that are read from a place that ``choose`` gives."""
        assert access.padding is not None
        self.axes = access.padding.axes
        self.extents = access.shape
        element = ir.MemRefType(inside.type).element_type
        self._type = ir.MemRefType.get([DYNAMIC], element)
        self.inside = memref.CastOp(self._type, inside).result
        self.outside = memref.CastOp(self._type, kernel.constant_run(run, element, access.padding.value)).result

    def exists(self, coordinates: dict[int, Index]) -> Condition:
        """Whether the element at these coordinates of the padded axes is in the tensor."""
        holds: Condition = True
        for n in self.axes:
            position, extent = coordinates[n], self.extents[n]
            if isinstance(position, int):
                if not 0 <= position < extent:
                    return False
                continue
            # A negative position compares as a huge one without sign.
            one = arith.CmpIOp(arith.CmpIPredicate.ult, position, index.value(extent)).result
            holds = one if isinstance(holds, bool) else arith.AndIOp(holds, one).result
        return holds

    def choose(self, exists: Condition, offset: Index) -> Place:
        """The place to read an element from; ``offset`` is where it lies in the tensor if it exists."""
        if isinstance(exists, bool):
            return (self.inside, offset) if exists else (self.outside, 0)
        place = arith.SelectOp(exists, self.inside, self.outside).result
        return place, arith.SelectOp(exists, index.value(offset), index.value(0)).result


def any_of(conditions: Iterable[Condition]) -> Condition:
    """Whether at least one of the conditions holds."""
    holds: Condition = False
    for one in conditions:
        if one is True or holds is False:
            holds = one
        elif holds is not True and one is not False:
            holds = arith.OrIOp(holds, one).result
    return holds
