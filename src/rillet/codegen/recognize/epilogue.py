"""The epilogue of a root: point-wise ops on its result while that is in registers, and where the kernel's results go.

Every tensor coordinate behind the root is expressed as a linear form of the root's loops, so that strategies know which
loops they may treat as one and where each result element lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.linear_access import Access, argument_of
from rillet.ir.extents import RESHAPES, box, has_unit_strides, margins, reassociation, segments
from rillet.ir.linear import Linear, identity, substitute_all
from rillet.ir.rewrite import defining, is_defined_by
from rillet.ir.structured import DYNAMIC, Structured

Forms = tuple[Linear, ...]

# Ops of a body that cost tens of instructions once expanded.
_HEAVY_OPS = 20
# When the epilogues of all of a tile's vectors take more instructions than this, they are put in a loop.
_INLINE_INSTRUCTIONS = 160


@dataclass(frozen=True)
class Output:
    """Result ``number`` of the kernel stores tensor ``value``, whose element lies at ``forms``.

    ``frame``: the ``tensor.pad`` that surrounds the value, or the ``tensor.insert_slice`` that puts it into a tensor
    updated in place; None when the value is all there is.
    """

    number: int
    value: ir.Value
    forms: Forms
    frame: ir.Operation | None

    @property
    def is_padded(self) -> bool:
        """Whether the value is stored inside a padding."""
        return self.frame is not None and self.frame.name == "tensor.pad"


@dataclass(frozen=True)
class Epilogue:
    """Everything behind a root, see ``epilogue_of``."""

    root: Structured
    outputs: tuple[Output, ...]
    accesses: tuple[Access, ...]  # memory that is read or written at the root's loop coordinates
    mergeable: bool  # False when something needs the true loop coordinates
    cost: int  # instructions for one vector, roughly

    def merges(self, outer: int, inner: int, inner_extent: int) -> bool:
        """Whether two neighbouring loops of the root are one loop for all of the epilogue's memory."""
        return self.mergeable and all(a.merges(outer, inner, inner_extent) for a in self.accesses)

    def is_long(self, vectors: int) -> bool:
        """Whether the epilogue is too long to be emitted once for each of a tile's ``vectors`` vectors."""
        return vectors > 1 and self.cost * vectors > _INLINE_INSTRUCTIONS


def epilogue_of(function: KernelFunction, root: Structured) -> Epilogue | None:
    """Follow ``root``'s results to the kernel's; None when something behind them is not point-wise on the root's
    loops.
    """
    count = root.loops
    zero = Linear((0,) * count)
    start = [zero if e == 1 else f for e, f in zip(root.extents, identity(count), strict=True)]
    known: dict[ir.Value, Forms] = {}
    for result, map_ in zip(root.results, root.init_maps, strict=True):
        forms = substitute_all(map_, start)
        if forms is None:
            return None
        known[result] = forms
    accesses: list[Access] = []
    mergeable, cost = True, 0
    for op in function.ops:
        if not any(o in known for o in op.operands):
            continue
        if op.name == "linalg.generic":
            generic = function.generic_of(op.results[0])
            assert generic is not None
            at = _loop_forms(generic, known, count)
            if at is None or not generic.is_parallel:
                return None
            if any(o in known for o in generic.inits) and not _same_place(generic, known, at):
                return None
            mergeable &= _collect_reads(function, generic, known, at, accesses)
            cost += _body_cost(generic)
            for result, map_ in zip(generic.results, generic.init_maps, strict=True):
                forms = substitute_all(map_, at)
                if forms is None:
                    return None
                known[result] = forms
        elif op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            forms = _reshaped_forms(op, known[op.operands[0]])
            if forms is not None:
                known[op.results[0]] = forms
        elif op.name == "tensor.cast":
            known[op.results[0]] = known[op.operands[0]]
    init_reads = [v for v in root.inits if argument_of(function, v) is not None]
    for value in root.inits:
        if value in init_reads:
            accesses.append(Access(value, known[root.results[list(root.inits).index(value)]]))
        elif not is_defined_by(value, *_PLACELESS):
            mergeable = False
    outputs = [_output(function, n, known) for n in range(len(function.results))]
    if any(o is None for o in outputs):
        return None
    written = tuple(o for o in outputs if o is not None)
    accesses += [a for o in written if (a := _written(o, function)) is not None]
    mergeable &= all(_written(o, function) is not None for o in written)
    return Epilogue(root, written, tuple(accesses), mergeable, cost)


_PLACELESS = frozenset({"linalg.fill", "tensor.empty", "arith.constant", "tensor.splat"})


def _loop_forms(generic: Structured, known: dict[ir.Value, Forms], count: int) -> Forms | None:
    """The forms of a parallel generic's loops, from the operands whose coordinates are known."""
    at: list[Linear | None] = [Linear((0,) * count) if e == 1 else None for e in generic.extents]
    for value, map_ in generic.operands:
        if value not in known:
            continue
        for expr, form in zip(map_, known[value], strict=True):
            if isinstance(expr, int) and generic.extents[expr] != 1:
                at[expr] = form
    if any(f is None for f in at):
        return None
    found = tuple(f for f in at if f is not None)
    moving = [n for form in found for n, coefficient in enumerate(form.coefficients) if coefficient]
    if len(set(moving)) < len(moving):  # one of the root's loops stands for two: only their diagonal would be computed
        return None
    return found if _same_place(generic, known, found) else None


def _same_place(generic: Structured, known: dict[ir.Value, Forms], at: Forms) -> bool:
    """Whether the generic reads each known tensor exactly at the element the root has in registers."""
    read = [(known[value], map_) for value, map_ in generic.operands if value in known]
    return all(substitute_all(map_, at) == place for place, map_ in read)


def _collect_reads(
    function: KernelFunction, generic: Structured, known: dict[ir.Value, Forms], at: Forms, accesses: list[Access]
) -> bool:
    """Add the memory a generic reads; False when it reads something whose place in memory is not a linear form."""
    fine = all(op.operation.name not in ("linalg.index", "tensor.extract") for op in generic.body.operations)
    for number, (value, map_) in enumerate(generic.operands):
        if value in known or not list(generic.body.arguments[number].uses):
            continue
        if is_defined_by(value, *_PLACELESS):
            continue
        forms = substitute_all(map_, at)
        if argument_of(function, value) is None or forms is None:
            fine = False
            continue
        accesses.append(Access(value, forms))
    return fine


def _body_cost(generic: Structured) -> int:
    operations = [op.operation.name for op in generic.body.operations]
    return sum(_HEAVY_OPS if name.startswith("math.") else 1 for name in operations) - 1


def _reshaped_forms(op: ir.Operation, source: Forms) -> Forms | None:
    """The forms after a reshape that merges static axes or adds unit axes; None when an axis is split."""
    zero = Linear((0,) * len(source[0].coefficients)) if source else Linear(())
    shapes = [list(ir.RankedTensorType(v.type).shape) for v in (op.operands[0], op.results[0])]
    groups = reassociation(op)
    if op.name == "tensor.expand_shape":
        result = [zero] * len(shapes[1])
        for form, group in zip(source, groups, strict=True):
            real = [a for a in group if shapes[1][a] != 1]
            if len(real) > 1:
                return None
            if real:
                result[real[0]] = form
        return tuple(result)
    merged = []
    for group in groups:
        inner = [shapes[0][a] for a in group[1:]]
        if DYNAMIC in inner:
            return None
        scale = math.prod(inner)
        coefficients, constant = [0] * len(zero.coefficients), 0
        for n, axis in enumerate(group):
            coefficients = [c + scale * x for c, x in zip(coefficients, source[axis].coefficients, strict=True)]
            constant += scale * source[axis].constant
            scale //= inner[n] if n < len(inner) else 1
        merged.append(Linear(tuple(coefficients), constant))
    return tuple(merged)


def _output(function: KernelFunction, number: int, known: dict[ir.Value, Forms]) -> Output | None:
    value = function.results[number].value
    frame = _frame(function, number)
    if frame is not None:
        value = frame.operands[0]
        return Output(number, value, known[value], frame) if value in known else None
    while value not in known:
        op = defining(value)
        if op is None:
            return None
        if op.name not in RESHAPES:
            return None
        value = op.operands[0]
    return Output(number, value, known[value], None)


def _frame(function: KernelFunction, number: int) -> ir.Operation | None:
    """The op that puts a result at an offset: a pad or an insertion."""
    value = function.results[number].value
    op = defining(value)
    if op is None:
        return None
    if op.name == "tensor.pad":
        return op
    return insertion(function, number)


def insertion(function: KernelFunction, number: int) -> ir.Operation | None:
    """The ``tensor.insert_slice`` that makes a result: into the argument tied to it, or into an empty tensor, whose
    other elements need not be written. None when the result is made in any other way."""
    value = function.results[number].value
    op = defining(value, "tensor.insert_slice")
    if op is None:
        return None
    same_rank = ir.RankedTensorType(op.operands[0].type).rank == ir.RankedTensorType(op.operands[1].type).rank
    unit_strides = has_unit_strides(op)
    destination = op.operands[1]
    if number in function.tied:
        in_place = destination == function.arguments[function.tied[number]].value
    else:
        in_place = is_defined_by(destination, "tensor.empty")
    return op if same_rank and unit_strides and in_place else None


def _written(output: Output, function: KernelFunction) -> Access | None:
    """The access that stores an output; None when its offset in a padded result is unknown at compile time. The offset
    of an insertion is left out: it moves the whole output."""
    if output.frame is None:
        return Access(output.value, output.forms)
    before = margins(output.frame)[0] if output.is_padded else box(output.frame)[0]
    low = [x if isinstance(x, int) else None if output.is_padded else 0 for x in before]
    if any(x is None or x < 0 for x in low):
        return None
    places = zip(output.forms, low, strict=True)
    shifted = tuple(Linear(f.coefficients, f.constant + x) for f, x in places if x is not None)
    return Access(function.results[output.number].value, shifted, partial=_partial(output, function))


def _partial(output: Output, function: KernelFunction) -> frozenset[int]:
    """The axes of unknown extent along which an output may fill only a part of its frame."""
    port, frame = function.results[output.number], output.frame
    assert frame is not None
    dynamic = [axis for axis in range(port.type.rank) if port.type.is_dynamic_dim(axis)]
    if output.is_padded:
        whole = [axis for axis, (low, high) in enumerate(zip(*margins(frame), strict=True)) if low == high == 0]
        return frozenset(dynamic) - set(whole)
    *_, sizes, _ = segments(frame)
    extents = dict(zip(dynamic, port.dims, strict=True))
    is_dynamic = [size == DYNAMIC for size in ir.DenseI64ArrayAttr(frame.attributes["static_sizes"])]
    given = dict(zip([axis for axis, unknown in enumerate(is_dynamic) if unknown], sizes, strict=True))
    return frozenset(axis for axis in dynamic if given.get(axis) != extents[axis])
