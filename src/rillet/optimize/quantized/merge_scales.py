"""Makes one factor, one offset and one clamp of the operations that follow a conversion of integers to floats.

An integer contraction is followed by a scale, a bias, a normalization, an activation that clamps, and the division that
quantizes the result. Each is affine with constants, or a clamp. An affine function with a positive factor may also be
applied before a clamp, and to its bounds. Factors and offsets are combined in float64 and rounded once. So the result
is nearer to the exact one; a quantized result may differ by a step where the quotient was nearly a tie.

Only values computed from integers are rewritten: a division of floats stays one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import Program, builders, constants
from rillet.ir.extents import extents
from rillet.ir.rewrite import clone_operations, erase_dead, fused_location, sweep_constants
from rillet.ir.structured import Structured, is_permutation, is_projected, structured, walk
from rillet.optimize.folding.affine_form import Affine, fits_f32
from rillet.optimize.folding.evaluate import along, compute, known
from rillet.optimize.quantized.dequantization import parameter, ranked
from rillet.optimize.sole_user import follower


@dataclass(frozen=True)
class Options:
    """``elements``: by how many a combined parameter may exceed the elements of its sources."""

    elements: int = 4096


@dataclass(frozen=True)
class _Now:
    """A clamp of an affine function; the arrays broadcast over the axes of the result."""

    affine: Affine
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def then(self, step: Affine) -> _Now | None:
        """``step`` applied to this; None where it would turn a clamp around."""
        clamps = self.low is not None or self.high is not None
        if clamps and not np.all(step.factor > 0):
            return None

        def bound(value: np.ndarray | None) -> np.ndarray | None:
            return None if value is None else value * step.factor + step.offset

        return _Now(step.after(self.affine), bound(self.low), bound(self.high))

    def at_least(self, bound: np.ndarray) -> _Now:
        low = bound if self.low is None else np.maximum(self.low, bound)
        return _Now(self.affine, low, None if self.high is None else np.maximum(self.high, bound))

    def at_most(self, bound: np.ndarray) -> _Now:
        high = bound if self.high is None else np.minimum(self.high, bound)
        return _Now(self.affine, None if self.low is None else np.minimum(self.low, bound), high)

    @property
    def arrays(self) -> list[np.ndarray]:
        found = [self.affine.factor, self.affine.offset, self.low, self.high]
        return [np.asarray(a) for a in found if a is not None]

    @property
    def is_representable(self) -> bool:
        """Whether the numbers are finite in float32, and factors do not lose digits."""
        limits = np.finfo(np.float32)
        factor = np.abs(self.affine.factor)
        whole = np.all((factor >= limits.tiny) | (factor == 0))
        return bool(whole and all(np.all(np.abs(a) <= limits.max) for a in self.arrays))


@dataclass
class _Part:
    """An operation of the chain: the known values of its body, the value that stands for ``_Now``, and the rest of the
    body."""

    view: Structured
    parameters: dict[ir.Value, np.ndarray]  # arguments
    value: ir.Value
    rest: list[ir.Operation]
    sizes: int = 0  # elements of the parameters that are used up


def run(program: Program, options: Options) -> None:
    """Rewrite ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        done: set[ir.Operation] = set()
        for op in list(walk(program.main())):
            if op in done:
                continue
            view = structured(op)
            if view is not None:
                done |= _merge(program, view, options)
        erase_dead(program.main())
        sweep_constants(program)


def _merge(program: Program, first: Structured, options: Options) -> set[ir.Operation]:
    """Rewrite the chain that begins with ``first``, if there is one. Returns the operations that became part of it."""
    start = _start(program, first)
    if start is None:
        return set()
    prefix, variable, part = start
    chain = [first.op]
    now = _Now(Affine(np.float64(1.0), np.float64(0.0)))  # type: ignore[arg-type]
    steps, sizes = 0, 0
    while True:
        now, taken = _advance(part, now)
        steps += taken
        sizes += sum(a.size for a in part.parameters.values())
        if part.value != part.view.yielded()[0] or part.rest:
            break
        found = follower(part.view.op.results[0])
        after = _part(program, *found) if found is not None else None
        if after is None or after.view.init_maps[0] != first.init_maps[0]:
            break
        chain.append(after.view.op)
        part = after
    if steps < 2 or any(a.size > sizes + options.elements for a in now.arrays) or not now.is_representable:
        return set()
    with ir.InsertionPoint(part.view.op), fused_location(chain):
        made = _made(program, first, prefix, variable, now, part)
    part.view.op.results[0].replace_all_uses_with(made)
    return set(chain)


def _start(program: Program, view: Structured) -> tuple[list[ir.Operation], int, _Part] | None:
    """The operations up to the only conversion of integers to floats, the input that they are computed from, and the
    rest of the body."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return None
    if not all(is_projected(m) for m in view.maps):
        return None
    wide = [i for i, m in enumerate(view.input_maps) if m == view.init_maps[0] and is_permutation(m, view.loops)]
    arrays = _arrays(program, view)
    variables = [i for i in wide if arrays[i] is None]
    if len(variables) != 1 or any(a is None for i, a in enumerate(arrays) if i != variables[0]):
        return None
    argument = view.body.arguments[variables[0]]
    if not isinstance(argument.type, ir.IntegerType):
        return None
    depends = {argument}
    ops = view.body_ops()
    for number, op in enumerate(ops):
        if not any(v in depends for v in op.operands):
            continue
        depends.add(op.results[0])
        if op.name in ("arith.sitofp", "arith.uitofp") and isinstance(op.results[0].type, ir.F32Type):
            inner = [v for v in depends if v != op.results[0]]
            if any(u.owner.operation not in ops[: number + 1] for v in inner for u in v.uses):
                return None
            part = _Part(view, _parameters(view, arrays, variables[0]), op.results[0], ops[number + 1 :])
            return ops[: number + 1], variables[0], part
        if not op.name.startswith("arith."):
            return None
    return None


def _part(program: Program, view: Structured, variable: int) -> _Part | None:
    """A follower whose other inputs are constants."""
    if not all(is_projected(m) for m in view.maps):
        return None
    arrays = _arrays(program, view)
    if any(a is None for i, a in enumerate(arrays) if i != variable):
        return None
    return _Part(view, _parameters(view, arrays, variable), view.body.arguments[variable], view.body_ops())


def _arrays(program: Program, view: Structured) -> list[np.ndarray | None]:
    return [constants.array_of(program, v) if isinstance(v.type, ir.RankedTensorType) else None for v in view.inputs]


def _parameters(view: Structured, arrays: list[np.ndarray | None], variable: int) -> dict[ir.Value, np.ndarray]:
    """The constant arguments, as arrays that broadcast over the axes of the result. Splats are one element."""
    found = {}
    for number, array in enumerate(arrays):
        if number == variable or array is None:
            continue
        map_ = view.maps[number]
        if array.size and not any(array.strides):
            array, map_ = array.reshape(-1)[:1].reshape(()), ()
        found[view.body.arguments[number]] = along(array, map_, view.init_maps[0])
    return found


def _advance(part: _Part, now: _Now) -> tuple[_Now, int]:
    """Take as many operations of ``part`` into ``now`` as possible. Returns the new form and their number."""
    values = dict(part.parameters)
    taken = 0
    while part.rest:
        op = part.rest[0]
        if part.value not in op.operands:
            result = compute(op, [known(v, values) for v in op.operands])
            if result is None:
                return now, taken
            values[op.results[0]] = result
            part.parameters[op.results[0]] = result
            part.rest.pop(0)
            continue
        with np.errstate(all="ignore"):
            step = _step(op, part.value, now, values) if len(list(part.value.uses)) == 1 else None
        if step is None or not (fits_f32(step.affine.factor) and fits_f32(step.affine.offset)):
            return now, taken
        now, taken = step, taken + 1
        part.value = op.results[0]
        part.rest.pop(0)
    return now, taken


def _step(op: ir.Operation, value: ir.Value, now: _Now, values: dict[ir.Value, np.ndarray]) -> _Now | None:
    """``op`` applied to ``now``, or None."""
    one, none = np.float64(1.0), np.float64(0.0)
    if op.name == "arith.negf":
        return now.then(Affine(-one, none))  # type: ignore[arg-type]
    first = op.operands[0] == value
    if len(op.operands) != 2 or op.operands[0] == op.operands[1]:
        return None
    other = known(op.operands[1 if first else 0], values)
    if other is None or not np.all(np.isfinite(other)):
        return None
    wide = np.asarray(other, np.float64)
    if op.name == "arith.addf":
        return now.then(Affine(one, wide))  # type: ignore[arg-type]
    if op.name == "arith.subf":
        return now.then(Affine(one, -wide) if first else Affine(-one, wide))  # type: ignore[arg-type]
    if op.name == "arith.mulf":
        return now.then(Affine(wide, none))  # type: ignore[arg-type]
    if op.name == "arith.divf":
        return now.then(Affine(1.0 / wide, none)) if first and np.all(wide) else None  # type: ignore[arg-type]
    if op.name == "arith.maximumf":
        return now.at_least(wide)
    return now.at_most(wide) if op.name == "arith.minimumf" else None


def _made(
    program: Program, first: Structured, prefix: list[ir.Operation], variable: int, now: _Now, last: _Part
) -> ir.Value:
    """The chain as one operation."""
    rank = len(first.init_maps[0])
    loops = builders.dims(rank)
    used = {v for op in last.rest for v in op.operands}
    inputs: list[tuple[ir.Value, list[ir.AffineExpr]]] = [(first.inputs[variable], loops)]
    places: dict[ir.Value, int] = {}  # arguments and known values of the old bodies → inputs
    for value, array in _needed(first, prefix, variable, program).items():
        places[value] = len(inputs)
        inputs.append(parameter(program, ranked(array, rank), "offset"))
    for value, array in last.parameters.items():
        if value in used:
            places[value] = len(inputs)
            inputs.append(parameter(program, ranked(array, rank), "parameter"))
    numbers: dict[str, int] = {}
    for (name, _), number in zip(_STEPS, (now.affine.factor, now.affine.offset, now.low, now.high), strict=True):
        if number is None or np.all(number == _NEUTRAL.get(name, np.nan)):
            continue
        numbers[name] = len(inputs)
        inputs.append(parameter(program, ranked(np.asarray(number).astype(np.float32), rank), name))

    def body(*arguments: ir.Value) -> ir.Value:
        mapping = {first.body.arguments[variable]: arguments[0]}
        mapping.update({value: arguments[number] for value, number in places.items()})
        clone_operations(prefix, mapping)
        x = mapping[prefix[-1].results[0]]
        for name, make in _STEPS:
            if name in numbers:
                x = make(x, arguments[numbers[name]]).result
        mapping[last.value] = x
        clone_operations(last.rest, mapping)
        result = last.view.yielded()[0]
        return mapping.get(result, result)

    result = ir.RankedTensorType(last.view.op.results[0].type)
    output = builders.empty(extents(last.view.op.results[0]), result.element_type)
    return builders.generic(inputs, [(output, loops)], "p" * rank, body)[0]


_NEUTRAL = {"factor": 1.0, "offset": 0.0}
_STEPS = (("factor", arith.MulFOp), ("offset", arith.AddFOp), ("low", arith.MaximumFOp), ("high", arith.MinimumFOp))


def _needed(
    view: Structured, prefix: list[ir.Operation], variable: int, program: Program
) -> dict[ir.Value, np.ndarray]:
    """The constant arguments that the operations before the conversion use."""
    used = {v for op in prefix for v in op.operands}
    found = _parameters(view, _arrays(program, view), variable)
    return {value: array for value, array in found.items() if value in used}
