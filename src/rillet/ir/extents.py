"""Extents of tensors that are already there: an ``int`` where static, else an ``index`` value computed at the insertion
point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import DYNAMIC, structured

Known = Mapping[ir.Value, Sequence[Extent]]


def mixed(op: ir.Operation, attribute: str, dynamic: Sequence[ir.Value]) -> list[Extent]:
    """Static entries of ``attribute`` (``static_low`` and friends) with the dynamic ones filled in from ``dynamic``."""
    rest = iter(dynamic)
    found: list[Extent] = []
    for entry in ir.DenseI64ArrayAttr(op.attributes[attribute]):
        if entry != DYNAMIC:
            found.append(entry)
            continue
        value = next(rest)
        constant = int_constant(value)
        found.append(value if constant is None else constant)
    return found


def segments(op: ir.Operation) -> list[list[ir.Value]]:
    """The operands of ``op``, split by its ``operandSegmentSizes``."""
    operands, found = list(op.operands), []
    for count in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        found.append(operands[:count])
        operands = operands[count:]
    return found


def box(op: ir.Operation) -> tuple[list[Extent], list[Extent], list[Extent]]:
    """Offsets, sizes and strides of a ``tensor.extract_slice`` or ``tensor.insert_slice``."""
    offsets, sizes, strides = segments(op)[-3:]
    return mixed(op, "static_offsets", offsets), mixed(op, "static_sizes", sizes), mixed(op, "static_strides", strides)


def margins(pad: ir.Operation) -> tuple[list[Extent], list[Extent]]:
    """How far a ``tensor.pad`` extends each axis, before and after."""
    _, low, high = segments(pad)
    return mixed(pad, "static_low", low), mixed(pad, "static_high", high)


def padding_value(pad: ir.Operation) -> ir.Value:
    """The scalar that a ``tensor.pad`` puts around its source."""
    return list(pad.regions[0].blocks[0].operations)[-1].operands[0]


def reassociation(op: ir.Operation) -> list[list[int]]:
    """The axis groups of an expand or collapse."""
    return [[ir.IntegerAttr(a).value for a in ir.ArrayAttr(g)] for g in ir.ArrayAttr(op.attributes["reassociation"])]


def extents(value: ir.Value, known: Known | None = None) -> list[Extent]:
    """The extents of ``value``; emits arithmetic for those that are neither static nor already a value."""
    shape = ir.RankedTensorType(value.type).shape
    return [extent(value, axis, known) if e == DYNAMIC else e for axis, e in enumerate(shape)]


def extent(value: ir.Value, axis: int, known: Known | None = None) -> Extent:
    """One extent of ``value``. ``known`` has those of values whose definition does not tell them."""
    static = ir.RankedTensorType(value.type).shape[axis]
    if static != DYNAMIC:
        return static
    if known is not None and value in known:
        return known[value][axis]
    op = defining(value)
    if op is None:
        return builders.dim(value, axis)
    derive = _DERIVED.get(op.name)
    if derive is not None:
        return derive(op, value, axis, known)
    return builders.dim(value, axis)


def add(a: Extent, b: Extent) -> Extent:
    """``a + b``, folded."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if same(a, 0) or same(b, 0):
        return b if same(a, 0) else a
    return arith.AddIOp(builders.as_index(a), builders.as_index(b)).result


def multiply(a: Extent, b: Extent) -> Extent:
    """``a * b``, folded."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if same(a, 0) or same(b, 0):
        return 0
    if same(a, 1) or same(b, 1):
        return b if same(a, 1) else a
    return arith.MulIOp(builders.as_index(a), builders.as_index(b)).result


def same(a: Extent, b: Extent) -> bool:
    """Equal numbers, or the same value."""
    return (isinstance(a, int) == isinstance(b, int)) and a == b


def _empty(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    shape = ir.RankedTensorType(value.type).shape
    return _as_extent(op.operands[sum(e == DYNAMIC for e in shape[:axis])])


def _init(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    view = structured(op)
    assert view is not None
    return extent(view.inits[ir.OpResult(value).result_number], axis, known)


def _fill(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    return extent(op.operands[1], axis, known)


def _pad(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    low, high = margins(op)
    return add(extent(op.operands[0], axis, known), add(low[axis], high[axis]))


def _concat(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    if ir.IntegerAttr(op.attributes["dim"]).value != axis:
        static = [ir.RankedTensorType(v.type).shape[axis] for v in op.operands]
        return next((e for e in static if e != DYNAMIC), None) or extent(op.operands[0], axis, known)
    total: Extent = 0
    for operand in op.operands:
        total = add(total, extent(operand, axis, known))
    return total


def _slice(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    _, entries, _ = box(op)
    if len(entries) == ir.RankedTensorType(value.type).rank:
        return entries[axis]
    kept = [entries[i] for i in kept_axes(op)]
    return kept[axis]


def kept_axes(op: ir.Operation) -> list[int]:
    """The source axes that remain in the result of a rank-reducing ``tensor.extract_slice``."""
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
    shape = list(ir.RankedTensorType(op.results[0].type).shape)
    drop = len(sizes) - len(shape)
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        matches = len(kept) < len(shape) and shape[len(kept)] == size
        if size == 1 and drop and not (matches and len(sizes) - axis == len(shape) - len(kept)):
            drop -= 1
        else:
            kept.append(axis)
    return kept


def _destination(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    return extent(op.operands[1], axis, known)


def _loop(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    """A carried tensor that the body only inserts elements into keeps its size."""
    number = ir.OpResult(value).result_number
    if not _keeps_size(op, number):
        return builders.dim(value, axis)
    return extent(op.operands[3 + number], axis, known)


def _keeps_size(op: ir.Operation, number: int) -> bool:
    block = op.regions[0].blocks[0]
    current = list(block.operations)[-1].operands[number]
    while current != block.arguments[1 + number]:
        owner = defining(current)
        if owner is None:
            return False
        if owner.name == "tensor.insert":
            current = owner.operands[1]
        elif owner.name == "scf.for" and _keeps_size(owner, ir.OpResult(current).result_number):
            current = owner.operands[3 + ir.OpResult(current).result_number]
        else:
            return False
    return True


def _expand(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    return mixed(op, "static_output_shape", list(op.operands)[1:])[axis]


def _collapse(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    product: Extent = 1
    for number in op.attributes["reassociation"][axis]:
        product = multiply(product, extent(op.operands[0], ir.IntegerAttr(number).value, known))
    return product


def _cast(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    return extent(op.operands[0], axis, known)


def _reshape(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    shape = op.operands[1]
    maker = defining(shape)
    if maker is not None and maker.name == "tensor.from_elements":
        element = maker.operands[axis]
    else:
        element = tensor.ExtractOp(shape, [builders.index(axis)]).result
    if not isinstance(element.type, ir.IndexType):
        element = arith.IndexCastOp(ir.IndexType.get(), element).result
    return _as_extent(element)


def _flow_dims(op: ir.Operation, value: ir.Value, axis: int, known: Known | None) -> Extent:
    shape = ir.RankedTensorType(value.type).shape
    first = len(op.operands) - sum(e == DYNAMIC for e in shape)
    return _as_extent(op.operands[first + sum(e == DYNAMIC for e in shape[:axis])])


def _as_extent(value: ir.Value) -> Extent:
    constant = int_constant(value)
    return value if constant is None else constant


_DERIVED = {
    "tensor.empty": _empty,
    "linalg.generic": _init,
    "linalg.fill": _fill,
    "tensor.pad": _pad,
    "tensor.concat": _concat,
    "tensor.extract_slice": _slice,
    "tensor.insert_slice": _destination,
    "tensor.insert": _destination,
    "scf.for": _loop,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
    "tensor.cast": _cast,
    "tensor.reshape": _reshape,
    "flow.reshape": _flow_dims,
    "flow.slice": _flow_dims,
    "flow.splat": _flow_dims,
}
