"""``Builder``, with which frontends compute on tensors. This file has the operations that move data.

``tensor_values`` makes and reads tensors, ``dimensions`` compares their dimensions, ``structured_ops`` makes loops over
them and ``elementwise`` the usual ones. Functions that take a builder do the rest: ``contraction``, ``loops``,
``sorting``, ``interpolation``, ``branches``, ``checks``. Bodies of structured ops work on ``scalars.Scalar``.

Operations that are free as numpy views (reshape, transpose) fold on known arrays, so constants stay constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rillet.frontends.building import scalars
from rillet.frontends.building.elementwise import Elementwise
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.ir import builders
from rillet.ir.builders import Extent


class Builder(Elementwise):
    """Computes with tensors and moves their data."""

    def reshape(self, tensor: Tensor, shape: Sequence[Extent]) -> Tensor:
        """The same elements in row-major order under another shape of the same element count.

        Emits ``collapse_shape``/``expand_shape`` where dimensions group, else ``tensor.reshape``. Raises InvalidNode
        where the element counts are known to differ.
        """
        shape = tuple(shape)
        if self.same_shape(tensor.shape, shape):
            return tensor
        static = all(isinstance(d, int) for d in shape)
        if static and tensor.is_static and math.prod(tensor.static_shape) != math.prod(shape):  # type: ignore[arg-type]
            raise InvalidNode(f"cannot reshape {list(tensor.shape)} to {list(shape)}")
        if tensor.array is not None and static:
            return self.constant(tensor.array.reshape(shape), name=tensor.name)  # type: ignore[arg-type]
        if tensor.elements is not None and static:
            return self.symbolic(tensor.elements, shape, tensor.dtype)  # type: ignore[arg-type]
        if 0 in tensor.shape and 0 in shape:
            return self.tensor(self.empty(tensor.dtype, shape), tensor.dtype, shape)
        groups = self._groups(tensor.shape, shape)
        value = self.value(tensor)
        if groups is None:
            return self.tensor(builders.reshape(value, shape), tensor.dtype, shape)
        sources, targets = groups
        flat = [
            tensor.shape[s[0]]
            if len(s) == 1
            else shape[t[0]]
            if len(t) == 1
            else self.extents.product(shape[i] for i in t)
            for s, t in zip(sources, targets, strict=True)
        ]
        if any(len(s) > 1 for s in sources) or not sources:
            value = builders.collapse_shape(value, sources, flat)
        else:
            value = builders.cast(value, flat)
        if any(len(t) > 1 for t in targets) or not targets:
            value = builders.expand_shape(value, targets, shape)
        else:
            value = builders.cast(value, shape)
        return self.tensor(value, tensor.dtype, shape)

    def same_shape(self, a: Sequence[Extent], b: Sequence[Extent]) -> bool:
        """Whether two shapes are known to be equal."""
        return len(a) == len(b) and all(self.extents.equal(x, y) for x, y in zip(a, b, strict=True))

    def _groups(
        self, source: Sequence[Extent], target: Sequence[Extent]
    ) -> tuple[list[list[int]], list[list[int]]] | None:
        """Pair runs of source and target dimensions of equal product, or None where that is unknown."""
        if not source or not target:
            ok = self.extents.equal(self.extents.product(source), self.extents.product(target))
            return ([], []) if ok and all(d == 1 for d in (*source, *target)) else None
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        i = j = 0
        while i < len(source) and j < len(target):
            left, right = [i], [j]
            a, b = source[i], target[j]
            while not self.extents.equal(a, b):
                # Extend the side that is a factor of the other, else the smaller one.
                extend_left = self.extents.divides(a, b) or (
                    self.extents.provably_le(a, b) and not self.extents.divides(b, a)
                )
                if extend_left and i + 1 < len(source):
                    i += 1
                    left.append(i)
                    a = self.extents.mul(a, source[i])
                elif j + 1 < len(target):
                    j += 1
                    right.append(j)
                    b = self.extents.mul(b, target[j])
                elif i + 1 < len(source):
                    i += 1
                    left.append(i)
                    a = self.extents.mul(a, source[i])
                else:
                    return self._one_group(source, target)
            sources.append(left)
            targets.append(right)
            i, j = i + 1, j + 1
        if i < len(source):
            if any(d != 1 for d in source[i:]):
                return self._one_group(source, target)
            sources[-1].extend(range(i, len(source)))
        if j < len(target):
            if any(d != 1 for d in target[j:]):
                return self._one_group(source, target)
            targets[-1].extend(range(j, len(target)))
        return sources, targets

    def _one_group(
        self, source: Sequence[Extent], target: Sequence[Extent]
    ) -> tuple[list[list[int]], list[list[int]]] | None:
        if not self.extents.equal(self.extents.product(source), self.extents.product(target)):
            return None
        return [list(range(len(source)))], [list(range(len(target)))]

    def squeeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Remove dimensions of extent 1 (an unknown extent is taken to be 1).

        Raises InvalidNode for a known extent other than 1.
        """
        for axis in axes:
            if isinstance(tensor.shape[axis], int) and tensor.shape[axis] != 1:
                raise InvalidNode(f"axis {axis} of extent {tensor.shape[axis]} cannot be squeezed")
        target = [d for axis, d in enumerate(tensor.shape) if axis not in axes]
        ones = [1 if axis in axes else d for axis, d in enumerate(tensor.shape)]
        if not self.same_shape(ones, tensor.shape):
            tensor = self.tensor(builders.cast(self.value(tensor), ones), tensor.dtype, ones)
        return self.reshape(tensor, target)

    def unsqueeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Insert dimensions of extent 1 at the given positions of the result."""
        shape = list(tensor.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return self.reshape(tensor, shape)

    def transpose(self, tensor: Tensor, permutation: Sequence[int]) -> Tensor:
        """Dimension ``i`` of the result is dimension ``permutation[i]`` of the operand."""
        permutation = list(permutation)
        if permutation == list(range(tensor.rank)):
            return tensor
        shape = [tensor.shape[p] for p in permutation]
        if tensor.array is not None:
            return self.constant(tensor.array.transpose(permutation), name=tensor.name)
        moved = [p for p in permutation if tensor.shape[p] != 1]
        if moved == sorted(moved):  # only unit dimensions move
            return self.reshape(tensor, shape)
        return self.map_along(lambda x: x, shape, (tensor, permutation_inverse(permutation)), dtype=tensor.dtype)

    def broadcast_to(self, tensor: Tensor, shape: Sequence[Extent]) -> Tensor:
        """Materialize the broadcast of ``tensor`` to ``shape`` (either side may be 1)."""
        full = self.broadcast_shape([tensor.shape, shape])
        return self.broadcast_exactly(tensor, full)

    def broadcast_exactly(self, tensor: Tensor, shape: Sequence[Extent]) -> Tensor:
        """Materialize the broadcast of ``tensor`` to ``shape``, which differs in its dimensions of extent 1 only."""
        if self.same_shape(shape, tensor.shape):
            return tensor
        if tensor.array is not None and all(isinstance(d, int) for d in shape):
            return self.constant(np.broadcast_to(tensor.array, shape), name=tensor.name)  # type: ignore[arg-type]
        return self.map(lambda x: x, tensor, shape=shape)

    def pad(
        self, tensor: Tensor, low: Sequence[Extent], high: Sequence[Extent], value: int | float | bool | Scalar = 0
    ) -> Tensor:
        """Pad with a scalar; amounts must not be negative."""
        if all(a == 0 for a in (*low, *high)):
            return tensor
        shape = [self.extents.add(self.extents.add(d, a), b) for d, a, b in zip(tensor.shape, low, high, strict=True)]
        scalar = value if isinstance(value, Scalar) else scalars.constant(value, tensor.dtype)
        return self.tensor(builders.pad(self.value(tensor), low, high, shape, scalar.value), tensor.dtype, shape)

    def slice(
        self,
        tensor: Tensor,
        offsets: Sequence[Extent],
        sizes: Sequence[Extent],
        strides: Sequence[int] | None = None,
    ) -> Tensor:
        """A box of the tensor; strides must be positive."""
        strides = list(strides) if strides is not None else [1] * tensor.rank
        if all(o == 0 for o in offsets) and self.same_shape(sizes, tensor.shape) and all(s == 1 for s in strides):
            return tensor
        if tensor.array is not None and all(isinstance(e, int) for e in (*offsets, *sizes)):
            index = tuple(
                np.s_[o : o + (n - 1) * s + 1 : s] if n else np.s_[0:0]  # type: ignore[operator]
                for o, n, s in zip(offsets, sizes, strides, strict=True)
            )
            return self.constant(tensor.array[index], name=tensor.name)
        if any(isinstance(n, int) and n == 0 for n in sizes):
            return self.tensor(self.empty(tensor.dtype, sizes), tensor.dtype, sizes)
        value = builders.extract_slice(self.value(tensor), offsets, sizes, strides)
        return self.tensor(value, tensor.dtype, sizes)

    def slice_axis(self, tensor: Tensor, axis: int, offset: Extent, size: Extent) -> Tensor:
        """``size`` consecutive positions of one dimension from ``offset``."""
        offsets: list[Extent] = [0] * tensor.rank
        sizes = list(tensor.shape)
        offsets[axis], sizes[axis] = offset, size
        return self.slice(tensor, offsets, sizes)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenate along ``axis``; operands of extent 0 there are dropped.

        Raises InvalidNode where the other dimensions differ.
        """
        parts = [t for t in tensors if t.shape[axis] != 0] or [tensors[0]]
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        for part in parts[1:]:
            for i, extent in enumerate(part.shape):
                if i == axis:
                    continue
                known = shape[i]
                if isinstance(known, int) and isinstance(extent, int) and known != extent:
                    raise InvalidNode(f"cannot concatenate {list(part.shape)} and {shape} along axis {axis}")
                shape[i] = known if isinstance(known, int) else extent
        shape[axis] = self.extents.sum(part.shape[axis] for part in parts)
        values = [
            builders.cast(self.value(p), [p.shape[i] if i == axis else d for i, d in enumerate(shape)]) for p in parts
        ]
        return self.tensor(builders.concat(values, axis, shape), parts[0].dtype, shape)


def permutation_inverse(permutation: Sequence[int]) -> list[int]:
    """The permutation that undoes ``permutation``."""
    inverse = [0] * len(permutation)
    for position, source in enumerate(permutation):
        inverse[source] = position
    return inverse
