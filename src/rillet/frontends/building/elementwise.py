"""The part of ``Builder`` that computes elementwise with broadcasting, and reduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.dialects import linalg
from rillet.frontends.building import element_types
from rillet.frontends.building.conversions import convert, load
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.structured_ops import Body, StructuredOps
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent


class Elementwise(StructuredOps):
    """Maps scalar functions over tensors."""

    def map(
        self, body: Body, *tensors: Tensor, dtype: str | None = None, shape: Sequence[Extent] | None = None
    ) -> Tensor:
        """Apply a scalar function elementwise with broadcasting.

        ``dtype`` is the result's type (default: the first operand's). Broadcast dimensions are left out of the
        operand's indexing map, so nothing is materialized. ``shape`` is the result's shape if not the operands'
        common one; they broadcast to it.
        """
        return self.map_many(body, *tensors, dtypes=[dtype or tensors[0].dtype], shape=shape)[0]

    def map_many(
        self, body: Body, *tensors: Tensor, dtypes: Sequence[str], shape: Sequence[Extent] | None = None
    ) -> list[Tensor]:
        """``map`` with one result for each of ``dtypes``."""
        given = shape is not None
        shape = list(shape) if shape is not None else self.broadcast_shape([t.shape for t in tensors])
        if given:
            self._require_broadcast_to(tensors, shape)
        loops = builders.dims(len(shape))
        inputs: list[tuple[Tensor, Sequence[Expr]]] = []
        sources: list[int | tuple[ir.Value, str, list[Flag]]] = []
        for tensor in tensors:
            uncertain = self._uncertain(tensor, shape)
            if any(not isinstance(flag, bool) for flag in uncertain):
                sources.append((self.value(tensor), tensor.dtype, uncertain))
                continue
            sources.append(len(inputs))
            inputs.append(self._broadcast_operand(tensor, shape, loops))

        def wrapped(*arguments: Scalar) -> Sequence[Scalar]:
            values = [arguments[s] if isinstance(s, int) else self._broadcast_element(*s, len(shape)) for s in sources]
            result = body(*values)
            return [result] if isinstance(result, Scalar) else result

        outputs = [(self.empty(dtype, shape), loops, dtype, shape) for dtype in dtypes]
        return self.generic(inputs, outputs, "p" * len(shape), wrapped)

    def _uncertain(self, tensor: Tensor, shape: Sequence[Extent]) -> list[Flag]:
        """For each dimension: whether it is broadcast; an ``i1`` value when only run time can tell."""
        flags: list[Flag] = []
        for extent, target in zip(tensor.shape, shape[len(shape) - tensor.rank :], strict=True):
            if isinstance(extent, int):
                flags.append(extent == 1 and target != 1)
            elif self.extents.same_if_valid(extent, target):
                flags.append(False)
            else:
                flags.append(self.extents.compare("eq", extent, 1))
        return flags

    def _broadcast_operand(
        self, tensor: Tensor, shape: Sequence[Extent], loops: Sequence[ir.AffineExpr]
    ) -> tuple[Tensor, list[Expr]]:
        offset = len(shape) - tensor.rank
        kept = [axis for axis, extent in enumerate(tensor.shape) if not (extent == 1 and shape[axis + offset] != 1)]
        # A tensor of one element carries no dimension at all.
        if tensor.is_static and math.prod(tensor.static_shape) == 1:
            kept = [] if any(d != 1 for d in shape) else kept
        exprs: list[Expr] = [loops[axis + offset] for axis in kept]
        return (tensor if len(kept) == tensor.rank else self.drop_unit_dims(tensor, kept)), exprs

    def _broadcast_element(self, source: ir.Value, dtype: str, flags: Sequence[Flag], rank: int) -> Scalar:
        indices: list[Extent] = []
        for axis, flag in enumerate(flags, rank - len(flags)):
            if flag is True:
                indices.append(0)
                continue
            position = linalg.IndexOp(axis).result
            indices.append(position if flag is False else arith.select(flag, builders.index(0), position))
        return load(builders.extract(source, indices, in_bounds=True), dtype)

    def drop_unit_dims(self, tensor: Tensor, kept: Sequence[int]) -> Tensor:
        """The tensor without the dimensions not in ``kept``, all of which must be 1."""
        shape = [tensor.shape[axis] for axis in kept]
        if tensor.array is not None:
            dropped = tuple(a for a in range(tensor.rank) if a not in kept)
            squeezed = self.constant(tensor.array.squeeze(dropped), name=tensor.name)
            return squeezed
        groups: list[list[int]] = []
        for axis in range(tensor.rank):
            if axis in kept or not groups:
                # Unit dimensions before the first kept one join its group.
                if groups and not any(a in kept for a in groups[-1]):
                    groups[-1].append(axis)
                else:
                    groups.append([axis])
            else:
                groups[-1].append(axis)
        value = builders.collapse_shape(self.value(tensor), groups if kept else [], shape)
        return self.tensor(value, tensor.dtype, shape)

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        """Convert elements as ``conversions.convert`` does."""
        if tensor.dtype == dtype:
            return tensor
        return self.map(lambda x: convert(x, dtype), tensor, dtype=dtype)

    def reduce(
        self,
        tensor: Tensor,
        axes: Sequence[int],
        init: int | float | bool,
        body: Callable[[Scalar, Scalar], Scalar],
        dtype: str | None = None,
    ) -> Tensor:
        """Reduce over ``axes`` (non-negative), which disappear: ``acc = body(element, acc)`` from ``init``.

        Elements are converted to ``dtype`` (default: the type in which the operand computes) before ``body`` sees
        them; the result has that type.
        """
        dtype = dtype or element_types.compute_dtype(tensor.dtype)
        loops = builders.dims(tensor.rank)
        kept = [axis for axis in range(tensor.rank) if axis not in axes]
        shape = [tensor.shape[axis] for axis in kept]
        output = (self.init(init, dtype, shape), [loops[axis] for axis in kept], dtype, shape)
        iterators = "".join("r" if axis in axes else "p" for axis in range(tensor.rank))
        return self.generic([(tensor, loops)], [output], iterators, lambda x, acc: body(convert(x, acc.dtype), acc))[0]

    def map_along(
        self, body: Body, shape: Sequence[Extent], *operands: tuple[Tensor, Sequence[int]], dtype: str
    ) -> Tensor:
        """Elementwise over ``shape`` where each operand covers only the given dimensions of it, in order.

        This is how per-channel and per-row operands are combined with a full tensor without reshaping them.
        """
        loops = builders.dims(len(shape))
        inputs = [(tensor, [loops[axis] for axis in axes]) for tensor, axes in operands]
        output = (self.empty(dtype, shape), loops, dtype, shape)
        return self.generic(inputs, [output], "p" * len(shape), lambda *arguments: body(*arguments[:-1]))[0]
