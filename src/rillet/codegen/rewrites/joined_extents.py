"""Extents of merged axes, which only run time knows: products that the kernel computes from its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.codegen.recognize.kernel_function import EXTENT, KernelFunction, Port
from rillet.dialects import flow
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.extents import Sizes
from rillet.ir.rewrite import defining
from rillet.ir.structured import DYNAMIC


class JoinedExtents:
    """The extents of one kernel's tensors, before and after axes are merged."""

    def __init__(self, function: KernelFunction) -> None:
        self._function = function
        self._sizes = Sizes({p.value: _extents(p) for p in (*function.results, *function.arguments)})
        self._products: dict[tuple[Extent, ...], Extent] = {}
        self._first = [*function.tensor_ops, list(function.block.operations)[-1]][0]

    def of(self, value: ir.Value) -> list[Extent]:
        """The extents of a tensor now."""
        return [self._sizes.extent(value, axis) for axis in range(ir.RankedTensorType(value.type).rank)]

    def product(self, extents: Sequence[Extent]) -> Extent:
        """The product of extents; computed before the kernel's first tensor, or its end when it only copies."""
        key = tuple(extents)
        if key not in self._products:
            with ir.InsertionPoint(self._first), ir.Location.unknown():
                total: Extent = 1
                for extent in extents:
                    total = _times(total, extent)
            self._products[key] = total
        return self._products[key]

    def follow(self, merged: Mapping[ir.Value, Sequence[Extent]]) -> None:
        """Make empty tensors and the function's description follow tensors that have these extents now."""
        for op in [view.operation for view in self._function.block.operations]:
            if op.name == "tensor.empty" and op.results[0] in merged:
                with ir.InsertionPoint(op), op.location:
                    made = builders.empty(merged[op.results[0]], ir.RankedTensorType(op.results[0].type).element_type)
                op.results[0].replace_all_uses_with(made)
                op.erase()
        ports = {"arg_attrs": self._function.arguments, "res_attrs": self._function.results}
        returned = list(self._function.block.operations)[-1].operands
        held = {"arg_attrs": [p.value for p in self._function.arguments], "res_attrs": list(returned)}
        for values in held.values():
            for extent in (e for v in values for e in merged[v] if not isinstance(e, int)):
                maker = defining(extent)
                if maker is not None:
                    maker.attributes[EXTENT] = ir.UnitAttr.get()
        for side in ports:
            self._describe(side, [merged[v] for v in held[side]])

    def _describe(self, side: str, extents: Sequence[Sequence[Extent]]) -> None:
        function = self._function.function
        scalars = [*self._function.block.arguments]
        scalars += [
            op.operation.results[0] for op in self._function.block.operations if EXTENT in op.operation.attributes
        ]
        described = list(ir.ArrayAttr(function.attributes[side])) if side in function.attributes else []
        for number, own in enumerate(extents):
            numbers = [scalars.index(e) for e in own if not isinstance(e, int)]
            if number < len(described):
                rest = {named.name: named.attr for named in ir.DictAttr(described[number]) if named.name != flow.DIMS}
                if numbers:
                    rest[flow.DIMS] = ir.DenseI64ArrayAttr.get(numbers)
                described[number] = ir.DictAttr.get(rest)
        if described:
            function.attributes[side] = ir.ArrayAttr.get(described)


def _extents(port: Port) -> list[Extent]:
    dims = iter(port.dims)
    return [next(dims) if e == DYNAMIC else e for e in port.type.shape]


def _times(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 1 or b == 1:
        return b if a == 1 else a
    return arith.MulIOp(builders.as_index(a), builders.as_index(b)).result
