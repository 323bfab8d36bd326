"""Reading a padded tensor without making it: where a position lies outside the tensor, a constant is read instead."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from rillet.codegen.cpu import index
from rillet.codegen.cpu.access import Access
from rillet.codegen.cpu.index import Index
from rillet.codegen.cpu.kernel import Kernel

Place = tuple[ir.Value, Index]  # flat memory and an offset into it


class Padded:
    """A padded operand of a kernel: ``inside`` is the tensor as flat memory. Create it at the start of the body."""

    def __init__(self, kernel: Kernel, access: Access, inside: ir.Value, run: int):
        """``run``: how many elements are read from a place that ``choose`` gives, at most."""
        assert access.padding is not None
        self.axes = access.padding.axes
        self.extents = access.shape
        element = ir.MemRefType(inside.type).element_type
        self._type = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
        self.inside = memref.CastOp(self._type, inside).result
        self.outside = memref.CastOp(self._type, kernel.constant_run(run, element, access.padding.value)).result

    def choose(self, coordinates: dict[int, Index], offset: Index, offset_outside: Index = 0) -> Place:
        """Where to read the element at ``coordinates`` (of the padded axes), which is at ``offset`` if it exists."""
        exists = self._exists([(coordinates[n], self.extents[n]) for n in self.axes])
        if exists is True:
            return self.inside, offset
        if exists is False:
            return self.outside, offset_outside
        place = arith.SelectOp(exists, self.inside, self.outside).result
        return place, arith.SelectOp(exists, index.value(offset), index.value(offset_outside)).result

    @staticmethod
    def _exists(checks: Sequence[tuple[Index, int]]) -> ir.Value | bool:
        holds: ir.Value | None = None
        for position, extent in checks:
            if isinstance(position, int):
                if not 0 <= position < extent:
                    return False
                continue
            # Positions below zero are huge when compared without sign.
            one = arith.CmpIOp(arith.CmpIPredicate.ult, position, index.value(extent)).result
            holds = one if holds is None else arith.AndIOp(holds, one).result
        return True if holds is None else holds
