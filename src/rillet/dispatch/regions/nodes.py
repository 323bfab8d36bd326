"""An operation as fusion sees it: its kind, the loops that index its results and operands, and its cost."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import builders, fourier
from rillet.ir.extents import has_unit_strides
from rillet.ir.rewrite import blocks, defining
from rillet.ir.structured import DYNAMIC, Expr, Map, Structured, captures, is_projected, structured, walk
from rillet.ir.tensor_form import is_device_loop


class Kind(enum.Enum):
    """How an operation takes part in fusion."""

    ELEMENTWISE = "elementwise"  # all loops parallel, results indexed by all of them
    REDUCTION = "reduction"  # a reduction whose operands are all indexed by every parallel loop: rows are independent
    ROOT = "root"  # contraction, convolution, pooling: operands are shared between rows, so it takes no producers
    MOVE = "move"  # joins or cuts tensors: takes no producers, but elementwise operations may follow
    PAD = "pad"
    INSERT = "insert"  # puts a tensor into a larger one, at a place known now: joins the dispatch that makes it
    SOLO = "solo"  # its own dispatch


_MOVE = frozenset(("tensor.concat", "tensor.extract_slice"))
_SOLO = frozenset(("tensor.insert_slice", "tensor.insert"))


@dataclass(eq=False)
class Node:
    """An operation that runs on the device."""

    op: ir.Operation
    index: int  # position in its block
    kind: Kind
    loops: int
    result_maps: dict[ir.Value, Map]  # result → loops, one expression for each axis
    operands: list[tuple[ir.Value, Map | None]]  # tensors read; None: at arbitrary positions
    cost: int  # scalar operations for each point
    extents: Sequence[int]
    parallel: tuple[bool, ...] = ()
    view: Structured | None = None

    @property
    def size(self) -> int | None:
        """Points of the iteration space, None when not static."""
        size = 1
        for extent in self.extents:
            if extent == DYNAMIC:
                return None
            size *= extent
        return size


def host_blocks(main: ir.Operation) -> list[ir.Block]:
    """The blocks of ``@main`` and of its control flow, outermost first; those of device loops are not host code."""
    return [block for block in blocks(main) if not _in_device_loop(block)]


def _in_device_loop(block: ir.Block) -> bool:
    owner = block.owner
    while owner is not None and owner.operation.name != "func.func":
        if is_device_loop(owner.operation):
            return True
        owner = owner.operation.parent
    return False


def guards(operations: Sequence[ir.Operation]) -> list[ir.Operation | None]:
    """For each operation of a block, the ``cf.assert`` that must come before it: the last one written before it.

    None for scalar arithmetic, which an assertion itself needs and which relies on none.
    """
    last: ir.Operation | None = None
    found: list[ir.Operation | None] = []
    for op in operations:
        found.append(None if op.name.startswith(("arith.", "math.")) else last)
        if op.name == "cf.assert":
            last = op
    return found


def argument(value: int) -> ir.Value:
    """An ``index`` constant that dispatches take as an argument, so that dispatches which differ only in it are the
    same."""
    constant = builders.index(value)
    constant.owner.attributes[flow.ARGUMENT] = ir.UnitAttr.get()
    return constant


def is_argument(op: ir.Operation) -> bool:
    """Whether a constant is not to be repeated in each dispatch."""
    return op.name not in ("arith.constant", "complex.constant") or flow.ARGUMENT in op.attributes


def is_source(op: ir.Operation | None) -> bool:
    """Whether the op makes a tensor from no other tensor, so that each dispatch makes its own: ``tensor.empty``, a fill
    of one, a splat constant."""
    if op is None:
        return False
    if op.name == "tensor.empty":
        return True
    if op.name == "linalg.fill":
        return is_source(defining(op.operands[1]))
    return op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType)


def is_insertion(op: ir.Operation) -> bool:
    """Whether its source's dispatch can make the insertion: into an existing or empty tensor of the same rank, without
    steps."""
    if op.name != "tensor.insert_slice":
        return False
    types = [ir.RankedTensorType(v.type) for v in list(op.operands)[:2]]
    owner = defining(op.operands[1])
    is_made_here = is_source(owner) and owner is not None and owner.name != "tensor.empty"
    same_rank = types[0].rank == types[1].rank and types[0].rank > 0
    return same_rank and not is_made_here and has_unit_strides(op)


def node(op: ir.Operation, index: int) -> Node | None:
    """The node for a device operation; None for host code and sources."""
    view = structured(op)
    if view is not None:
        return _generic(view, index)
    if op.name == "tensor.pad":
        tensor = ir.RankedTensorType(op.results[0].type)
        identity = tuple(range(tensor.rank))
        source = op.operands[0]
        return Node(
            op,
            index,
            Kind.PAD,
            tensor.rank,
            {op.results[0]: identity},
            [(source, identity)],
            1,
            list(tensor.shape),
            (True,) * tensor.rank,
        )
    if op.name in _MOVE:
        tensor = ir.RankedTensorType(op.results[0].type)
        sources = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
        return Node(
            op,
            index,
            Kind.MOVE,
            tensor.rank,
            {op.results[0]: tuple(range(tensor.rank))},
            [(v, None) for v in sources],
            1,
            list(tensor.shape),
            (True,) * tensor.rank,
        )
    if is_insertion(op):
        source, destination = op.operands[0], op.operands[1]
        tensor = ir.RankedTensorType(source.type)
        identity = tuple(range(tensor.rank))
        operands: list[tuple[ir.Value, Map | None]] = [(source, identity)]
        if not is_source(defining(destination)):
            operands.append((destination, None))
        parallel = (True,) * tensor.rank
        results = {op.results[0]: identity}
        return Node(op, index, Kind.INSERT, tensor.rank, results, operands, 1, list(tensor.shape), parallel)
    is_fill = op.name == "linalg.fill" and not is_source(op)
    many = op.name == "tensor.from_elements" and len(op.operands) > 1
    if op.name in _SOLO or is_fill or many or is_device_loop(op):
        return Node(op, index, Kind.SOLO, 0, {}, [], 1, [])
    return None


def _generic(view: Structured, index: int) -> Node:
    op = view.op
    operands: list[tuple[ir.Value, Map | None]] = list(zip(view.inputs, view.input_maps, strict=True))
    for number, (init, map_) in enumerate(zip(view.inits, view.init_maps, strict=True)):
        # An init that comes from nowhere is cloned; another is data when the body reads it.
        if view.init_is_read(number) and not is_source(defining(init)):
            operands.append((init, map_))
    operands += [(v, None) for v in captures(op) if isinstance(v.type, ir.RankedTensorType)]
    operands = [(v, m) for v, m in operands if isinstance(v.type, ir.RankedTensorType)]
    cost = max(1, sum(1 for _ in walk(op)) - 1)
    results = dict(zip(op.results, view.init_maps, strict=True))
    return Node(op, index, _kind(view), view.loops, results, operands, cost, view.extents, view.parallel, view)


def _kind(view: Structured) -> Kind:
    if fourier.MARK in view.op.attributes:
        return Kind.SOLO
    if view.is_elementwise:
        return Kind.ELEMENTWISE
    parallel = [i for i, p in enumerate(view.parallel) if p]
    if any(sorted(_plain(m)) != parallel or not is_projected(m) for m in view.init_maps):
        return Kind.SOLO
    if len(parallel) == view.loops or has_walk(view):
        return Kind.SOLO
    for value, map_ in zip(view.inputs, view.input_maps, strict=True):
        is_scalar = not isinstance(value.type, ir.RankedTensorType) or not map_
        if not is_scalar and not (is_projected(map_) and set(parallel) <= set(_plain(map_))):
            return Kind.ROOT
    return Kind.REDUCTION


def has_walk(view: Structured) -> bool:
    """Whether the body has a loop that runs as long as its data say."""
    return any(op.name == "scf.while" for op in view.body_ops())


def _plain(map_: Sequence[Expr]) -> list[int]:
    return [e for e in map_ if isinstance(e, int)]
