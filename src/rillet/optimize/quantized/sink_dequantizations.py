"""Moves dequantizations below operations that only move elements or pick the largest: pads, reshapes, transpositions,
slices, insertions into a constant, concatenations, gathers, upsampling, max pooling. These then work on narrow
integers, and the dequantization arrives at the operation that computes with it.

``move(dequantize(x))`` is ``dequantize(move(x))`` to the bit, since a dequantization treats each element by itself. A
pad needs an integer that stands for its value, and a maximum a scale that keeps the order.

Where integers are quantized again with the same parameters, the pair of conversions is removed. Where only a clamp lies
between (``requantization``), it becomes a clamp of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.ir import Program, builders, constants
from rillet.ir.extents import box, extents, joined_axis, margins, mixed, padding_value, reassociation
from rillet.ir.linear import linear
from rillet.ir.rewrite import blocks, clone_operations, defining, erase_dead, generic_like, rebuild_generic
from rillet.ir.structured import (
    DYNAMIC,
    Expr,
    Structured,
    captures,
    copy_permutation,
    index_loop,
    is_permutation,
    structured,
)
from rillet.optimize.folding.evaluate import along
from rillet.optimize.quantized.dequantization import Dequantization, dequantization, dequantize, same_parameters
from rillet.optimize.quantized.requantization import clamped


def run(program: Program, options: None) -> None:
    """Sink in ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                with ir.InsertionPoint(op), op.location:
                    _sink(program, op)
        erase_dead(program.main())


def _sink(program: Program, op: ir.Operation) -> None:
    view = structured(op)
    same = clamped(program, view) if view is not None else None
    if same is not None:
        op.results[0].replace_all_uses_with(same)
        return
    joined = _quantized_parts(program, view) if view is not None else None
    if joined is not None:
        op.results[0].replace_all_uses_with(joined)
        return
    if view is None:
        move = _MOVES.get(op.name)
    elif copy_permutation(op) is not None:
        move = _transpose
    else:
        move = _copy
    if move is None or len(op.results) != 1:
        return
    moved = move(program, op)
    if moved is not None:
        op.results[0].replace_all_uses_with(dequantize(program, moved))


Parameters = Callable[[np.ndarray], np.ndarray]


def _at(value: Dequantization, source: ir.Value, parameters: Parameters) -> Dequantization:
    """``source``, the moved integers, with the parameters moved in the same way."""
    scale = None if value.scale is None else parameters(value.scale)
    return replace(value, source=source, zero=parameters(value.zero), scale=scale)


def _uniform(value: Dequantization, source: ir.Value) -> Dequantization:
    rank = ir.RankedTensorType(source.type).rank
    return _at(value, source, lambda a: a.reshape((1,) * rank))


def _pad(program: Program, op: ir.Operation) -> Dequantization | None:
    value = dequantization(program, op.operands[0])
    maker = defining(padding_value(op))
    if value is None or maker is None or maker.name != "arith.constant":
        return None
    around = value.of(maker.attributes["value"].value)  # type: ignore[attr-defined]
    if around is None:
        return None
    return _uniform(value, _padded(op, value.source, around))


def _padded(op: ir.Operation, source: ir.Value, around: int) -> ir.Value:
    low, high = margins(op)
    return builders.pad(source, low, high, _shape(op), _scalar(source, around))


def _scalar(source: ir.Value, number: int) -> ir.Value:
    """A number as an element of ``source``."""
    element = ir.RankedTensorType(source.type).element_type
    return arith.ConstantOp(element, constants.scalar_attr(number, element)).result


def _insert(program: Program, op: ir.Operation) -> Dequantization | None:
    """Elements spread out over a constant."""
    value = dequantization(program, op.operands[0])
    fill = defining(op.operands[1])
    maker = defining(fill.operands[0]) if fill is not None and fill.name == "linalg.fill" else None
    same_rank = ir.RankedTensorType(op.operands[0].type).rank == ir.RankedTensorType(op.results[0].type).rank
    if value is None or maker is None or maker.name != "arith.constant" or not same_rank:
        return None
    between = value.of(maker.attributes["value"].value)  # type: ignore[attr-defined]
    if between is None:
        return None
    whole = builders.fill(_scalar(value.source, between), _shape(op))
    return _uniform(value, builders.insert_slice(value.source, whole, *box(op)))


def _shape(op: ir.Operation) -> list[builders.Extent]:
    return extents(op.results[0])


def _transpose(program: Program, op: ir.Operation) -> Dequantization | None:
    value = dequantization(program, op.operands[0])
    permutation = copy_permutation(op)
    if value is None or permutation is None:
        return None
    return _at(value, _remade(op, value), lambda a: a.transpose(permutation))


def _remade(op: ir.Operation, value: Dequantization) -> ir.Value:
    """A generic that passes on the elements of its operand 0, applied to the integers instead."""
    view = structured(op)
    assert view is not None
    output = builders.empty(_shape(op), ir.RankedTensorType(value.source.type).element_type)
    return generic_like(view, [value.source, *view.inputs[1:]], output, lambda arguments: arguments[0])


def _copy(program: Program, op: ir.Operation) -> Dequantization | None:
    """The dequantization after a generic that only reads its first input, through any map, or takes a maximum over
    windows."""
    view = structured(op)
    assert view is not None
    if len(view.inits) != 1:
        return None
    if not view.inputs:
        return _gather(program, view)
    if not all(view.parallel):
        return _maximum(program, view)
    if view.yielded()[0] != view.body.arguments[0] or list(view.body_ops()) or is_permutation(view.maps[0], view.loops):
        return _gather(program, view)
    value = dequantization(program, view.inputs[0])
    if value is None or not value.is_uniform:
        return None
    return _uniform(value, _remade(op, value))


def _gather(program: Program, view: Structured) -> Dequantization | None:
    """The dequantization after a generic that yields one element that it extracts from a tensor."""
    extraction = defining(view.yielded()[0])
    if extraction is None or extraction.name != "tensor.extract" or not all(view.parallel):
        return None
    if extraction not in view.body_ops() or view.init_is_read():
        return None
    table = extraction.operands[0]
    if len([u for u in table.uses if u.owner.operation == extraction]) != 1 or table not in captures(view.op):
        return None
    value = dequantization(program, table)
    kept = _kept_axes(view, extraction, value) if value is not None else None
    if value is None or kept is None:
        return None
    output = builders.empty(_shape(view.op), ir.RankedTensorType(value.source.type).element_type)

    def body(arguments: list[ir.Value]) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = dict(zip(view.body.arguments, arguments, strict=True))
        ops = view.body_ops()
        at = ops.index(extraction)
        clone_operations(ops[:at], mapping)
        places = [mapping.get(v, v) for v in list(extraction.operands)[1:]]
        mapping[extraction.results[0]] = tensor.ExtractOp(value.source, places).result
        return mapping[extraction.results[0]]

    new = generic_like(view, view.inputs, output, body)
    rank = len(view.init_maps[0])

    def parameters(array: np.ndarray) -> np.ndarray:
        return along(array.reshape([array.shape[axis] for axis in kept]), list(kept.values()), range(rank))

    return _at(value, new, parameters)


def _kept_axes(view: Structured, extraction: ir.Operation, value: Dequantization) -> dict[int, int] | None:
    """The axes of the table along which its parameters vary, and the axis of the result that runs along each. None
    where one of them is indexed in another way."""
    places, result = list(extraction.operands)[1:], ir.RankedTensorType(view.op.results[0].type).shape
    arrays = [a for a in (value.zero, value.scale) if a is not None]
    kept = {}
    for axis, place in enumerate(places):
        extent = max(a.shape[axis] for a in arrays)
        if extent == 1:
            continue
        owner = defining(place)
        loop = index_loop(owner) if owner and owner.name == "linalg.index" else None
        if loop not in view.init_maps[0] or any(a.shape[axis] not in (1, extent) for a in arrays):
            return None
        kept[axis] = view.init_maps[0].index(loop)
        if result[kept[axis]] != extent:
            return None
    return kept if len(set(kept.values())) == len(kept) else None


def _slice(program: Program, op: ir.Operation) -> Dequantization | None:
    value = dequantization(program, op.operands[0])
    same_rank = ir.RankedTensorType(op.operands[0].type).rank == ir.RankedTensorType(op.results[0].type).rank
    if value is None or not value.is_uniform or not same_rank:
        return None
    return _uniform(value, builders.extract_slice(value.source, *box(op)))


def _concat(program: Program, op: ir.Operation) -> Dequantization | None:
    values = [dequantization(program, v) for v in op.operands]
    first = values[0]
    if first is None or not first.is_uniform:
        return None
    if any(v is None or not same_parameters(v, first) for v in values):
        return None
    axis = joined_axis(op)
    return _uniform(first, builders.concat([v.source for v in values if v is not None], axis, _shape(op)))


def _quantized_parts(program: Program, view: Structured) -> ir.Value | None:
    """The quantized concatenation of tensors with parameters of their own: each part is quantized by itself, and the
    integers are concatenated. None for any other operation."""
    result = ir.RankedTensorType(view.op.results[0].type)
    element = result.element_type
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return None
    if not isinstance(element, ir.IntegerType) or not 1 < element.width <= 8:
        return None
    wide = [n for n, m in enumerate(view.input_maps) if m]
    joined = defining(view.inputs[wide[0]]) if len(wide) == 1 else None
    if joined is None or joined.name != "tensor.concat" or len(list(joined.results[0].uses)) != 1:
        return None
    if view.maps[wide[0]] != view.init_maps[0] or any(dequantization(program, v) is None for v in joined.operands):
        return None
    parts = []
    for value in joined.operands:
        operands = list(view.op.operands)
        operands[wide[0]], operands[-1] = value, builders.empty(extents(value), element)
        part = rebuild_generic(view.op, operands, [operands[-1].type], view.maps, view.parallel)
        own = structured(part)
        same = clamped(program, own) if own is not None else None
        parts.append(part.results[0] if same is None else same)
    return builders.concat(parts, joined_axis(joined), _shape(view.op))


def _expand(program: Program, op: ir.Operation) -> Dequantization | None:
    value = _reshaped(program, op, op.results[0])
    if value is None:
        return None
    groups, target = reassociation(op), ir.RankedTensorType(op.results[0].type).shape

    def parameters(array: np.ndarray) -> np.ndarray:
        shape = [1] * len(target)
        for extent, group in zip(array.shape, groups, strict=True):
            for axis in group if extent != 1 else ():
                shape[axis] = target[axis]
        return array.reshape(shape)

    shape = mixed(op, "static_output_shape", list(op.operands)[1:])
    return _at(value, builders.expand_shape(value.source, groups, shape), parameters)


def _collapse(program: Program, op: ir.Operation) -> Dequantization | None:
    value = _reshaped(program, op, op.operands[0])
    if value is None:
        return None
    groups, before = reassociation(op), ir.RankedTensorType(op.operands[0].type).shape

    def parameters(array: np.ndarray) -> np.ndarray:
        if not groups:  # one element becomes a scalar
            return array.reshape(())
        varying = [any(array.shape[axis] != 1 for axis in group) for group in groups]
        whole = [before[a] if v else 1 for v, group in zip(varying, groups, strict=True) for a in group]
        sizes = [int(np.prod([before[a] for a in group])) if v else 1 for v, group in zip(varying, groups, strict=True)]
        return np.broadcast_to(array, whole).reshape(sizes)

    shape = ir.RankedTensorType(op.results[0].type).shape
    return _at(value, builders.collapse_shape(value.source, groups, shape), parameters)


def _reshaped(program: Program, op: ir.Operation, longer: ir.Value) -> Dequantization | None:
    """The dequantization after a reshape, where its parameters can be reshaped too. Parameters along axes need the
    extents, which ``longer``, the operand or the result, has."""
    value = dequantization(program, op.operands[0])
    if value is None or (not value.is_uniform and DYNAMIC in ir.RankedTensorType(longer.type).shape):
        return None
    return value


# --- maxima ---


def _maximum(program: Program, view: Structured) -> Dequantization | None:
    """The dequantization after a maximum over windows, each with at least one element, of values with a positive
    scale."""
    if not _keeps_largest(view):
        return None
    source = view.inputs[0]
    pad = defining(source)
    if pad is not None and pad.name == "tensor.pad":
        if not _is_lowest(defining(padding_value(pad))) or not _has_inner(view, pad):
            return None
        source = pad.operands[0]
    value = dequantization(program, source)
    if value is None or value.scale is None or not value.is_uniform or not value.scale.min() > 0:
        return None
    lowest = value.limits()[0]
    integers = value.source if source == view.inputs[0] else _padded(pad, value.source, lowest)  # type: ignore[arg-type]
    element = ir.RankedTensorType(value.source.type).element_type
    output = builders.fill(_scalar(value.source, lowest), _shape(view.op))
    largest = arith.MaxSIOp if value.is_signed else arith.MaxUIOp
    inputs = [integers]
    for other in view.inputs[1:]:  # shape only
        inputs.append(builders.empty(extents(other), element))
    new = generic_like(view, inputs, output, lambda a: largest(a[0], a[-1]).result)
    return _uniform(value, new)


def _keeps_largest(view: Structured) -> bool:
    ops = view.body_ops()
    arguments = list(view.body.arguments)
    if len(ops) != 1 or ops[0].name != "arith.maximumf" or ops[0].results[0] != view.yielded()[0]:
        return False
    shapes = [defining(v) for v in view.inputs[1:]]
    if any(s is None or s.name != "tensor.empty" for s in shapes):
        return False
    fill = defining(view.inits[0])
    if fill is None or fill.name != "linalg.fill" or not _is_lowest(defining(fill.operands[0])):
        return False
    return set(ops[0].operands) == {arguments[0], arguments[-1]}


def _is_lowest(constant: ir.Operation | None) -> bool:
    return constant is not None and constant.name == "arith.constant" and constant.attributes["value"].value == -np.inf  # type: ignore[attr-defined]


def _has_inner(view: Structured, pad: ir.Operation) -> bool:
    """Whether each window holds an element that is not padding."""
    sizes = view.extents
    shape = ir.RankedTensorType(pad.operands[0].type).shape
    low, high = margins(pad)
    for expr, extent, before, after in zip(view.maps[0], shape, low, high, strict=True):
        if before == 0 and after == 0:
            continue
        if not isinstance(before, int) or extent == DYNAMIC or not _always_inside(expr, sizes, view, before, extent):
            return False
    return True


def _always_inside(expr: Expr, sizes: Sequence[int], view: Structured, before: int, extent: int) -> bool:
    form = linear(expr, view.loops)
    if form is None or any(sizes[d] == DYNAMIC for d in form.terms):
        return False
    outer: np.ndarray = np.array([form.constant - before])
    inner: np.ndarray = np.array([0])
    for loop, factor in form.terms.items():
        steps = np.arange(sizes[loop]) * factor
        if view.parallel[loop]:
            outer = np.add.outer(outer, steps).reshape(-1)
        else:
            inner = np.add.outer(inner, steps).reshape(-1)
    positions = np.add.outer(outer, inner)
    return bool(np.all(np.any((positions >= 0) & (positions < extent), axis=1)))


_MOVES: dict[str, Callable[[Program, ir.Operation], Dequantization | None]] = {
    "tensor.pad": _pad,
    "tensor.insert_slice": _insert,
    "tensor.concat": _concat,
    "tensor.extract_slice": _slice,
    "tensor.expand_shape": _expand,
    "tensor.collapse_shape": _collapse,
}
