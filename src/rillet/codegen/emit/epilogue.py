"""Emitting the ops behind a root: they are evaluated on register values, and the results are stored."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from rillet.codegen import coordinates as coords
from rillet.codegen import index
from rillet.codegen.coordinates import Coordinate, Lane
from rillet.codegen.emit import memory, views
from rillet.codegen.emit.elements import Evaluator
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.memory import Buffer, reshape_memref
from rillet.codegen.index import Index
from rillet.codegen.recognize.epilogue import Epilogue, Output
from rillet.ir.dtypes import storage_bytes
from rillet.ir.linear import Linear


def place(forms: Sequence[Linear], at: Sequence[Coordinate], lanes: int) -> list[Coordinate]:
    """The coordinates that ``forms`` take when the root's loops are ``at``."""
    result: list[Coordinate] = []
    for form in forms:
        total: Coordinate = form.constant
        for coefficient, c in zip(form.coefficients, at, strict=True):
            if coefficient:
                total = coords.add(total, coords.mul(c, coefficient, lanes), lanes)
        result.append(total)
    return result


class Writer:
    """Emits an epilogue: evaluates the ops behind the root on register values and stores the results."""

    def __init__(self, kernel: KernelBuilder, epilogue: Epilogue):
        """Make the result buffers; call it at the start of the kernel's body."""
        self.kernel = kernel
        self.epilogue = epilogue
        self._targets: list[tuple[Output, Buffer, list[Index]]] = []
        for output in epilogue.outputs:
            port = kernel.function.results[output.number]
            buffer = kernel.buffer(port)
            low: list[Index] = [0] * len(output.forms)
            if output.frame is None:
                if output.value != port.value:
                    reshaped = reshape_memref(buffer.memref, kernel.extents(output.value))
                    buffer = Buffer.whole(reshaped, port.type.element_type)
            elif output.is_padded:
                low, _ = views.margins(kernel, output.frame)
            else:
                low, _, _ = views.box(kernel, output.frame)
            self._targets.append((output, buffer, low))

    def store(self, evaluator: Evaluator, at: Sequence[Coordinate]) -> None:
        """Store every result's element (or vector) at the root's loop coordinates ``at``. ``evaluator`` has the root
        bound.
        """
        for output, buffer, low in self._targets:
            where = place(output.forms, at, evaluator.lanes)
            value = evaluator.at(output.value, where)
            shifted = [coords.add(c, lo, evaluator.lanes) for c, lo in zip(where, low, strict=True)]
            if isinstance(value.type, ir.VectorType) and all(coords.is_uniform(c) for c in shifted):
                value = vector.extract(value, [], [0])  # the vector's loop runs once, so only lane 0 exists
            evaluator.store(buffer, shifted, value)

    def fill_borders(self) -> None:
        """Write the padding of padded results, in workgroup (0, 0, 0) only."""
        if not any(output.is_padded for output in self.epilogue.outputs):
            return
        kernel = self.kernel
        ids = [kernel.workgroup(n) for n in range(3)]
        linear = arith.OrIOp(arith.OrIOp(ids[0], ids[1]).result, ids[2]).result
        first = arith.CmpIOp(arith.CmpIPredicate.eq, linear, index.value(0)).result
        with kernel.when(first):
            for output, buffer, low in self._targets:
                if output.is_padded:
                    assert output.frame is not None
                    self._fill_border(output.frame, buffer, low)

    def _fill_border(self, pad: ir.Operation, buffer: Buffer, low: list[Index]) -> None:
        """Axis by axis: where all outer axes are inside the source, the padding before it is one run of memory, and the
        padding after it is another."""
        kernel = self.kernel
        extents = kernel.extents(pad.results[0])
        source = kernel.extents(pad.operands[0])
        _, high = views.margins(kernel, pad)
        value = views.padding_value(kernel, pad)
        flat = reshape_memref(buffer.memref, [index.product(extents)])
        target = Buffer.whole(flat, buffer.element)
        lanes = max(1, kernel.vector_bits // (8 * _bytes(buffer)))
        for axis in range(len(extents)):
            inner = index.product(extents[axis + 1 :])
            after = index.add(low[axis], source[axis])
            for start, count in ((0, low[axis]), (after, high[axis])):
                if count == 0:
                    continue
                run = index.mul(count, inner)
                self._over(
                    source[:axis],
                    lambda outer, start=start, run=run, axis=axis, inner=inner: _fill_run(
                        kernel,
                        target,
                        index.add(
                            index.mul(
                                index.linearize(
                                    [index.add(o, lo) for o, lo in zip(outer, low[:axis], strict=True)], extents[:axis]
                                ),
                                index.mul(extents[axis], inner),
                            ),
                            index.mul(start, inner),
                        ),
                        run,
                        value,
                        lanes,
                    ),
                )

    def _over(self, extents: Sequence[Index], body, outer: tuple[Index, ...] = ()) -> None:  # type: ignore[no-untyped-def]
        """Call ``body`` inside a nest of loops over ``extents``."""
        if not extents:
            body(outer)
            return
        with self.kernel.loop(0, extents[0]) as loop:
            self._over(extents[1:], body, (*outer, loop.iv))


def _fill_run(kernel: KernelBuilder, target: Buffer, start: Index, run: Index, value: ir.Value, lanes: int) -> None:
    whole = index.mul(index.floordiv(run, lanes), lanes)
    if whole != 0:
        splat = vector.BroadcastOp(ir.VectorType.get([lanes], value.type), value).result
        with kernel.loop(0, whole, lanes) as loop:
            memory.store(target, [Lane(index.add(start, loop.iv))], splat, lanes)
    if whole != run:
        with kernel.loop(whole, run) as loop:
            memory.store(target, [index.add(start, loop.iv)], value)


def _bytes(buffer: Buffer) -> int:
    return storage_bytes(buffer.element)
