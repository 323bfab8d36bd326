"""Extents of existing tensors: an ``int`` where static, else an ``index`` value computed at the insertion point. Also
the parameters of ops that only move elements: slices, pads, reshapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import DYNAMIC, structured

# Ops that give the same elements, in the same order, another shape.
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape", "tensor.cast")

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


def has_unit_strides(op: ir.Operation) -> bool:
    """Whether a ``tensor.extract_slice`` or ``tensor.insert_slice`` takes neighbours along every axis."""
    return all(stride == 1 for stride in ir.DenseI64ArrayAttr(op.attributes["static_strides"]))


def joined_axis(concat: ir.Operation) -> int:
    """The axis along which a ``tensor.concat`` joins its operands."""
    return ir.IntegerAttr(concat.attributes["dim"]).value


def kept_axes(op: ir.Operation) -> list[int]:
    """The axes of the box of a ``tensor.extract_slice`` or ``tensor.insert_slice`` that the smaller tensor has. Where
    it has fewer axes, the first axes of extent 1 are dropped."""
    smaller = op.results[0] if op.name == "tensor.extract_slice" else op.operands[0]
    shape = ir.RankedTensorType(smaller.type).shape
    kept: list[int] = []
    entries = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
    if len(entries) == len(shape):
        return list(range(len(shape)))
    for axis, size in enumerate(entries):
        if len(kept) < len(shape) and (size != 1 or shape[len(kept)] == 1):
            kept.append(axis)
    return kept


def padding_value(pad: ir.Operation) -> ir.Value:
    """The scalar that a ``tensor.pad`` puts around its source."""
    return list(pad.regions[0].blocks[0].operations)[-1].operands[0]


def reassociation(op: ir.Operation) -> list[list[int]]:
    """The axis groups of an expand or collapse."""
    return [[ir.IntegerAttr(a).value for a in ir.ArrayAttr(g)] for g in ir.ArrayAttr(op.attributes["reassociation"])]


class Sizes:
    """Finds extents that types leave open: in ``known``, else from the ops that make the tensors, whose operands are
    read as they are. A subclass supplies the values of another function, and further known extents."""

    def __init__(self, known: Known | None = None) -> None:
        self._known = known or {}

    def extent(self, value: ir.Value, axis: int) -> Extent:
        """One extent of a tensor."""
        static = ir.RankedTensorType(value.type).shape[axis]
        if static != DYNAMIC:
            return static
        return self._known[value][axis] if value in self._known else self.derived(value, axis)

    def derived(self, value: ir.Value, axis: int) -> Extent:
        """A dynamic extent, from the op that makes the tensor."""
        op = defining(value, *_DERIVED)
        return self.unknown(value, axis) if op is None else _DERIVED[op.name](op, value, axis, self)

    def scalar(self, operand: Extent) -> Extent:
        """An operand that an extent depends on; an ``int`` stays as it is."""
        constant = operand if isinstance(operand, int) else int_constant(operand)
        return operand if constant is None else constant

    def element(self, shape: ir.Value, position: int) -> Extent:
        """An element of a tensor of extents."""
        maker = defining(shape, "tensor.from_elements")
        if maker is None:
            return tensor.ExtractOp(shape, [builders.index(position)]).result
        return self.scalar(maker.operands[position])

    def unknown(self, value: ir.Value, axis: int) -> Extent:
        """A dynamic extent that cannot be found."""
        return builders.dim(value, axis)


def extents(value: ir.Value, known: Known | None = None) -> list[Extent]:
    """The extents of ``value``; emits arithmetic for those that are neither static nor already a value. ``known`` has
    the extents of values whose definition does not determine them."""
    return [extent(value, axis, known) for axis in range(ir.RankedTensorType(value.type).rank)]


def extent(value: ir.Value, axis: int, known: Known | None = None) -> Extent:
    """One extent of ``value``."""
    return Sizes(known).extent(value, axis)


def before_loop(value: ir.Value) -> ir.Value | None:
    """For a tensor that a ``scf.for`` carries (the argument in its body, or its result) and only inserts elements into:
    its initial tensor, which has the same shape. None for any other value."""
    result = defining(value)
    loop = value.owner.owner.operation if result is None else result
    if loop.name != "scf.for":
        return None
    number = ir.BlockArgument(value).arg_number - 1 if result is None else ir.OpResult(value).result_number
    block = loop.regions[0].blocks[0]
    current: ir.Value | None = list(block.operations)[-1].operands[number]
    while current is not None and current != block.arguments[1 + number]:
        maker = defining(current)
        if maker is None:
            return None
        inserts = maker.name in ("tensor.insert", "tensor.insert_slice")
        current = maker.operands[1] if inserts else before_loop(current)
    return None if current is None else loop.operands[3 + number]


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
    """Whether both are equal numbers, or the same value."""
    return (isinstance(a, int) == isinstance(b, int)) and a == b


def _empty(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    shape = ir.RankedTensorType(value.type).shape
    return sizes.scalar(op.operands[sum(e == DYNAMIC for e in shape[:axis])])


def _splat(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    shape = ir.RankedTensorType(value.type).shape
    return sizes.scalar(op.operands[1 + sum(e == DYNAMIC for e in shape[:axis])])


def _init(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    view = structured(op)
    assert view is not None
    return sizes.extent(view.inits[ir.OpResult(value).result_number], axis)


def _fill(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    return sizes.extent(op.operands[1], axis)


def _pad(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    low, high = margins(op)
    return add(sizes.extent(op.operands[0], axis), add(sizes.scalar(low[axis]), sizes.scalar(high[axis])))


def _concat(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    if joined_axis(op) != axis:
        static = [ir.RankedTensorType(v.type).shape[axis] for v in op.operands]
        return next((e for e in static if e != DYNAMIC), None) or sizes.extent(op.operands[0], axis)
    total: Extent = 0
    for operand in op.operands:
        total = add(total, sizes.extent(operand, axis))
    return total


def _slice(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    _, entries, _ = box(op)
    return sizes.scalar(entries[kept_axes(op)[axis]])


def _destination(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    return sizes.extent(op.operands[1], axis)


def _loop(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    before = before_loop(value)
    return sizes.unknown(value, axis) if before is None else sizes.extent(before, axis)


def _expand(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    return sizes.scalar(mixed(op, "static_output_shape", list(op.operands)[1:])[axis])


def _collapse(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    product: Extent = 1
    for number in op.attributes["reassociation"][axis]:
        product = multiply(product, sizes.extent(op.operands[0], ir.IntegerAttr(number).value))
    return product


def _cast(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    return sizes.extent(op.operands[0], axis)


def _reshape(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    element = sizes.element(op.operands[1], axis)
    if isinstance(element, int) or isinstance(element.type, ir.IndexType):
        return element
    return arith.IndexCastOp(ir.IndexType.get(), element).result


def _flow_dims(op: ir.Operation, value: ir.Value, axis: int, sizes: Sizes) -> Extent:
    shape = ir.RankedTensorType(value.type).shape
    first = len(op.operands) - sum(e == DYNAMIC for e in shape)
    return sizes.scalar(op.operands[first + sum(e == DYNAMIC for e in shape[:axis])])


_DERIVED = {
    "tensor.empty": _empty,
    "tensor.splat": _splat,
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
