"""What ops that ONNX defines by a body require of the shapes of their operands.

Bodies broadcast and reshape what the op itself refuses, so sizes that only run time knows are checked before the body.
A letter stands for one extent in all operands of a node, and ``.`` for any.
"""

from __future__ import annotations

from collections.abc import Callable

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.sequences import Structured
from rillet.ir.builders import Extent

# The terms of an op's operands by the rank of the first one; "" where the body or a rule of ``_MORE`` takes care of it.
_TERMS: dict[str, dict[int, tuple[str, ...]]] = {
    "AffineGrid": {3: ("n..", "")},
    "Attention": {
        3: ("bq.", "bk.", "bk.", "", "bgpd", "bgpe", "b"),
        4: ("bhqd", "bgkd", "bgke", "", "bgpd", "bgpe", "b"),
    },
    "FlexAttention": {4: ("bhqd", "bgkd", "bgke")},
    "LinearAttention": {3: ("bt.", "bt.", "bt.", "b...", "bt.", "bt.")},
    "NegativeLogLikelihoodLoss": {
        2 + len(s): (f"nc{s}", f"n{s}", "c") for s in ("", "x", "xy", "xyz", "wxyz", "vwxyz")
    },
    "RotaryEmbedding": {3: ("bs.", "", "", "bs"), 4: ("bhsd", "", "", "bs")},
}
_TERMS["SoftmaxCrossEntropyLoss"] = _TERMS["NegativeLogLikelihoodLoss"]

Operands = list[Structured | None]
Sizes = dict[str, Extent]  # by letter


def checked_operands(use: NodeUse) -> tuple[Structured | None, ...]:
    """The inputs of a node with their shapes made to agree; what is not known at compile time is asserted.

    Raises InvalidNode where shapes are known not to agree.
    """
    operands: Operands = list(use.inputs)
    sizes: Sizes = {}
    if use.proto.op_type in _TERMS:
        for number, (term, operand) in enumerate(zip(_terms(use), use.inputs, strict=False)):
            if term and isinstance(operand, Tensor):
                operands[number] = _agreed(use.b, sizes, term, operand, use.proto.input[number])
    if use.proto.op_type in _MORE:
        _MORE[use.proto.op_type](use, operands, sizes)
    return tuple(operands)


def _terms(use: NodeUse) -> tuple[str, ...]:
    first, by_rank = use.inputs[0], _TERMS[use.proto.op_type]
    assert isinstance(first, Tensor)
    if first.rank not in by_rank:
        ranks = " or ".join(map(str, by_rank))
        raise InvalidNode(f"input '{use.proto.input[0]}' has rank {first.rank}, not {ranks}")
    return by_rank[first.rank]


def _agreed(b: Builder, sizes: Sizes, term: str, tensor: Tensor, name: str) -> Tensor:
    tensor = b.refine(tensor, [sizes.get(letter) for letter in term], name)
    for letter, extent in zip(term, tensor.shape, strict=True):
        if letter != ".":
            sizes[letter] = extent
    return tensor


def _affine_grid(use: NodeUse, operands: Operands, sizes: Sizes) -> None:
    theta, size = operands
    assert isinstance(theta, Tensor) and isinstance(size, Tensor)
    if isinstance(size.shape[0], int):
        dims = use.b.extents_of(size, "size")
        operands[0] = use.b.refine(theta, [dims[0], len(dims) - 2, len(dims) - 1], use.proto.input[0])


def _attention(use: NodeUse, operands: Operands, sizes: Sizes) -> None:
    b, e = use.b, use.b.extents
    query, key = operands[0], operands[1]
    assert isinstance(query, Tensor) and isinstance(key, Tensor)
    heads = sizes["h"] if query.rank == 4 else use.attributes.get("q_num_heads", 1)
    groups = sizes["g"] if query.rank == 4 else use.attributes.get("kv_num_heads", 1)
    text = "{0} heads of the query are no multiple of those of the key"
    b.agree(heads, e.mul(e.floordiv(heads, groups), groups), text)
    mask = operands[3] if len(operands) > 3 else None
    if not isinstance(mask, Tensor):
        return
    name = use.proto.input[3]
    wanted = [sizes["b"], heads, sizes["q"]]
    for axis, (extent, size) in enumerate(zip(mask.shape[:-1], wanted[5 - mask.rank - 1 :], strict=False)):
        _broadcasts(b, extent, size, f"dimension {axis} of input '{name}' is {{0}}, not 1 or {{1}}")
    # The body pads a mask that is too short with -inf, also one of a single key, which the op's text lets broadcast. It
    # cuts one that is too long.
    total, last = e.add(sizes["k"], sizes.get("p", 0)), mask.shape[-1]
    text = f"dimension {mask.rank - 1} of input '{name}' is {{0}}, but there are {{1}} keys"
    b.require("le", last, total, text)
    b.require("ne", last, 1, f"dimension {mask.rank - 1} of input '{name}' is {{0}}", e.compare("eq", total, 1))


def _broadcasts(b: Builder, extent: Extent, size: Extent, text: str) -> None:
    if not b.extents.equal(extent, size):
        b.require("eq", extent, size, text, or_else=b.extents.compare("eq", extent, 1))


def _linear_attention(use: NodeUse, operands: Operands, sizes: Sizes) -> None:
    state, groups = operands[3] if len(operands) > 3 else None, use.attributes["kv_num_heads"]
    key, value = (o.shape[2] for o in operands[1:3] if isinstance(o, Tensor))
    if isinstance(state, Tensor):
        widths = [use.b.extents.floordiv(width, groups) for width in (key, value)]
        operands[3] = use.b.refine(state, [sizes["b"], groups, *widths], use.proto.input[3])


def _rotary_embedding(use: NodeUse, operands: Operands, sizes: Sizes) -> None:
    b, x = use.b, operands[0]
    assert isinstance(x, Tensor)
    width = use.attributes.get("rotary_embedding_dim", 0)
    if not width:
        width = x.shape[3] if x.rank == 4 else b.extents.floordiv(x.shape[2], use.attributes.get("num_heads", 1))
    sizes["c"] = b.extents.floordiv(width, 2)
    given = len(operands) > 3 and operands[3] is not None
    for number, cache in enumerate(operands[1:3], 1):
        if isinstance(cache, Tensor):
            operands[number] = _agreed(b, sizes, "mc" if given else "bsc", cache, use.proto.input[number])


def _swiglu(use: NodeUse, operands: Operands, sizes: Sizes) -> None:
    first, second = operands
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    operands[1] = use.b.refine(second, first.shape, use.proto.input[1])


_MORE: dict[str, Callable[[NodeUse, Operands, Sizes], None]] = {
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "FlexAttention": _attention,
    "LinearAttention": _linear_attention,
    "RotaryEmbedding": _rotary_embedding,
    "SwiGLU": _swiglu,
}
