"""Inlining a ``linalg.generic``'s body on scalars or on vectors.

Values are scalars where every operand is uniform and vectors of ``lanes`` otherwise; a scalar meeting a vector is
broadcast. Math functions and small floats stay as ops of the ``math``/``arith`` dialects: ``codegen.cpu.legalize``
expands them later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, is_uniform, to_vector
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import broadcast
from rillet.ir.rewrite import create_like, defining
from rillet.ir.structured import IN_BOUNDS, Structured, index_loop

# Reads element ``coordinates`` of a tensor that the body captures, which is a value of the kernel; the last argument
# says whether the coordinates must be checked.
Reader = Callable[[ir.Value, list[Coordinate], bool], ir.Value]


def inline_body(
    generic: Structured,
    operands: Sequence[ir.Value],
    kernel: KernelBuilder,
    *,
    coordinates: Sequence[Coordinate] = (),
    lanes: int = 1,
    read: Reader | None = None,
) -> list[ir.Value]:
    """Emit the body on ``operands`` (inputs, then inits: scalars or ``vector<lanes>``) and return what it yields.

    ``coordinates`` are the loop coordinates, needed when the body has ``linalg.index``; ``read`` is needed when it has
    ``tensor.extract``. A body with regions inside (``scf.if``) needs ``lanes == 1``: see ``is_vectorizable``.
    """
    inliner = Inliner(kernel, coordinates, lanes, read)
    inliner.values.update(zip(generic.body.arguments, operands, strict=True))
    return inliner.block(generic.body)


def inline_value(
    generic: Structured, value: ir.Value, operands: Sequence[ir.Value], kernel: KernelBuilder, *, lanes: int
) -> ir.Value:
    """Emit what the body's ``value`` is computed from, on ``operands`` as ``inline_body`` takes them, and no more. It
    depends on no loop's index."""
    inliner = Inliner(kernel, (), lanes, None)
    inliner.values.update(zip(generic.body.arguments, operands, strict=False))  # its inits may be missing

    def visit(wanted: ir.Value) -> None:
        op = defining(wanted)
        if op is None or wanted in inliner.values or op.block != generic.body:
            return
        for operand in op.operands:
            visit(operand)
        inliner.operation(op)

    visit(value)
    return inliner.value(value)


class Inliner:
    """Emits a body op by op. ``values`` has the emitted counterparts of the body's values."""

    def __init__(self, kernel: KernelBuilder, coordinates: Sequence[Coordinate], lanes: int, read: Reader | None):
        """As for ``inline_body``."""
        self.kernel = kernel
        self.coordinates = coordinates
        self.lanes = lanes
        self.read = read
        self.values: dict[ir.Value, ir.Value] = {}

    def block(self, block: ir.Block) -> list[ir.Value]:
        """Emit a block's ops; return the operands of its terminator."""
        *operations, terminator = block.operations
        for op in operations:
            self.operation(op.operation)
        return [self.value(v) for v in terminator.operation.operands]

    def value(self, source: ir.Value) -> ir.Value:
        """The emitted counterpart of a value of the body, or of a scalar it captures."""
        if source not in self.values:
            self.values[source] = self.kernel.scalar(source)
        return self.values[source]

    def operation(self, op: ir.Operation) -> None:
        """Emit one op."""
        if op.name == "linalg.index":
            position = index_loop(op)
            self.values[op.results[0]] = self._coordinate(self.coordinates[position])
        elif op.name == "tensor.extract":
            assert self.read is not None, "the body reads a captured tensor but no reader was given"
            source, *indices = op.operands
            checked = IN_BOUNDS not in op.attributes
            places = [self.value(i) if checked else self._place(i) for i in indices]
            self.values[op.results[0]] = self.read(source, places, checked)
        elif op.name == "tensor.dim":
            axis = ir.IntegerAttr(ir.OpResult(op.operands[1]).owner.attributes["value"]).value
            self.values[op.results[0]] = index.value(self.kernel.extents(op.operands[0])[axis])
        elif len(op.regions):
            self._structured(op)
        else:
            self._elementwise(op)

    def _place(self, source: ir.Value) -> Coordinate:
        """An index as a coordinate, so that lanes along neighbours are known to be neighbours."""
        op = defining(source, "linalg.index")
        return self.value(source) if op is None else self.coordinates[index_loop(op)]

    def _coordinate(self, c: Coordinate) -> ir.Value:
        return index.value(c) if is_uniform(c) else to_vector(c, self.lanes)

    def _elementwise(self, op: ir.Operation) -> None:
        operands = [self.value(o) for o in op.operands]
        is_vector = any(isinstance(o.type, ir.VectorType) for o in operands)
        if is_vector:
            operands = [broadcast(o, self.lanes) for o in operands]
        results = [ir.VectorType.get([self.lanes], r.type) if is_vector else r.type for r in op.results]
        clone = create_like(op, operands, results)
        self.values.update(zip(op.results, clone.results, strict=True))

    def _structured(self, op: ir.Operation) -> None:
        """Clone an op with regions (``scf.if``/``for``/``while``) on scalars."""
        clone = create_like(op, [self.value(o) for o in op.operands], regions=len(op.regions))
        outside = self.values
        for source, target in zip(op.regions, clone.regions, strict=True):
            for block in source.blocks:
                self.values = dict(outside)  # what a block emits is not seen behind it
                arguments = [a.type for a in block.arguments]
                copy = target.blocks.append(*arguments)
                self.values.update(zip(block.arguments, copy.arguments, strict=True))
                with ir.InsertionPoint(copy):
                    yielded = self.block(block)
                    terminator = list(block.operations)[-1].operation
                    create_like(terminator, yielded)
        self.values = outside
        self.values.update(zip(op.results, clone.results, strict=True))
