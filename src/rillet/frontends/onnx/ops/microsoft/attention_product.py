"""softmax(scale * Q K' + ...) V over heads, for the attention operators of ONNX Runtime.

Queries that share the keys and values of a group are rows of one product, so that keys and values are never repeated.
What changes the scores (a cap, biases, masks) is one elementwise operation in the epilogue of the first product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir

from rillet.dialects import linalg
from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.branches import either
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.scalars import Scalar, constant, maximum, select, tanh
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.reduction import softmax_of
from rillet.ir import builders
from rillet.ir.builders import Expr, Extent

SIZES = "give the features' dimensions sizes"  # advice


def head_count(node: Node, name: str = "num_heads") -> int:
    """The attribute ``name``, a number of heads. Raises InvalidNode unless it is positive."""
    count: int = node.attr(name)
    if count < 1:
        raise InvalidNode(f"{name} is {count}")
    return count


@dataclass(frozen=True)
class Place:
    """Where a score is, as index scalars: its sequence of the batch, its head, the positions of its query and key."""

    batch: Scalar
    head: Scalar
    query: Scalar
    key: Scalar


# A score as it is after one more step; the scalars are the elements of the step's operands.
Body: TypeAlias = Callable[..., Scalar]


@dataclass(frozen=True)
class Step:
    """A change of the scores: ``score = body(score, place, *elements)``.

    Each operand comes with letters that name its dimensions in order: batch ``b``, head ``n``, query ``s``, key ``t``.
    Dimensions of extent 1 that broadcast are left out.
    """

    body: Body
    operands: Sequence[tuple[Tensor, str]] = ()


def heads(node: Node, x: Tensor, count: int, what: str) -> Tensor:
    """[batch, sequence, count x width] as [batch, sequence, count, width].

    Raises InvalidNode for another rank, or a width that the heads do not divide.
    """
    if x.rank != 3:
        raise InvalidNode(f"{what} has rank {x.rank}; it has the dimensions batch, sequence and width")
    width = x.shape[2]
    if isinstance(width, int) and width % count:
        raise InvalidNode(f"{what} is {width} wide, which {count} heads do not divide")
    return node.b.reshape(x, [*x.shape[:2], count, node.b.extents.floordiv(width, count)])


def bias_step(node: Node, bias: Tensor, shape: Sequence[Extent]) -> Step:
    """Add a bias of [batch or 1, heads or 1, queries, keys] to scores of ``shape``."""
    b, e = node.b, node.b.extents
    open_ = [a for a in (0, 1) if bias.rank == 4 and not (bias.shape[a] == 1 or e.equal(bias.shape[a], shape[a]))]
    open_ = [a for a in open_ if isinstance(bias.shape[a], ir.Value)]  # of which only run time tells whether they are 1
    wanted = [
        None if a in open_ or (a < 2 and bias.shape[a : a + 1] == (1,)) else whole for a, whole in enumerate(shape)
    ]
    bias = b.refine(bias, wanted, "attention_bias")
    if open_:
        return _open_bias_step(node, bias, shape, open_)
    kept = [a for a in range(4) if bias.shape[a] != 1]
    letters = "".join("bnst"[a] for a in kept)
    operand = bias if len(kept) == 4 else b.drop_unit_dims(bias, kept)
    return Step(lambda v, _, c: v + convert(c, v.dtype), [(operand, letters)])


def _open_bias_step(node: Node, bias: Tensor, shape: Sequence[Extent], open_: Sequence[int]) -> Step:
    """``bias_step`` where batch or heads, those at ``open_``, may be 1 or those of the scores."""
    b, e = node.b, node.b.extents
    is_one: list[Flag] = [extent == 1 for extent in bias.shape]
    for axis in open_:
        is_one[axis] = e.compare("eq", bias.shape[axis], 1)
        text = f"dimension {axis} of input 'attention_bias' is {{0}}, not {{1}} or 1"
        b.require("eq", bias.shape[axis], shape[axis], text, or_else=is_one[axis])
    source = b.value(bias)

    def body(score: Scalar, place: Place) -> Scalar:
        def at(axis: int, position: Scalar) -> Scalar:
            flag = is_one[axis]
            if isinstance(flag, bool):
                return constant(0, "index") if flag else position
            return select(Scalar(flag, "bool"), constant(0, "index"), position)

        where = [at(a, p) for a, p in enumerate((place.batch, place.head, place.query, place.key))]
        return score + convert(b.element(source, bias.dtype, where), score.dtype)

    return Step(body)


def attend(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    steps: Sequence[Step] = (),
    softcap: float = 0.0,
    sink: Tensor | float | None = None,
    continues: bool = False,
) -> Tensor:
    """Attention as ``_attended`` computes it.

    ``continues`` says that the queries follow a past, so that one query for each sequence is the usual number. That
    case has code of its own, in which the number of rows is known to be small.
    """
    b = node.b
    named = [(q, "bs__"), (k, "b_t_"), (v, "b_t_"), *(operand for step in steps for operand in step.operands)]
    sizes = _sizes(named)
    q, k, v = _sized(b, q, "bs__", sizes), _sized(b, k, "b_t_", sizes), _sized(b, v, "b_t_", sizes)
    steps = _sized_steps(b, steps, sizes)
    batch, queries, count, _ = q.shape
    if not continues or isinstance(queries, int):
        return _attended(node, q, k, v, scale, steps, softcap, sink)

    def of_one() -> Tensor:
        one = {"s": 1}
        single = _sized_steps(b, steps, one)
        return _attended(node, _sized(b, q, "bs__", one), k, v, scale, single, softcap, sink)

    def of_many() -> Tensor:
        return _attended(node, q, k, v, scale, steps, softcap, sink)

    shape = [batch, queries, b.extents.mul(count, v.shape[3])]
    return either(b, b.extents.compare("eq", queries, 1), of_one, of_many, q.dtype, shape)


def _sizes(operands: Sequence[tuple[Tensor, str]]) -> dict[str, int]:
    """The sizes of the dimensions that letters name, as far as some operand knows them."""
    pairs = [pair for tensor, letters in operands for pair in zip(letters, tensor.shape, strict=True)]
    return {letter: extent for letter, extent in pairs if isinstance(extent, int) and letter != "_"}


def _sized_steps(b: Builder, steps: Sequence[Step], sizes: Mapping[str, int]) -> list[Step]:
    return [
        Step(step.body, [(_sized(b, t, letters, sizes), letters) for t, letters in step.operands]) for step in steps
    ]


def _sized(b: Builder, x: Tensor, letters: str, sizes: Mapping[str, int]) -> Tensor:
    """The tensor with the known sizes in its type; they were asserted before."""
    shape = [sizes.get(letter, extent) for letter, extent in zip(letters, x.shape, strict=True)]
    return x if list(x.shape) == shape else b.tensor(builders.cast(b.value(x), shape), x.dtype, shape)


def _attended(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    steps: Sequence[Step],
    softcap: float,
    sink: Tensor | float | None,
) -> Tensor:
    """Attention of ``q`` [batch, queries, heads, width] to ``k`` and ``v`` [batch, groups, keys, width], as
    [batch, queries, heads x width of ``v``].

    A ``scale`` of 0 stands for 1 / sqrt(width). ``sink``, one number for all or one for each head, is the score of a
    key without value.
    """
    b, e = node.b, node.b.extents
    batch, queries, count, width = q.shape
    groups = k.shape[1]
    if not isinstance(count, int) or not isinstance(groups, int) or not isinstance(width, int):
        raise UnsupportedFeature("heads whose number or width is known in each call only", SIZES)
    if count % groups:
        raise InvalidNode(f"{count} heads do not divide into {groups} groups")
    share = count // groups
    rows = e.mul(queries, share)
    split = b.reshape(q, [batch, queries, groups, share, width])
    left = b.reshape(b.transpose(split, [0, 2, 1, 3, 4]), [batch, groups, rows, width])
    dtype = element_types.compute_dtype(q.dtype)
    scores = contract(b, ["bgrd", "bgtd"], "bgrt", [left, k], dtype)
    factor = scale if scale != 0.0 else 1 / math.sqrt(width)
    scores = _adjusted(node, scores, share, factor, softcap, steps)
    weights = softmax_of(node, scores, 3) if sink is None else _with_sink(node, scores, share, sink)
    result = b.cast(contract(b, ["bgrt", "bgte"], "bgre", [weights, v], dtype), q.dtype)
    depth = v.shape[3]
    split = b.transpose(b.reshape(result, [batch, groups, queries, share, depth]), [0, 2, 1, 3, 4])
    return b.reshape(split, [batch, queries, e.mul(count, depth)])


def _exprs(share: int) -> dict[str, Expr]:
    """Which head, query, ... the loops (batch, group, row, key) of the scores stand for; rows are queries x share."""
    b, g, r, t = builders.dims(4)
    if share == 1:
        return {"b": b, "n": g, "s": r, "t": t}
    mod, floor = ir.AffineExpr.get_mod(r, share), ir.AffineExpr.get_floor_div(r, share)
    return {"b": b, "n": g * share + mod, "s": floor, "t": t}


def _adjusted(node: Node, scores: Tensor, share: int, factor: float, softcap: float, steps: Sequence[Step]) -> Tensor:
    b = node.b
    exprs = _exprs(share)
    loops = builders.dims(4)
    operands = [(t, [exprs[letter] for letter in letters]) for step in steps for t, letters in step.operands]

    def body(score: Scalar, *values: Scalar) -> Scalar:
        score = score * factor
        if softcap:
            score = tanh(score / softcap) * softcap
        batch, group, row, key = (Scalar(linalg.IndexOp(axis).result, "index") for axis in range(4))
        head, query = (group, row) if share == 1 else (group * share + row % share, row // share)
        place = Place(batch, head, query, key)
        rest = list(values)
        for step in steps:
            score = step.body(score, place, *rest[: len(step.operands)])
            del rest[: len(step.operands)]
        return score

    output = (b.empty(scores.dtype, scores.shape), loops, scores.dtype, scores.shape)
    return b.generic([(scores, loops), *operands], [output], "pppp", body)[0]


def _with_sink(node: Node, scores: Tensor, share: int, sink: Tensor | float) -> Tensor:
    """exp(x - m) / (exp(sink - m) + sum of exp(x - m)) along rows, m the largest of x and the sink."""
    b = node.b
    dtype = scores.dtype
    every, kept = range(4), [0, 1, 2]
    loops = builders.dims(3)
    row = scores.shape[:3]
    operands: list[tuple[Tensor, Sequence[Expr]]] = []
    if isinstance(sink, Tensor):
        operands = [(sink, [_exprs(share)["n"]])]

    def along_rows(body: Callable[..., Scalar], *tensors: Tensor) -> Tensor:
        def wrapped(*values: Scalar) -> Scalar:
            own = convert(values[len(tensors)], dtype) if operands else scalars.constant(float(sink), dtype)  # type: ignore[arg-type]
            return body(*values[: len(tensors)], own)

        output = (b.empty(dtype, row), loops, dtype, row)
        return b.generic([*((t, loops) for t in tensors), *operands], [output], "ppp", wrapped)[0]

    peak = along_rows(maximum, b.reduce(scores, [3], -math.inf, lambda v, acc: maximum(acc, v)))
    powers = b.map_along(lambda v, m: scalars.exp(v - m), scores.shape, (scores, every), (peak, kept), dtype=dtype)
    total = along_rows(lambda t, m, s: t + scalars.exp(s - m), b.reduce(powers, [3], 0, lambda v, acc: acc + v), peak)
    return b.map_along(lambda v, t: v / t, scores.shape, (powers, every), (total, kept), dtype=dtype)
