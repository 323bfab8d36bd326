"""The part of ``Builder`` that makes structured ops: loops over tensors with a body on scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from torch_mlir import ir

from rillet.dialects import linalg
from rillet.frontends.building.conversions import convert, load
from rillet.frontends.building.dimensions import Dimensions
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent

Body: TypeAlias = Callable[..., Scalar | Sequence[Scalar]]


class StructuredOps(Dimensions):
    """Makes ``linalg.generic`` ops. Narrow floats reach their bodies as float32; results are converted back."""

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
            return [convert(r, o[2]).value for r, o in zip(results, outputs, strict=True)]

        operands = [(self.value(t), exprs) for t, exprs in inputs]
        results = builders.generic(operands, [(d, exprs) for d, exprs, _, _ in outputs], iterators, wrapped)
        return [self.tensor(r, o[2], o[3]) for r, o in zip(results, outputs, strict=True)]

    def indexed(self, dtype: str, shape: Sequence[Extent], body: Callable[[list[Scalar]], Scalar]) -> Tensor:
        """A tensor computed from its own indices: ``body`` gets one ``index`` Scalar for each dimension.

        The body may read other tensors with ``element``; that is how gathers are written.
        """

        def wrapped(_: ir.Value) -> ir.Value:
            indices = [Scalar(linalg.IndexOp(axis).result, "index") for axis in range(len(shape))]
            return convert(body(indices), dtype).value

        destination = self.empty(dtype, shape)
        result = builders.generic([], [(destination, builders.dims(len(shape)))], "p" * len(shape), wrapped)
        return self.tensor(result[0], dtype, shape)

    def element(self, source: ir.Value, dtype: str, indices: Sequence[Scalar | Extent]) -> Scalar:
        """One element of a tensor at run-time indices (``tensor.extract``); narrow floats arrive as float32.

        Take ``source`` with ``value(tensor)`` outside the body.
        """
        return load(builders.extract(source, [i.value if isinstance(i, Scalar) else i for i in indices]), dtype)


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
