"""Computes transposed convolutions phase by phase, so that nothing is multiplied by the zeros between elements.

With stride ``s``, a transposed convolution arrives as a convolution of its input with ``s - 1`` zeros between
neighbours. Phase ``r`` is its results at positions ``s * h + r``. In a phase only every ``s``-th tap of the filter
meets elements of the input: each phase is a convolution of the original input by those taps. (Shi et al., "Is the
deconvolution layer the same as a convolutional layer?", 2016.)

Each phase goes to its place in one tensor. Where axis ``w`` of the result follows position ``s * h + r``, that tensor
has the axes ``h`` and ``s * w``. A phase is then an ordinary slice, which its dispatch can write in place; a reshape
gives the result.

For integers, the tensor may hold the zero point instead of zeros. A phase then adds the products of the zero point with
the taps that meet no element: a constant for each channel.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.builders import Extent
from rillet.ir.contraction import Contraction, contraction, is_convolution
from rillet.ir.extents import add, box, extents, margins, multiply, padding_value
from rillet.ir.linear import linear
from rillet.ir.polynomials import Polynomials, scaled, subtracted
from rillet.ir.rewrite import defining, erase_dead, rebuild_generic, replace, sweep_constants
from rillet.ir.shapes import runs
from rillet.ir.structured import DYNAMIC, Structured, is_projected, structured, walk
from rillet.optimize.folding.evaluate import compute, known, signed
from rillet.optimize.quantized.dequantization import dequantization, dequantize, parameter
from rillet.optimize.sole_user import follower


@dataclass(frozen=True)
class Options:
    """``most``: a convolution with more phases is left as it is."""

    most: int = 64


@dataclass(frozen=True)
class _Axis:
    """One axis of the image: how it was spread out, how the filter reads it, and its place in the result."""

    position: int  # axis of the operand
    result: int  # axis of the result
    loop: int  # over the result's axis
    window: int  # over the filter's axis
    taps: int
    dilation: int
    stride: int  # of the spreading: 1 for an axis that was not spread out
    before: int  # positions before the input's first element, in the tensor that the convolution reads
    extent: Extent  # of the input, before it was spread out
    excess: int  # by which the result's length exceeds ``stride`` times the input's

    @property
    def beyond(self) -> int:
        """Positions of a phase beyond the input's; the last of them may lie beyond the end of the result."""
        return -(-self.excess // self.stride)

    @property
    def step(self) -> int:
        """The distance between the input's elements that neighbouring taps of a phase meet."""
        return self.dilation // math.gcd(self.dilation, self.stride)

    def met(self, phase: int) -> list[tuple[int, int]]:
        """The taps that meet elements in a phase, each with the distance of its element from the phase's position."""
        places = [(t, phase + t * self.dilation - self.before) for t in range(self.taps)]
        return [(t, place // self.stride) for t, place in places if place % self.stride == 0]

    def reach(self) -> tuple[int, int]:
        """The least and the greatest distance over all phases."""
        distances = [d for r in range(self.stride) for _, d in self.met(r)]
        return min(distances), max(distances)


@dataclass(frozen=True)
class _Spread:
    """A convolution over a tensor that was spread out."""

    view: Structured
    roles: Contraction
    source: ir.Value  # the input itself
    padding: ir.Value  # the scalar around the input and between its elements
    start: ir.Value  # the scalar that sums start with
    weights: np.ndarray
    axes: tuple[_Axis, ...]
    lost: np.ndarray | None  # for each filter element: its product with the padding; None where all are zero


@dataclass(frozen=True)
class _Phase:
    """One convolution: its taps by axis, the distance of the first, and the place of its result."""

    weights: np.ndarray
    rest: np.ndarray | None  # for each element of the result's last axis: the sum that the other taps add
    distances: tuple[int, ...]
    offsets: tuple[Extent, ...]
    shape: tuple[Extent, ...]


def run(program: Program, options: Options) -> None:
    """Rewrite the transposed convolutions of ``@main`` whose weights are known."""
    with program.context, ir.Location.unknown():
        # Rewriting erases only the convolution itself and elementwise operations, never another convolution.
        for op in [op for op in walk(program.main()) if is_convolution(op)]:
            with ir.InsertionPoint(op), op.location:
                spread = _spread(program, op)
                if spread is None or not all(a.met(r) for a in spread.axes for r in range(a.stride)):
                    continue
                phases = _phases(spread)
            if len(phases) <= options.most:
                _rewrite(program, spread, phases)
        erase_dead(program.main())
        sweep_constants(program)


# --- recognition ---


def _spread(program: Program, op: ir.Operation) -> _Spread | None:
    view = structured(op)
    roles = contraction(view) if view is not None else None
    if view is None or roles is None or not roles.is_convolution:
        return None
    weights = constants.array_of(program, view.inputs[roles.rhs])
    start = defining(view.inits[0])
    if weights is None or not is_projected(view.maps[roles.rhs]) or start is None or start.name != "linalg.fill":
        return None
    # Dequantized integers that no integer contraction took are spread out as integers.
    narrow = dequantization(program, view.inputs[roles.lhs])
    inserted, low, around = _unpadded(view.inputs[roles.lhs] if narrow is None else narrow.source)
    op_ = defining(inserted)
    if op_ is None or op_.name != "tensor.insert_slice":
        return None
    source, zeros = list(op_.operands)[:2]
    offsets, _, strides = box(op_)
    between = defining(zeros)
    if between is None or between.name != "linalg.fill":
        return None
    padding = _number(between.operands[0])
    if padding is None or (around is not None and _number(around) != padding):
        return None
    if len(strides) != ir.RankedTensorType(source.type).rank or not all(
        isinstance(v, int) for v in (*offsets, *strides, *low)
    ):
        return None
    before = [a + b for a, b in zip(low, offsets, strict=True)]  # type: ignore[operator]
    axes = _axes(view, roles, extents(source), before, strides)  # type: ignore[arg-type]
    if axes is None:
        return None
    if narrow is not None:
        zero = narrow.of(0.0)
        if zero is None or (zero - int(padding)) % narrow.count:
            return None
        source, value = dequantize(program, dataclasses.replace(narrow, source=source)), start.operands[0]
        return _Spread(view, roles, source, value, value, weights, axes, None) if _number(value) == 0 else None
    lost = _products(view, roles, weights, padding) if padding != 0 else None
    if padding != 0 and lost is None:
        return None
    return _Spread(view, roles, source, between.operands[0], start.operands[0], weights, axes, lost)


def _unpadded(value: ir.Value) -> tuple[ir.Value, list[Extent], ir.Value | None]:
    """The source of a padded value, the padding before it, and the scalar that pads it. Elements cut off beyond its end
    are padding again, or are not read."""
    op = defining(value)
    if op is None or op.name != "tensor.pad":
        return value, [0] * ir.RankedTensorType(value.type).rank, None
    source = defining(op.operands[0])
    if source is not None and source.name == "tensor.extract_slice" and _is_front(source):
        return source.operands[0], margins(op)[0], padding_value(op)
    return op.operands[0], margins(op)[0], padding_value(op)


def _is_front(op: ir.Operation) -> bool:
    """Whether a slice begins where its source does along each axis."""
    offsets, _, strides = box(op)
    same_rank = len(strides) == ir.RankedTensorType(op.results[0].type).rank
    return same_rank and all(x == 0 for x in offsets) and all(x == 1 for x in strides)


def _number(scalar: ir.Value) -> float | None:
    op = defining(scalar)
    return op.attributes["value"].value if op is not None and op.name == "arith.constant" else None  # type: ignore[attr-defined]


def _products(view: Structured, roles: Contraction, weights: np.ndarray, number: float) -> np.ndarray | None:
    """The body's result for each filter element and ``number``, an integer; None where the filter elements' results are
    not along the last axis."""
    loops = {d for d in view.maps[roles.rhs] if view.parallel[d]}  # type: ignore[index]
    if not isinstance(number, int) or not loops <= {view.init_maps[0][-1]}:
        return None
    element = ir.RankedTensorType(view.inputs[roles.lhs].type).element_type
    scalar = np.asarray(number).astype(f"i{ir.IntegerType(element).width // 8}")
    values = {view.body.arguments[roles.lhs]: scalar, view.body.arguments[roles.rhs]: weights}
    for op in view.body_ops():
        result = compute(op, [known(v, values) for v in op.operands])
        if result is not None:
            values[op.results[0]] = result
    (total,) = (defining(v) for v in view.yielded())
    terms = [known(v, values) for v in (total.operands if total is not None else ())]
    return next((t.astype(np.int64) for t in terms if t is not None and t.shape == weights.shape), None)


def _axes(
    view: Structured, roles: Contraction, shape: Sequence[Extent], before: Sequence[int], strides: Sequence[int]
) -> tuple[_Axis, ...] | None:
    """The axes of the image. None when one of them is read in another way, when another axis was spread out, or when
    the excess of the result's length is unknown."""
    sizes, target, lengths = view.extents, view.init_maps[0], extents(view.op.results[0])
    if not isinstance(lengths[-1], int):
        return None
    found = []
    for position, expr in enumerate(view.maps[roles.lhs]):
        form = linear(expr, view.loops)
        loops = set() if form is None else set(form.terms)
        image, window = loops & set(roles.image), loops & set(roles.window)
        if not image:
            if strides[position] != 1 or before[position] != 0:
                return None
            continue
        if form is None or len(image) != 1 or len(window) != 1 or loops != image | window or form.constant != 0:
            return None
        (loop,), (tap,) = image, window
        result = target.index(loop)
        if (
            form.coefficients[loop] != 1
            or form.coefficients[tap] < 1
            or result + 1 == len(target)
            or sizes[tap] == DYNAMIC
        ):
            return None
        excess = _excess(lengths[result], shape[position], strides[position])
        if excess is None:
            return None
        found.append(
            _Axis(
                position,
                result,
                loop,
                tap,
                sizes[tap],
                form.coefficients[tap],
                strides[position],
                before[position],
                shape[position],
                excess,
            )
        )
    found.sort(key=lambda axis: axis.result)
    return tuple(found) if any(axis.stride > 1 for axis in found) else None


def _excess(length: Extent, extent: Extent, stride: int) -> int | None:
    """``length - stride * extent``, where that is known."""
    numbers = Polynomials()
    rest = subtracted(numbers.of(length), scaled(numbers.of(extent), stride))
    return rest.get((), 0) if not set(rest) - {()} else None


# --- phases ---


def _phases(spread: _Spread) -> list[_Phase]:
    alone = [[(r,) for r in range(axis.stride)] for axis in spread.axes[:-1]]
    return [_phase(spread, phases) for phases in itertools.product(*alone, _side_by_side(spread))]


def _side_by_side(spread: _Spread) -> list[tuple[int, ...]]:
    """The phases of the last axis, grouped by the convolution that can compute them as its columns.

    Phases of a group are neighbours that meet the same elements: a zero for a tap that a phase lacks would make
    infinities NaN.
    """
    last, target = spread.axes[-1], spread.view.init_maps[0]
    phases = range(last.stride)
    if last.step != 1 or spread.roles.n != (target[-1],) or last.result + 2 != len(target):
        return [(r,) for r in phases]
    return [tuple(run) for _, run in itertools.groupby(phases, lambda r: [d for _, d in last.met(r)])]


def _phase(spread: _Spread, phases: Sequence[tuple[int, ...]]) -> _Phase:
    """``phases``: those of each axis; several along the last one."""
    view = spread.view
    distances = []
    shape = extents(view.op.results[0])
    offsets: list[Extent] = [0] * len(shape)
    for axis in spread.axes:
        shape[axis.result] = add(axis.extent, axis.beyond)
    for axis, together in zip(spread.axes, phases, strict=True):
        distances.append(axis.met(together[0])[0][1])
        offsets[axis.result + 1] = multiply(shape[axis.result + 1], together[0])
    channels = shape[-1]
    assert isinstance(channels, int)
    rest = _rest(spread, phases, channels)
    shape[-1] = channels * len(phases[-1])
    weights = np.ascontiguousarray(_met(spread, phases, spread.weights))
    return _Phase(weights, rest, tuple(distances), tuple(offsets), tuple(shape))


def _met(spread: _Spread, phases: Sequence[tuple[int, ...]], array: np.ndarray) -> np.ndarray:
    """The elements of a filter that the phases meet; several phases become columns next to each other."""
    map_ = spread.view.maps[spread.roles.rhs]
    for axis, together in zip(spread.axes, phases, strict=True):
        parts = [array.take([tap for tap, _ in axis.met(r)], map_.index(axis.window)) for r in together]
        array = np.concatenate(parts, map_.index(spread.roles.n[0])) if len(parts) > 1 else parts[0]
    return array


def _rest(spread: _Spread, phases: Sequence[tuple[int, ...]], channels: int) -> np.ndarray | None:
    """The sum that the taps which no phase meets add to each element of the last axis, modulo 2^32."""
    if spread.lost is None:
        return None
    view, map_ = spread.view, spread.view.maps[spread.roles.rhs]
    summed = tuple(axis for axis, loop in enumerate(map_) if not view.parallel[loop])  # type: ignore[index]
    met = _met(spread, phases, spread.lost).sum(summed)
    every = np.broadcast_to(spread.lost.sum(summed), (channels,))
    return signed(np.tile(every, len(phases[-1])) - met, 32).astype(np.int32)


# --- rewriting ---


def _rewrite(program: Program, spread: _Spread, phases: Sequence[_Phase]) -> None:
    view = spread.view
    chain = _followers(program, view.op)
    element = ir.RankedTensorType(view.op.results[0].type).element_type
    with ir.InsertionPoint(view.op), view.op.location:
        image = _padded(spread)
        parts = [_whole(program, phase, _convolution(program, spread, phase, image, element)) for phase in phases]
    for after, number in chain:
        with ir.InsertionPoint(after.op), after.op.location:
            parts = [
                _applied(program, after, number, part, phase.shape) for part, phase in zip(parts, phases, strict=True)
            ]
    last = chain[-1][0].op if chain else view.op
    with ir.InsertionPoint(last), last.location:
        replace(last, [_assembled(spread, phases, parts, last.results[0])])


def _padded(spread: _Spread) -> ir.Value:
    """The input with the zeros around it that the phases reach."""
    source = ir.RankedTensorType(spread.source.type)
    low, high = [0] * source.rank, [0] * source.rank
    for axis in spread.axes:
        nearest, farthest = axis.reach()
        low[axis.position] = max(0, -nearest)
        high[axis.position] = max(0, axis.beyond + farthest)
    if not any((*low, *high)):
        return spread.source
    result = [add(a + c, b) for a, b, c in zip(low, extents(spread.source), high, strict=True)]
    return builders.pad(spread.source, low, high, result, spread.padding)


def _convolution(program: Program, spread: _Spread, phase: _Phase, image: ir.Value, element: ir.Type) -> ir.Value:
    view, roles = spread.view, spread.roles
    maps = list(view.maps)
    lhs = list(maps[roles.lhs])
    for axis, distance in zip(spread.axes, phase.distances, strict=True):
        loop, window = ir.AffineExpr.get_dim(axis.loop), ir.AffineExpr.get_dim(axis.window)
        lhs[axis.position] = loop + window * axis.step + (distance + max(0, -axis.reach()[0]))
    maps[roles.lhs] = tuple(lhs)
    operands = list(view.op.operands)
    operands[roles.lhs] = image
    name = constants.global_name(view.inputs[roles.rhs]) or "weights"
    operands[roles.rhs] = constants.constant(program, phase.weights, f"{name}_phase")
    operands[-1] = builders.fill(spread.start, phase.shape)
    return rebuild_generic(view.op, operands, [operands[-1].type], maps, view.parallel).results[0]


def _whole(program: Program, phase: _Phase, part: ir.Value) -> ir.Value:
    """The sums of a phase plus the contribution of the taps that its filter lacks."""
    if phase.rest is None or not np.any(phase.rest):
        return part
    loops = builders.dims(len(phase.shape))
    rest = parameter(program, phase.rest.reshape([1] * (len(loops) - 1) + [-1]), "zero_points")
    output = builders.empty(phase.shape, ir.RankedTensorType(part.type).element_type)
    operands = [(part, loops), rest]
    return builders.generic(operands, [(output, loops)], "p" * len(loops), lambda x, r, _: arith.AddIOp(x, r).result)[0]


def _followers(program: Program, op: ir.Operation) -> list[tuple[Structured, int]]:
    """The elementwise operations after ``op`` that can be applied to each phase: their other inputs are constants that
    vary along the last axis only."""
    chain: list[tuple[Structured, int]] = []
    value = op.results[0]
    while (found := follower(value)) is not None:
        after, number = found
        own = after.maps[number]
        if after.op.block != op.block or any(inner.name == "linalg.index" for inner in walk(after.op)):
            break
        others = [(v, m) for i, (v, m) in enumerate(zip(after.inputs, after.input_maps, strict=True)) if i != number]
        if not all(m == (own[-1],) and constants.array_of(program, v) is not None for v, m in others if m):
            break
        chain.append(found)
        value = after.op.results[0]
    return chain


def _applied(program: Program, after: Structured, number: int, part: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """``after`` applied to one phase, whose last axis may be several times as long."""
    operands, columns = list(after.op.operands), shape[-1]
    assert isinstance(columns, int)
    for i, (value, map_) in enumerate(zip(after.inputs, after.input_maps, strict=True)):
        array = constants.array_of(program, value) if i != number and map_ else None
        if array is not None and array.shape[0] != columns:
            name = constants.global_name(value) or "constant"
            operands[i] = constants.constant(program, np.tile(array, columns // array.shape[0]), name)
    operands[number] = part
    element = ir.RankedTensorType(after.op.results[0].type).element_type
    # In the order of the result's axes, which the loops' extents share.
    operands[-1] = builders.empty(shape, element)
    return rebuild_generic(after.op, operands, [operands[-1].type], after.maps, after.parallel).results[0]


def _assembled(spread: _Spread, phases: Sequence[_Phase], parts: Sequence[ir.Value], old: ir.Value) -> ir.Value:
    """The phases in their places, in the shape of ``old``."""
    result, rank = extents(old), ir.RankedTensorType(old.type).rank
    widths = [1] * rank  # phases that lie next to each other along an axis
    split = list(result)
    for axis in spread.axes:
        widths[axis.result + 1] = axis.stride
        split[axis.result] = add(axis.extent, axis.beyond)
    sizes = [multiply(b, a) for a, b in zip(widths, split, strict=True)]
    whole = builders.empty(sizes, ir.RankedTensorType(old.type).element_type)
    for phase, part in zip(phases, parts, strict=True):
        whole = builders.insert_slice(part, whole, phase.offsets, phase.shape, [1] * rank)
    # The phases leave each axis for the one before it.
    parts_of = [[width, extent] if width > 1 else [extent] for width, extent in zip(widths, split, strict=True)]
    whole = builders.expand_shape(whole, runs([len(p) for p in parts_of]), list(itertools.chain(*parts_of)))
    rounded = [multiply(extent, width) for extent, width in zip(split, [*widths[1:], 1], strict=True)]
    whole = builders.collapse_shape(whole, runs([1 + (w > 1) for w in [*widths[1:], 1]]), rounded)
    if all(axis.excess % axis.stride == 0 for axis in spread.axes):
        return builders.cast(whole, result)
    return builders.extract_slice(whole, [0] * rank, result, [1] * rank)
