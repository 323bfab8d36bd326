"""Which axes of a kernel's tensors are the same dimension, found by unifying along indexing maps.

Example, softmax over rows: the row axis of the input, of the maximum, of the sum and of the result are one dimension,
so a workgroup can take a row and run every op on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir.extents import box, joined_axis, margins, reassociation
from rillet.ir.structured import DYNAMIC, Structured, captures

Dimension = int


class Dimensions:
    """``axis(value, n)`` and ``loop(generic, n)`` name a dimension; equal numbers are the same dimension."""

    def __init__(self, function: KernelFunction):
        self._function = function
        self._parent: list[int] = []
        self._axes: dict[tuple[ir.Value, int], int] = {}
        self._loops: dict[tuple[int, int], int] = {}
        self._numbers = {id(g): n for n, g in enumerate(function.generics)}
        self._shifted: list[int] = []  # axes of computed tensors that are read elsewhere than at their own coordinate
        for op in function.tensor_ops:
            self._unify_op(op)
        self._unify_free()

    def axis(self, value: ir.Value, number: int) -> Dimension:
        """The dimension of axis ``number`` of ``value``."""
        key = (value, number)
        if key not in self._axes:
            self._axes[key] = self._fresh()
        return self._find(self._axes[key])

    def axes(self, value: ir.Value) -> list[Dimension]:
        """The dimensions of all axes of ``value``."""
        return [self.axis(value, n) for n in range(ir.RankedTensorType(value.type).rank)]

    def loop(self, generic: Structured, number: int) -> Dimension:
        """The dimension that a loop of a generic runs over."""
        key = (self._numbers[id(generic)], number)
        if key not in self._loops:
            self._loops[key] = self._fresh()
        return self._find(self._loops[key])

    def shared(self) -> list[Dimension]:
        """Dimensions on which every result and every reduction agrees point for point, in the order of the first
        result's axes.

        Fixing them makes the rest of the kernel independent of all other points.
        """
        candidates = self.axes(self._function.results[0].value)
        excluded = {self._find(d) for d in self._shifted}
        for generic in self._function.reductions:
            excluded |= {self.loop(generic, n) for n in generic.reduction_loops}
            present = {self.loop(generic, n) for n in generic.parallel_loops}
            candidates = [d for d in candidates if d in present]
        for port in self._function.results:
            axes = self.axes(port.value)
            candidates = [d for d in candidates if axes.count(d) == 1]
        return [d for d in candidates if d not in excluded]

    def is_shifted(self, dimension: Dimension) -> bool:
        """True when some computed tensor is read along this dimension elsewhere than at its own coordinate."""
        return dimension in {self._find(d) for d in self._shifted}

    # --- unification
    # -----------------------------------------------------------------------------------------------------

    def _unify_op(self, op: ir.Operation) -> None:
        if op.name == "linalg.generic":
            self._unify_generic(op)
            return
        pairs = dict(_same_axes(op))
        result = op.results[0] if len(op.results) else None
        for operand_number, operand in enumerate(op.operands):
            if not isinstance(operand.type, ir.RankedTensorType):
                continue
            for axis, extent in enumerate(ir.RankedTensorType(operand.type).shape):
                target = pairs.get((operand_number, axis))
                if target is not None and result is not None:
                    self._union(self.axis(operand, axis), self.axis(result, target))
                elif extent != 1:
                    self._mark_shifted(operand, axis)

    def _unify_generic(self, op: ir.Operation) -> None:
        generic = self._function.generic_of(op.results[0])
        assert generic is not None
        for operand, map_ in (*generic.operands, *zip(generic.results, generic.init_maps, strict=True)):
            shape = ir.RankedTensorType(operand.type).shape
            for axis, expr in enumerate(map_):
                if isinstance(expr, int):
                    self._union(self.axis(operand, axis), self.loop(generic, expr))
                elif shape[axis] != 1:
                    self._mark_shifted(operand, axis)
        for value in captures(op):
            if isinstance(value.type, ir.RankedTensorType):
                for axis in range(ir.RankedTensorType(value.type).rank):
                    self._mark_shifted(value, axis)

    def _unify_free(self) -> None:
        """Gives a result that no tensor goes into (its inputs were folded away) the axes of another result of the same
        shape."""
        bound = [p for p in self._function.results if not self._is_free(p.value)]
        for port in self._function.results:
            alike = next((p for p in bound if p.type.shape == port.type.shape and p.dims == port.dims), None)
            if alike is not None and self._is_free(port.value):
                for a, b in zip(self.axes(port.value), self.axes(alike.value), strict=True):
                    self._union(a, b)

    def _is_free(self, value: ir.Value) -> bool:
        generic = self._function.generic_of(value)
        if generic is None or generic.reduction_loops:
            return False
        return not any(isinstance(v.type, ir.RankedTensorType) for v in (*generic.inputs, *captures(generic.op)))

    def _mark_shifted(self, value: ir.Value, axis: int) -> None:
        if not isinstance(value.owner, ir.Block):
            self._shifted.append(self.axis(value, axis))

    def _fresh(self) -> int:
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def _find(self, d: int) -> int:
        while self._parent[d] != d:
            self._parent[d] = self._parent[self._parent[d]]
            d = self._parent[d]
        return d

    def _union(self, a: int, b: int) -> None:
        a, b = self._find(a), self._find(b)
        self._parent[max(a, b)] = min(a, b)


def _same_axes(op: ir.Operation) -> Iterator[tuple[tuple[int, int], int]]:
    """((operand number, operand axis), result axis) pairs on which a view-like op keeps coordinates as they are."""
    if op.name == "linalg.fill":
        yield from (((1, a), a) for a in range(ir.RankedTensorType(op.results[0].type).rank))
    elif op.name == "tensor.cast":
        yield from (((0, a), a) for a in range(ir.RankedTensorType(op.results[0].type).rank))
    elif op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        expands = op.name == "tensor.expand_shape"
        wide = ir.RankedTensorType((op.results[0] if expands else op.operands[0]).type).shape
        for narrow_axis, group in enumerate(reassociation(op)):
            real = [a for a in group if wide[a] != 1]
            if len(real) == 1:
                yield ((0, narrow_axis if expands else real[0]), real[0] if expands else narrow_axis)
    elif op.name == "tensor.pad":
        low, high = margins(op)
        yield from (((0, a), a) for a in range(len(low)) if low[a] == 0 and high[a] == 0)
    elif op.name == "tensor.concat":
        axis = joined_axis(op)
        rank = ir.RankedTensorType(op.results[0].type).rank
        yield from (((n, a), a) for n in range(len(op.operands)) for a in range(rank) if a != axis)
    elif op.name == "tensor.extract_slice":
        yield from _same_slice_axes(op)


def _same_slice_axes(op: ir.Operation) -> Iterator[tuple[tuple[int, int], int]]:
    source, result = ir.RankedTensorType(op.operands[0].type), ir.RankedTensorType(op.results[0].type)
    if source.rank != result.rank:
        return
    offsets, _, strides = box(op)
    for axis in range(source.rank):
        same = source.shape[axis] == result.shape[axis] != DYNAMIC
        if same and offsets[axis] == 0 and strides[axis] == 1:
            yield ((0, axis), axis)
