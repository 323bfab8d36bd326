"""The importer's tensors, and the builder that op importers use to compute with them.

A ``Tensor`` has an element type (numpy or ml_dtypes name), extents, and one of three contents:

- ``array``: a numpy array known at compile time (initializers, folded results), materialized only when an op needs
  its value;
- ``elements``: scalars known one by one (a shape computation): ``int`` or ``index`` value each, ``bool`` or ``i1``
  for bools;
- ``value``: an SSA tensor.

``Builder`` is split by concern: this file has the core (materialization, structured ops, elementwise maps with
broadcasting, reductions); ``layout.py`` moves data (reshape, transpose, slice, pad, concat, ...). Importers see both
as one class, ``layout.Builder``. Bodies of structured ops work on ``scalars.Scalar``; narrow floats arrive as float32
and results are converted back to the output's type, so importers never handle storage types themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from rillet.errors import advice
from rillet.frontends.building import e8m0, scalars
from rillet.frontends.building.extent_arithmetic import Extents, Flag
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.ir import Program, builders, constants, dtypes, locations
from rillet.ir.builders import Expr, Extent

_MAX_EXTENTS = 4096
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
Element: TypeAlias = Extent | Flag
Body = Callable[..., Scalar | Sequence[Scalar]]


@dataclass(eq=False)
class Tensor:
    """A tensor during import; see the module's docstring. Make one with the builder's methods."""

    dtype: str
    shape: tuple[Extent, ...]
    value: ir.Value | None = None
    array: np.ndarray | None = None
    elements: tuple[Element, ...] | None = None
    name: str = field(default="")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every extent is known."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a static tensor."""
        if not self.is_static:
            raise UnsupportedFeature(
                "it needs a shape known at compile time",
                advice("pin the inputs' shapes: inputs={...}, dims={...}", "pin the inputs' shapes: --shape, --dim"),
            )
        return tuple(d for d in self.shape if isinstance(d, int))


class TensorBuilder:
    """Computes with tensors at the current insertion point and location."""

    def __init__(self, program: Program, anchor: ir.Operation):
        """``anchor`` is an operation in the entry block; constants go before it, so that they dominate every use."""
        self.program = program
        self.extents = Extents()
        self._anchor = anchor

    # --- making tensors ---

    def tensor(self, value: ir.Value, dtype: str, shape: Sequence[Extent]) -> Tensor:
        """Wrap an SSA tensor whose extents are known."""
        return Tensor(dtype, tuple(shape), value=value)

    def wrap(self, value: ir.Value, dtype: str) -> Tensor:
        """Wrap an SSA tensor, reading unknown extents with ``tensor.dim``."""
        rank = ir.RankedTensorType(value.type).rank
        shape = [builders.dim(value, axis) for axis in range(rank)]
        return Tensor(dtype, tuple(d if isinstance(d, int) else self.extents.declare(d) for d in shape), value=value)

    def constant(
        self, array: np.ndarray | Sequence | int | float | bool, dtype: str | None = None, name: str = ""
    ) -> Tensor:
        """A tensor known at compile time. The array is kept by reference."""
        array = np.asarray(array, dtype=dtypes.by_name[dtype].numpy if dtype else None)
        return Tensor(array.dtype.name, array.shape, array=array, name=name)

    def symbolic(self, elements: Sequence[Element], shape: Sequence[int], dtype: str = "int64") -> Tensor:
        """A tensor known element by element (row-major); a plain constant when all elements are."""
        if all(isinstance(e, int | bool) for e in elements):
            return self.constant(np.array(elements, dtype=dtypes.by_name[dtype].numpy).reshape(shape))
        return Tensor(dtype, tuple(shape), elements=tuple(elements))

    def fill(self, value: int | float | bool | Scalar, dtype: str, shape: Sequence[Extent]) -> Tensor:
        """A tensor full of ``value``; a constant when the shape is static and the value a number."""
        if not isinstance(value, Scalar) and all(isinstance(d, int) for d in shape):
            element = np.asarray(value).astype(dtypes.by_name[dtype].numpy)
            return self.constant(np.broadcast_to(element, [d for d in shape if isinstance(d, int)]))
        scalar = value if isinstance(value, Scalar) else scalars.constant(value, dtype)
        return self.tensor(builders.fill(scalar.value, shape), dtype, shape)

    def init(self, value: int | float | bool, dtype: str, shape: Sequence[Extent]) -> ir.Value:
        """A ``linalg.fill``ed destination for a reduction."""
        return builders.fill(scalars.constant(value, dtype).value, shape)

    def empty(self, dtype: str, shape: Sequence[Extent]) -> ir.Value:
        """A ``tensor.empty`` destination. Raises InvalidNode for extents that no tensor has."""
        if any(isinstance(d, int) and not 0 <= d < 1 << 48 for d in shape):
            raise InvalidNode(f"a tensor of shape {[d if isinstance(d, int) else '?' for d in shape]} is impossible")
        return builders.empty(shape, scalars.element_type(dtype))

    # --- reading tensors ---

    def value(self, tensor: Tensor) -> ir.Value:
        """The SSA value, materializing a constant (once, at the top of the function) or symbolic elements."""
        if tensor.value is not None:
            return tensor.value
        if tensor.array is not None:
            tensor.value = self._materialize(tensor.array, tensor.name)
            return tensor.value
        assert tensor.elements is not None
        values = [self._element_value(e, tensor.dtype).value for e in tensor.elements]
        return builders.from_elements(values, [d for d in tensor.shape if isinstance(d, int)])

    def _materialize(self, array: np.ndarray, name: str) -> ir.Value:
        with ir.InsertionPoint(self._anchor):
            if scalars.is_complex(array.dtype.name):
                raise UnsupportedFeature(f"constants of type {array.dtype.name}")
            if array.dtype.name == e8m0.DTYPE:
                array = array.view(np.uint8)
            # A broadcast array (all strides 0) must not be expanded just to learn that it is a splat.
            if array.size and not any(array.strides):
                element = scalars.element_type(array.dtype.name)
                type_ = ir.RankedTensorType.get(array.shape, element)
                attribute = ir.DenseElementsAttr.get_splat(type_, constants.scalar_attr(array.flat[0], element))
                return arith.ConstantOp(type_, attribute).result
            return constants.constant(self.program, array, name or "constant")

    def _element_value(self, element: Element, dtype: str) -> Scalar:
        if isinstance(element, int | bool):
            return scalars.constant(element, dtype)
        source = "index" if isinstance(element.type, ir.IndexType) else "bool"
        return scalars.convert(Scalar(element, source), dtype)

    def known(self, tensor: Tensor | None, what: str) -> np.ndarray:
        """The array of a tensor that must be known at compile time; ``what`` names it in the error."""
        if tensor is not None and tensor.array is not None:
            return tensor.array
        raise UnsupportedFeature(f"{what} must be known at compile time", f"make {what} an initializer")

    def extents_of(self, tensor: Tensor, what: str, count: int | None = None) -> list[Extent]:
        """The elements of a 0-D or 1-D integer tensor as extents; read at run time where they are not known.

        ``count`` is how many there must be, if the length is not known.
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
        return [scalars.convert(Scalar(v, tensor.dtype), "index").value for v in read]

    def _element_index(self, element: ir.Value) -> ir.Value:
        if isinstance(element.type, ir.IndexType):
            return element
        return scalars.convert(Scalar(element, "bool"), "index").value

    def scalar(self, tensor: Tensor) -> Scalar:
        """The only element of a tensor of one element, as a scalar."""
        if tensor.array is not None and tensor.array.size == 1 and not scalars.is_complex(tensor.dtype):
            return scalars.constant(tensor.array.reshape(-1)[0], tensor.dtype)
        if tensor.elements is not None and len(tensor.elements) == 1:
            return self._element_value(tensor.elements[0], tensor.dtype)
        return Scalar(builders.extract(self.value(tensor), [0] * tensor.rank), tensor.dtype)

    # --- structured ops ---

    def generic(
        self,
        inputs: Sequence[tuple[Tensor, Sequence[Expr]]],
        outputs: Sequence[tuple[ir.Value, Sequence[Expr], str, Sequence[Extent]]],
        iterators: str,
        body: Body,
    ) -> list[Tensor]:
        """A ``linalg.generic`` on tensors.

        Each output is (destination, indexing expressions, dtype, extents). ``body`` gets one Scalar for each input
        and output, with narrow floats extended to float32, and returns Scalars, which are converted back to the
        outputs' types.
        """
        names = [t.dtype for t, _ in inputs] + [dtype for _, _, dtype, _ in outputs]
        _check_loops([*((t.shape, e) for t, e in inputs), *((extents, e) for _, e, _, extents in outputs)])

        def wrapped(*values: ir.Value) -> list[ir.Value]:
            arguments = [load(v, dtype) for v, dtype in zip(values, names, strict=True)]
            results = body(*arguments)
            results = [results] if isinstance(results, Scalar) else results
            return [scalars.convert(r, o[2]).value for r, o in zip(results, outputs, strict=True)]

        operands = [(self.value(t), exprs) for t, exprs in inputs]
        results = builders.generic(operands, [(d, exprs) for d, exprs, _, _ in outputs], iterators, wrapped)
        return [self.tensor(r, o[2], o[3]) for r, o in zip(results, outputs, strict=True)]

    def indexed(self, dtype: str, shape: Sequence[Extent], body: Callable[[list[Scalar]], Scalar]) -> Tensor:
        """A tensor computed from its own indices: ``body`` gets one ``index`` Scalar for each dimension.

        The body may read other tensors with ``element``; that is how gathers are written.
        """
        from torch_mlir.dialects import linalg

        def wrapped(_: ir.Value) -> ir.Value:
            indices = [Scalar(linalg.IndexOp(axis).result, "index") for axis in range(len(shape))]
            return scalars.convert(body(indices), dtype).value

        destination = self.empty(dtype, shape)
        result = builders.generic([], [(destination, builders.dims(len(shape)))], "p" * len(shape), wrapped)
        return self.tensor(result[0], dtype, shape)

    def element(self, source: ir.Value, dtype: str, indices: Sequence[Scalar | Extent]) -> Scalar:
        """One element of a tensor at run-time indices (``tensor.extract``); narrow floats arrive as float32.

        Take ``source`` with ``value(tensor)`` outside the body.
        """
        return load(builders.extract(source, [i.value if isinstance(i, Scalar) else i for i in indices]), dtype)

    # --- agreement of extents ---

    def agree(self, a: Extent, b: Extent, text: str = "dimensions {0} and {1} do not agree") -> Extent:
        """The extent of two dimensions that must be equal; asserted where that is not known, with ``text``."""
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
        """The tensor with dimensions that must be those of ``shape`` (None: whatever it is); its type becomes as static
        as they are. ``name`` is what errors call the operand.
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

    # --- elementwise ---

    def broadcast_extent(self, a: Extent, b: Extent) -> Extent:
        """The extent two broadcast dimensions have together."""
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
        # Either may be 1 at run time; what is not 1 wins.
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
                if isinstance(extent, ir.Value) and not self.extents.same_if_valid(extent, target) and target != 1:
                    self._require_broadcast(extent, target)

    def broadcast_shape(self, shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
        """The common shape under ONNX's (numpy's) broadcasting."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Extent] = [1] * rank
        for shape in shapes:
            for axis, extent in enumerate(shape, rank - len(shape)):
                result[axis] = self.broadcast_extent(result[axis], extent)
        return result

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
        from torch_mlir.dialects import linalg

        indices: list[Extent] = []
        for axis, flag in enumerate(flags, rank - len(flags)):
            if flag is True:
                indices.append(0)
                continue
            position = linalg.IndexOp(axis).result
            indices.append(position if flag is False else arith.select(flag, builders.index(0), position))
        return load(builders.extract(source, indices), dtype)

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
        """Convert elements as ``scalars.convert`` does."""
        if tensor.dtype == dtype:
            return tensor
        return self.map(lambda x: scalars.convert(x, dtype), tensor, dtype=dtype)

    # --- reductions ---

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
        dtype = dtype or scalars.compute_dtype(tensor.dtype)
        loops = builders.dims(tensor.rank)
        kept = [axis for axis in range(tensor.rank) if axis not in axes]
        shape = [tensor.shape[axis] for axis in kept]
        output = (self.init(init, dtype, shape), [loops[axis] for axis in kept], dtype, shape)
        iterators = "".join("r" if axis in axes else "p" for axis in range(tensor.rank))
        return self.generic(
            [(tensor, loops)], [output], iterators, lambda x, acc: body(scalars.convert(x, acc.dtype), acc)
        )[0]

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


def _listed(shape: Sequence[Extent | None]) -> str:
    return f"[{', '.join(str(d) if isinstance(d, int) else '?' for d in shape)}]"


def _check_loops(operands: Sequence[tuple[Sequence[Extent], Sequence[Expr]]]) -> None:
    """Raise InvalidNode when two operands give one loop different extents: shapes that an importer takes to agree."""
    known: dict[int, int] = {}
    for shape, exprs in operands:
        for extent, expr in zip(shape, exprs, strict=True):
            if not isinstance(extent, int) or not isinstance(expr, ir.AffineDimExpr):
                continue
            position = expr.position
            if known.setdefault(position, extent) != extent:
                raise InvalidNode(f"dimensions {known[position]} and {extent} of its inputs must be equal")


def load(value: ir.Value, dtype: str) -> Scalar:
    """A tensor's element as a Scalar in the type in which it computes: narrow floats become float32."""
    return scalars.convert(Scalar(value, dtype), scalars.compute_dtype(dtype))
