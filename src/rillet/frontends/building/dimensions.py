"""The part of ``Builder`` for dimensions: reads them from tensors, and makes those of several tensors agree."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.building.tensor_values import TensorValues
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.ir import builders, locations
from rillet.ir.builders import Extent

_MAX_EXTENTS = 4096
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Dimensions(TensorValues):
    """Reads and compares dimensions. Extents not known at compile time are read or asserted at run time, once."""

    def extents_of(self, tensor: Tensor, what: str, count: int | None = None) -> list[Extent]:
        """The elements of a 0-D or 1-D integer tensor as extents; read at run time where they are not known.

        ``count`` is the number of elements that there must be where the length is not known. Raises UnsupportedFeature
        where the count is not known, or too large to read one by one.
        """
        if count is not None and tensor.rank == 1 and not tensor.is_static:
            tensor = self.refine(tensor, [count])
        if tensor.array is not None:
            return [int(v) for v in tensor.array.reshape(-1)]
        if tensor.elements is not None:
            return [e if isinstance(e, int) else self._element_index(e) for e in tensor.elements]
        if tensor.rank > 1 or not tensor.is_static:
            raise UnsupportedFeature(
                f"{what} has a length that is not known at compile time", f"give {what} a fixed length"
            )
        value = self.value(tensor)
        count = math.prod(tensor.static_shape)
        if count > _MAX_EXTENTS:
            raise UnsupportedFeature(f"{what} has {count:,} elements; at most {_MAX_EXTENTS:,} can be read one by one")
        read = [builders.extract(value, [i] if tensor.rank else []) for i in range(count)]
        return [convert(Scalar(v, tensor.dtype), "index").value for v in read]

    def scalar(self, tensor: Tensor) -> Scalar:
        """See ``TensorValues.scalar``; that there is one element is asserted. Raises InvalidNode where there is not."""
        for extent in tensor.shape:
            self.agree(extent, 1, "an operand must have {1} element, but a dimension of it is {0}")
        return super().scalar(tensor)

    def _element_index(self, element: ir.Value) -> ir.Value:
        if isinstance(element.type, ir.IndexType):
            return element
        return convert(Scalar(element, "bool"), "index").value

    def agree(self, a: Extent, b: Extent, text: str = "dimensions {0} and {1} do not agree") -> Extent:
        """The extent of two dimensions that must be equal; where that is not known, an assertion says ``text``.

        Raises InvalidNode for known extents that differ.
        """
        if self.extents.equal(a, b):
            return a
        if isinstance(a, int) and isinstance(b, int):
            raise InvalidNode(f"dimensions {a} and {b} of its inputs must be equal")
        if self.extents.first_time(("equal", a, b)):
            self.require("eq", a, b, text)
        return a if isinstance(a, int) else b

    def require(self, predicate: str, a: Extent, b: Extent, text: str, or_else: Flag = False) -> None:
        """Assert a comparison of extents, or ``or_else``; ``{0}`` and ``{1}`` in ``text`` stand for the extents.

        Raises InvalidNode when it is known not to hold.
        """
        known = self.extents.compare(predicate, a, b)
        if known is True or or_else is True:
            return
        if known is False and or_else is False:
            raise InvalidNode(text.format(*(d if isinstance(d, int) else "?" for d in (a, b))))
        if isinstance(a, int):  # a constant goes right: that is where canonicalization would move it
            a, b, predicate = b, a, _MIRRORED[predicate]
            text = text.replace("{0}", "{2}").replace("{1}", "{0}").replace("{2}", "{1}")
            known = False
        # The comparison that the message quotes comes first.
        condition = known if isinstance(known, ir.Value) else self.extents.test(predicate, a, b)
        if isinstance(or_else, ir.Value):
            condition = arith.ori(condition, or_else)
        cf.assert_(condition, f"{locations.label(ir.Location.current)}: {text}")

    def refine(self, tensor: Tensor, shape: Sequence[Extent | None], name: str = "") -> Tensor:
        """The tensor, whose dimensions must be those of ``shape`` (None: any extent), in a type as static as they are.
        Errors call the operand ``name``.

        Raises InvalidNode for another rank or known extents that differ.
        """
        if tensor.rank != len(shape) and not name:
            raise InvalidNode(f"an input of rank {tensor.rank} must have {len(shape)} dimensions")
        pairs = list(zip(tensor.shape, shape, strict=False))
        known = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
        if name and (tensor.rank != len(shape) or any(a != b for a, b in known)):
            raise InvalidNode(f"input '{name}' is {_listed(tensor.shape)}, not {_listed(shape)}")
        text = f"dimension %d of input '{name}' is {{0}}, not {{1}}" if name else "dimensions {0} and {1} do not agree"
        agreed = [
            own if wanted is None else self.agree(own, wanted, text.replace("%d", str(axis)))
            for axis, (own, wanted) in enumerate(pairs)
        ]
        if all(a is b for a, b in zip(tensor.shape, agreed, strict=True)) or tensor.value is None:
            return tensor
        return self.tensor(builders.cast(tensor.value, agreed), tensor.dtype, agreed)

    def broadcast_extent(self, a: Extent, b: Extent) -> Extent:
        """The common extent of two dimensions that broadcast. Raises InvalidNode for known ones that do not."""
        if self.extents.equal(a, b) or b == 1:
            return a
        if a == 1:
            return b
        if isinstance(a, int) and isinstance(b, int):
            raise InvalidNode(f"dimensions {a} and {b} do not broadcast")
        if self.extents.same_if_valid(a, b):
            return self.extents.unclamped(a, b)
        self._require_broadcast(a, b)
        if isinstance(a, int) or isinstance(b, int):
            return a if isinstance(a, int) else b
        # Either may be 1 at run time; the other one wins then.
        return self.extents.select(self.extents.compare("eq", a, 1), b, a)

    def _require_broadcast(self, a: Extent, b: Extent) -> None:
        """Assert at run time that two dimensions broadcast."""
        if not self.extents.first_time(("broadcast", a, b)):
            return
        units = [self.extents.compare("eq", a, 1), self.extents.compare("eq", b, 1)]
        if any(flag is True for flag in units):
            return
        open_ = [flag for flag in units if not isinstance(flag, bool)]
        unit = functools.reduce(arith.ori, open_) if open_ else False
        self.require("eq", a, b, "dimensions {0} and {1} do not broadcast", or_else=unit)

    def _require_broadcast_to(self, tensors: Sequence[Tensor], shape: Sequence[Extent]) -> None:
        """Assert that unknown extents are 1 or those of ``shape``; known ones are compared where they are used."""
        for tensor in tensors:
            for extent, target in zip(tensor.shape, shape[len(shape) - tensor.rank :], strict=True):
                if isinstance(extent, int) or self.extents.same_if_valid(extent, target):
                    continue
                if self.extents.first_time(("broadcast to", extent, target)):
                    unit = self.extents.compare("eq", extent, 1)
                    self.require("eq", extent, target, "dimensions {0} and {1} do not broadcast", or_else=unit)

    def broadcast_shape(self, shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
        """The common shape under numpy's broadcasting."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Extent] = [1] * rank
        for shape in shapes:
            for axis, extent in enumerate(shape, rank - len(shape)):
                result[axis] = self.broadcast_extent(result[axis], extent)
        return result


def _listed(shape: Sequence[Extent | None]) -> str:
    return f"[{', '.join(str(d) if isinstance(d, int) else '?' for d in shape)}]"
