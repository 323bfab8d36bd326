"""LSTM, GRU and RNN: one product for the inputs of all steps, then a host loop over the steps.

The loop carries the output sequence and the states. Each step is a product with the recurrence weights and one
elementwise generic that reads the gates as [batch, gate, hidden]. After the end of a sequence its state stays and its
outputs are zero. Narrow floats are computed in f32, in which states stay from step to step; results are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.checks import require
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, exp, maximum, minimum, select, sigmoid, tanh
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.activation import hard_sigmoid_of, softplus_of
from rillet.frontends.onnx.ops.matmul import multiply
from rillet.frontends.onnx.registry import op
from rillet.ir import builders, locations
from rillet.ir.builders import Expr, Extent

Activation = Callable[[Scalar], Scalar]
_Step = Callable[[Tensor, list[Tensor]], list[Tensor]]


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    """An activation of the recurrent ops by its ONNX name (case does not matter)."""

    def a(default: float) -> float:
        return default if alpha is None else alpha

    def b(default: float) -> float:
        return default if beta is None else beta

    table: dict[str, Activation] = {
        "relu": lambda v: maximum(v, 0.0),
        "tanh": tanh,
        "sigmoid": sigmoid,
        "affine": lambda v: v * a(1.0) + b(0.0),
        "leakyrelu": lambda v: select(v < 0.0, v * a(0.01), v),
        "thresholdedrelu": lambda v: select(v > a(1.0), v, 0.0),
        "scaledtanh": lambda v: tanh(v * b(1.0)) * a(1.0),
        "hardsigmoid": lambda v: hard_sigmoid_of(v, a(0.2), b(0.5)),
        "elu": lambda v: select(v < 0.0, (exp(minimum(v, 0.0)) - 1.0) * a(1.0), v),
        "softsign": lambda v: v / (scalars.absolute(v) + 1.0),
        "softplus": softplus_of,
    }
    if name.lower() not in table:
        raise InvalidNode(f"activation '{name}' is not one of {', '.join(sorted(table))}")
    return table[name.lower()]


_TAKES_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_TAKES_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(node: Node, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """The activations of each direction. Alphas and betas are listed only for the functions that take them."""
    names = node.attr("activations", None) or [*defaults] * directions
    if len(names) != len(defaults) * directions:
        raise InvalidNode(f"{len(names)} activations for {directions} direction(s) of {len(defaults)}")
    alphas, betas = list(node.attr("activation_alpha", [])), list(node.attr("activation_beta", []))
    made = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in _TAKES_ALPHA else None
        beta = betas.pop(0) if betas and name.lower() in _TAKES_BETA else None
        made.append(_activation(name, alpha, beta))
    count = len(defaults)
    return [made[d * count : (d + 1) * count] for d in range(directions)]


@dataclass(frozen=True)
class Inputs:
    """The operands all three ops share, time first. ``x`` is [steps, batch, inputs]."""

    x: Tensor
    weights: Tensor
    recurrence: Tensor
    bias: Tensor | None
    lengths: Tensor | None
    hidden: Tensor | None
    directions: int
    size: Extent

    @property
    def compute_dtype(self) -> str:
        """The type of the states and the gates."""
        return element_types.compute_dtype(self.x.dtype)

    @property
    def steps(self) -> Extent:
        return self.x.shape[0]

    @property
    def batch(self) -> Extent:
        return self.x.shape[1]


def _inputs(node: Node, gates: int) -> Inputs:
    """The shared operands, their dimensions made to agree with one another."""
    x, weights, recurrence = node.inputs[:3]
    assert x is not None and weights is not None and recurrence is not None
    return inputs_of(node, gates, x, weights, recurrence)


def inputs_of(node: Node, gates: int, x: Tensor, weights: Tensor, recurrence: Tensor) -> Inputs:
    """The same of operands that the node may have in another form; those from B on are the node's."""
    b, e = node.b, node.b.extents
    for name, tensor in (("X", x), ("W", weights), ("R", recurrence)):
        if tensor.rank != 3:
            raise InvalidNode(f"{name} has rank {tensor.rank}, not 3")
    kind = node.attr("direction", "forward")
    if kind not in ("forward", "reverse", "bidirectional"):
        raise InvalidNode(f"direction '{kind}' is not one of forward, reverse, bidirectional")
    directions = 2 if kind == "bidirectional" else 1
    if isinstance(recurrence.shape[0], int) and recurrence.shape[0] != directions:
        raise InvalidNode(f"the weights have {recurrence.shape[0]} direction(s), the node is {kind}")
    size = recurrence.shape[2]
    if not isinstance(size, int):
        size = node.attr("hidden_size", size)
    if isinstance(size, int) and node.attr("hidden_size", size) != size:
        raise InvalidNode(f"hidden_size is {node.attr('hidden_size')}, but R is of {size}")
    rows = e.mul(gates, size)
    if isinstance(rows, int) and isinstance(weights.shape[1], int) and weights.shape[1] != rows:
        raise InvalidNode(f"the weights have {weights.shape[1]} rows, not {gates} x {size}")
    x = _time_first(node, x)
    batch = x.shape[1]
    weights = b.refine(weights, [directions, rows, x.shape[2]], "W")
    recurrence = b.refine(recurrence, [directions, rows, size], "R")
    bias, lengths = node.input(3), node.input(4)
    if bias is not None:
        bias = b.refine(bias, [directions, e.mul(2, rows)], "B")
    if lengths is not None:
        lengths = b.refine(lengths, [batch], "sequence_lens")
        _check_lengths(node, lengths, x.shape[0])
    if lengths is not None and lengths.array is not None and (lengths.array == x.shape[0]).all():
        lengths = None
    return Inputs(x, weights, recurrence, bias, lengths, node.input(5), directions, size)


def _check_lengths(node: Node, lengths: Tensor, steps: Extent) -> None:
    """Require that sequence_lens are from 0 to the number of steps."""
    if lengths.array is not None and isinstance(steps, int):
        wrong = lengths.array[(lengths.array < 0) | (lengths.array > steps)]
        if wrong.size:
            raise InvalidNode(f"sequence_lens has {wrong[0]}, but the sequence has {steps} steps")
        return
    last = Scalar(builders.as_index(steps), "index")
    flags = node.b.map(lambda v: (v >= 0) & (convert(v, "index") <= last), lengths, dtype="bool")
    where = locations.label(ir.Location.current)
    require(node.b, flags, f"{where}: sequence_lens must be from 0 to the number of steps")


def _time_first(node: Node, tensor: Tensor) -> Tensor:
    """A sequence or state whose first two dimensions ``layout`` may exchange."""
    return node.b.transpose(tensor, [1, 0, 2]) if node.attr("layout", 0) else tensor


def direction_of(node: Node, tensor: Tensor, index: int) -> Tensor:
    """The part of a parameter or state that belongs to one direction."""
    part = node.b.slice_axis(tensor, 0, index, 1)
    return node.b.reshape(part, part.shape[1:])


def _bias_part(node: Node, inputs: Inputs, direction: int, half: int, gates: int) -> Tensor | None:
    """The input (0) or recurrence (1) half of one direction's bias, [gates * size]."""
    if inputs.bias is None:
        return None
    whole = direction_of(node, inputs.bias, direction)
    rows = node.b.extents.mul(gates, inputs.size)
    return node.b.slice_axis(whole, 0, node.b.extents.mul(half, rows), rows)


def _project(node: Node, x: Tensor, weights: Tensor, bias: Sequence[Tensor | None]) -> Tensor:
    """x * weights^T + biases, as it is computed; constant weights are transposed beforehand."""
    b = node.b
    product = multiply(node, x, b.transpose(weights, [1, 0]), element_types.compute_dtype(x.dtype))
    return with_biases(node, product, bias)


def with_biases(node: Node, product: Tensor, bias: Sequence[Tensor | None]) -> Tensor:
    """The product plus those of the vectors that there are, along its last dimension."""
    b = node.b
    given = [(t, [product.rank - 1]) for t in bias if t is not None]
    if not given:
        return product
    full = (product, range(product.rank))

    def add(v: Scalar, *rest: Scalar) -> Scalar:
        for r in rest:
            v = v + r
        return v

    return b.map_along(add, product.shape, full, *given, dtype=product.dtype)


def _clipped(node: Node) -> Activation:
    clip = node.attr("clip", None)
    return (lambda v: v) if not clip else (lambda v: maximum(minimum(v, float(clip)), -float(clip)))


def _gates(node: Node, tensor: Tensor, count: int, size: Extent) -> list[tuple[Tensor, list[Expr]]]:
    """[batch, count * size] as ``count`` operands of a loop nest over (batch, size), without copies."""
    grouped = node.b.reshape(tensor, [tensor.shape[0], count, size])
    row, column = builders.dims(2)
    return [(grouped, [row, gate, column]) for gate in range(count)]


def _elementwise(
    node: Node,
    shape: Sequence[Extent],
    operands: Sequence[tuple[Tensor, Sequence[Expr]]],
    body: Callable[..., Scalar | Sequence[Scalar]],
    count: int,
    dtype: str,
) -> list[Tensor]:
    """A generic over (batch, size) with ``count`` results."""
    b = node.b
    loops = builders.dims(2)
    outputs = [(b.empty(dtype, shape), loops, dtype, shape) for _ in range(count)]
    return b.generic(operands, outputs, "pp", lambda *arguments: body(*arguments[:-count]))


def _run(
    node: Node, inputs: Inputs, direction: int, projected: Tensor, states: list[Tensor], step: _Step
) -> list[Tensor]:
    """Loop over the steps of one direction: the first state at each [steps, batch, size], then the last states."""
    b, e = node.b, node.b.extents
    backwards = node.attr("direction", "forward") == "reverse" or direction == 1
    dtype = inputs.x.dtype
    sequence_shape = [inputs.steps, inputs.batch, inputs.size]
    sequence = b.empty(dtype, sequence_shape)
    initial = [sequence, *(b.value(s) for s in states)]
    lengths = inputs.lengths
    zero, one, last = builders.index(0), builders.index(1), builders.as_index(inputs.steps)
    loop = scf.ForOp(zero, last, one, initial)
    e.push()
    with ir.InsertionPoint(loop.body):
        turn = loop.induction_variable
        at = e.sub(e.sub(inputs.steps, 1), turn) if backwards else turn
        carried = list(loop.inner_iter_args)
        before = [b.tensor(v, s.dtype, s.shape) for v, s in zip(carried[1:], states, strict=True)]
        gates = b.slice_axis(projected, 0, at, 1)
        after = step(b.reshape(gates, gates.shape[1:]), before)
        shown = after[0]
        if lengths is not None:
            shown, after = _mask(node, lengths, at, before, after)
        shown = b.cast(shown, dtype)
        sizes = [1, inputs.batch, inputs.size]
        written = builders.insert_slice(b.value(shown), carried[0], [at, 0, 0], sizes, [1, 1, 1])
        scf.YieldOp([written, *(b.value(t) for t in after)])
    e.pop()
    results = list(loop.results)
    return [
        b.tensor(results[0], dtype, sequence_shape),
        *(b.tensor(v, s.dtype, s.shape) for v, s in zip(results[1:], states, strict=True)),
    ]


def _mask(
    node: Node, lengths: Tensor, at: Extent, before: Sequence[Tensor], after: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """After a sequence's end its output is zero and its state stays."""
    row, column = builders.dims(2)
    position = Scalar(builders.as_index(at), "index")

    def body(length: Scalar, new: Scalar, old: Scalar) -> list[Scalar]:
        inside = position < convert(length, "index")
        return [select(inside, new, 0.0), select(inside, new, old)]

    results = [
        _elementwise(node, n.shape, [(lengths, [row]), (n, [row, column]), (o, [row, column])], body, 2, n.dtype)
        for n, o in zip(after, before, strict=True)
    ]
    return results[0][0], [r[1] for r in results]


def _initial(node: Node, inputs: Inputs, state: Tensor | None, direction: int) -> Tensor:
    shape = [inputs.batch, inputs.size]
    if state is None:
        return node.b.fill(0.0, inputs.compute_dtype, shape)
    whole = node.b.refine(_time_first(node, state), [inputs.directions, *shape])
    return node.b.cast(direction_of(node, whole, direction), inputs.compute_dtype)


def _finish(node: Node, inputs: Inputs, runs: Sequence[list[Tensor]]) -> list[Tensor]:
    """Stack the directions: Y [steps, directions, batch, size] and each last state [directions, batch, size]."""
    b = node.b
    stacked = [b.concat([b.unsqueeze(r[0], [1]) for r in runs], 1)]
    for i in range(1, len(runs[0])):
        stacked.append(b.cast(b.concat([b.unsqueeze(r[i], [0]) for r in runs], 0), inputs.x.dtype))
    if node.attr("layout", 0):
        stacked = [b.transpose(stacked[0], [2, 0, 1, 3]), *(b.transpose(s, [1, 0, 2]) for s in stacked[1:])]
    return stacked[: max(1, node.output_count)]


@op("LSTM", since=7, ignores=["hidden_size"])
def lstm(node: Node, *_: Tensor | None) -> list[Tensor]:
    """C' = F C + I g(s), H' = O h(C'), where the gates I, O and F are f(s), each of its own sum s (ONNX LSTM).

    A sum s is x Wᵀ + H Rᵀ + Wb + Rb. Optional peepholes add P C to those of I and F, and P C' to that of O. With
    ``input_forget`` F is 1 - I. The weights are in the order I, O, F, C.
    """
    b = node.b
    inputs = _inputs(node, 4)

    def project(d: int, biases: Sequence[Tensor | None]) -> Tensor:
        return _project(node, inputs.x, direction_of(node, inputs.weights, d), biases)

    def recur(d: int) -> Callable[[Tensor], Tensor]:
        recurrence = b.transpose(direction_of(node, inputs.recurrence, d), [1, 0])
        return lambda hidden: multiply(node, hidden, recurrence)

    return lstm_of(node, inputs, project, recur)


def lstm_of(
    node: Node,
    inputs: Inputs,
    project: Callable[[int, Sequence[Tensor | None]], Tensor],
    recur: Callable[[int], Callable[[Tensor], Tensor]],
) -> list[Tensor]:
    """An LSTM whose products the caller makes.

    ``project`` gives x Wᵀ with the biases added, [steps, batch, 4 * size], of a direction; ``recur`` what makes H Rᵀ,
    [batch, 4 * size], of its hidden state.
    """
    b = node.b
    peephole = node.input(7)
    if peephole is not None:
        peephole = b.refine(peephole, [inputs.directions, b.extents.mul(3, inputs.size)])
    activations = _activations(node, ["Sigmoid", "Tanh", "Tanh"], inputs.directions)
    clip = _clipped(node)
    coupled = bool(node.attr("input_forget", 0))
    row, column = builders.dims(2)
    runs = []
    for d in range(inputs.directions):
        f, g, h = activations[d]
        projected = project(d, [_bias_part(node, inputs, d, half, 4) for half in (0, 1)])
        recurrent_of = recur(d)
        peepholes: list[tuple[Tensor, list[Expr]]] = []
        if peephole is not None:
            grouped = b.reshape(direction_of(node, peephole, d), [3, inputs.size])
            peepholes = [(grouped, [p, column]) for p in range(3)]

        def step(
            gates: Tensor,
            states: list[Tensor],
            f: Activation = f,
            g: Activation = g,
            h: Activation = h,
            recurrent_of: Callable[[Tensor], Tensor] = recurrent_of,
            peepholes: Sequence[tuple[Tensor, list[Expr]]] = tuple(peepholes),
        ) -> list[Tensor]:
            hidden, cell = states
            recurrent = recurrent_of(hidden)

            def body(*v: Scalar) -> list[Scalar]:
                x, r, c, p = v[:4], v[4:8], v[8], v[9:]
                at_i, at_o, at_f, at_c = (s + t for s, t in zip(x, r, strict=True))
                if p:
                    at_i, at_f = at_i + p[0] * c, at_f + p[2] * c
                i = f(clip(at_i))
                forget = 1.0 - i if coupled else f(clip(at_f))
                new = forget * c + i * g(clip(at_c))
                o = f(clip(at_o + p[1] * new if p else at_o))
                return [o * h(new), new]

            operands = [
                *_gates(node, gates, 4, inputs.size),
                *_gates(node, recurrent, 4, inputs.size),
                (cell, [row, column]),
                *peepholes,
            ]
            return _elementwise(node, cell.shape, operands, body, 2, cell.dtype)

        states = [_initial(node, inputs, s, d) for s in (inputs.hidden, node.input(6))]
        runs.append(_run(node, inputs, d, projected, states, step))
    return _finish(node, inputs, runs)


@op("GRU", since=7, ignores=["hidden_size"])
def gru(node: Node, *_: Tensor | None) -> list[Tensor]:
    """h = (1 - update) g(x Wᵀ + (reset h) Rᵀ + Wb + Rb) + update h, with gates f(x Wᵀ + h Rᵀ + Wb + Rb) (ONNX GRU).

    With ``linear_before_reset`` the reset gate multiplies h Rᵀ + Rb instead of h. The gates are in the order update,
    reset, hidden.
    """
    b = node.b
    inputs = _inputs(node, 3)
    activations = _activations(node, ["Sigmoid", "Tanh"], inputs.directions)
    clip = _clipped(node)
    size = inputs.size
    row, column = builders.dims(2)
    after_reset = bool(node.attr("linear_before_reset", 0))
    runs = []
    for d in range(inputs.directions):
        f, g = activations[d]
        input_bias, recurrence_bias = (_bias_part(node, inputs, d, half, 3) for half in (0, 1))
        projected = _project(node, inputs.x, direction_of(node, inputs.weights, d), [input_bias])
        recurrence = direction_of(node, inputs.recurrence, d)

        def step(
            gates: Tensor,
            states: list[Tensor],
            f: Activation = f,
            g: Activation = g,
            recurrence: Tensor = recurrence,
            bias: Tensor | None = recurrence_bias,
        ) -> list[Tensor]:
            hidden = states[0]
            here = [row, column]
            x = _gates(node, gates, 3, size)
            if after_reset:
                r = _gates(node, _project(node, hidden, recurrence, [bias]), 3, size)

                def whole(
                    xz: Scalar, xr: Scalar, xh: Scalar, rz: Scalar, rr: Scalar, rh: Scalar, old: Scalar
                ) -> list[Scalar]:
                    z, reset = f(clip(xz + rz)), f(clip(xr + rr))
                    return [(1.0 - z) * g(clip(xh + reset * rh)) + z * old]

                return _elementwise(node, hidden.shape, [*x, *r, (hidden, here)], whole, 1, hidden.dtype)
            both = b.extents.mul(2, size)
            two = b.slice_axis(recurrence, 0, 0, both)
            two_bias = None if bias is None else b.slice_axis(bias, 0, 0, both)
            r = _gates(node, _project(node, hidden, two, [two_bias]), 2, size)

            def first(xz: Scalar, xr: Scalar, rz: Scalar, rr: Scalar, old: Scalar) -> list[Scalar]:
                return [f(clip(xz + rz)), f(clip(xr + rr)) * old]

            z, reset = _elementwise(node, hidden.shape, [*x[:2], *r, (hidden, here)], first, 2, hidden.dtype)
            third = b.slice_axis(recurrence, 0, both, size)
            third_bias = None if bias is None else b.slice_axis(bias, 0, both, size)
            candidate = _project(node, reset, third, [third_bias])

            def second(xh: Scalar, rh: Scalar, update: Scalar, old: Scalar) -> list[Scalar]:
                return [(1.0 - update) * g(clip(xh + rh)) + update * old]

            operands = [x[2], (candidate, here), (z, here), (hidden, here)]
            return _elementwise(node, hidden.shape, operands, second, 1, hidden.dtype)

        runs.append(_run(node, inputs, d, projected, [_initial(node, inputs, inputs.hidden, d)], step))
    return _finish(node, inputs, runs)


@op("RNN", since=7, ignores=["hidden_size"])
def rnn(node: Node, *_: Tensor | None) -> list[Tensor]:
    """h = f(x Wᵀ + h Rᵀ + Wb + Rb) for each step; f is tanh by default."""
    b = node.b
    inputs = _inputs(node, 1)
    activations = _activations(node, ["Tanh"], inputs.directions)
    clip = _clipped(node)
    loops = builders.dims(2)
    runs = []
    for d in range(inputs.directions):
        biases = [_bias_part(node, inputs, d, half, 1) for half in (0, 1)]
        projected = _project(node, inputs.x, direction_of(node, inputs.weights, d), biases)
        recurrence = b.transpose(direction_of(node, inputs.recurrence, d), [1, 0])

        def step(
            gates: Tensor, states: list[Tensor], f: Activation = activations[d][0], recurrence: Tensor = recurrence
        ) -> list[Tensor]:
            recurrent = multiply(node, states[0], recurrence)
            operands = [(gates, loops), (recurrent, loops)]
            return _elementwise(node, states[0].shape, operands, lambda x, r: [f(clip(x + r))], 1, states[0].dtype)

        runs.append(_run(node, inputs, d, projected, [_initial(node, inputs, inputs.hidden, d)], step))
    return _finish(node, inputs, runs)
