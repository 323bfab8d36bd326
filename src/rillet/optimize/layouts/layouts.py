"""Chooses a layout for each tensor of a block: channels last around convolutions, carried as far as it is free.

A layout is a permutation ``p``: axis ``i`` in memory is axis ``p[i]`` of the value. Convolutions, recognized by the
roles of their loops, want batch, image, groups, channels in this order. From there layouts spread forwards through all
operations that accept any layout (structured operations, pads, concatenations, slices, reshapes that keep axes whole).
Then they spread backwards to values whose uses all want the same layout. Where neither reaches, the rewrite adds a
transposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rillet.ir.constants import global_name
from rillet.ir.contraction import Contraction, contraction
from rillet.ir.extents import reassociation
from rillet.ir.rewrite import defining, users
from rillet.ir.structured import Map, Structured, captures, copy_permutation, dims_in, index_loop, structured, walk

Layout = tuple[int, ...]


def identity(rank: int) -> Layout:
    """The layout that keeps all axes in order."""
    return tuple(range(rank))


def rank_of(value: ir.Value) -> int:
    """The number of axes of a tensor."""
    return ir.RankedTensorType(value.type).rank


def is_flexible(value: ir.Value) -> bool:
    """Whether a value takes any layout at no cost: constants, and tensors made from no other tensor, do."""
    owner = defining(value)
    if owner is None:
        return False
    if owner.name == "linalg.fill":
        return is_flexible(owner.operands[1])
    return owner.name in ("tensor.empty", "arith.constant") or global_name(value) is not None


def image_layout(map_: Map, roles: Contraction) -> Layout:
    """Batch, image positions, groups (or depthwise channels), reduced channels."""

    def key(axis: int) -> int:
        expr = map_[axis]
        if not isinstance(expr, int):
            return 1
        return 0 if expr in roles.m else 2 if expr in roles.batch else 3

    return tuple(sorted(range(len(map_)), key=key))


def filter_layout(map_: Map, roles: Contraction) -> Layout:
    """Groups, window, reduced channels, output channels; a depthwise filter has its channels last."""
    last = roles.batch if not roles.n else ()

    def key(axis: int) -> int:
        expr = map_[axis]
        if expr in last or expr in roles.n:
            return 3
        return 0 if expr in roles.batch else 1 if expr in roles.window else 2

    return tuple(sorted(range(len(map_)), key=key))


def output_layout(map_: Map, roles: Contraction) -> Layout:
    """Batch, image, groups, channels."""

    def key(axis: int) -> int:
        expr = map_[axis]
        return 0 if expr in roles.m else 1 if expr in roles.image else 2 if expr in roles.batch else 3

    return tuple(sorted(range(len(map_)), key=key))


class Layouts:
    """The layouts of the values of one block; ``of`` gives the identity for values that were left alone."""

    def __init__(self, block: ir.Block) -> None:
        self.operations = [op.operation for op in block.operations]
        self.chosen: dict[ir.Value, Layout] = {}
        self.views: dict[ir.Operation, Structured] = {}
        self.convolutions: dict[ir.Operation, Contraction] = {}
        for op in self.operations:
            view = structured(op)
            if view is None:
                continue
            self.views[op] = view
            roles = contraction(view)
            if roles is not None and roles.is_convolution:
                self.convolutions[op] = roles
        if self.convolutions:
            self._forwards()
            self._backwards()

    def of(self, value: ir.Value) -> Layout:
        """The layout chosen for a tensor; the identity when none was."""
        return self.chosen.get(value) or identity(rank_of(value))

    def is_moved(self, value: ir.Value) -> bool:
        """Whether the tensor got another layout than its own."""
        return value in self.chosen

    def _choose(self, value: ir.Value, layout: Layout | None) -> None:
        if layout is not None and layout != identity(len(layout)):
            self.chosen[value] = layout

    def _forwards(self) -> None:
        for op in self.operations:
            for result in op.results:
                if isinstance(result.type, ir.RankedTensorType):
                    self._choose(result, self._result(op, result))

    def _result(self, op: ir.Operation, result: ir.Value) -> Layout | None:
        """The layout that ``result`` gets from the operands' layouts."""
        if op in self.convolutions:
            return output_layout(self.views[op].init_maps[0], self.convolutions[op])
        if op in self.views:
            return self._generic_result(self.views[op], ir.OpResult(result).result_number)
        rule = _FORWARD.get(op.name)
        if rule is None:
            return None
        moved = [v for v in op.operands if v in self.chosen]
        return rule(op, self.chosen[moved[0]]) if moved else None

    def _generic_result(self, view: Structured, number: int) -> Layout | None:
        read = [*zip(view.inputs, view.maps, strict=False), *_extracted(view.op)]
        moved = [(v, m) for v, m in read if v in self.chosen]
        target = view.init_maps[number]
        if not moved or not all(isinstance(e, int) for e in target):
            return None
        value, map_ = max(moved, key=lambda pair: len(pair[1]))
        place = _places([map_[axis] for axis in self.chosen[value]])
        shape = ir.RankedTensorType(view.op.results[number].type).shape
        for expr, extent in zip(target, shape, strict=True):
            if extent == 1:
                place.setdefault(expr, -1)  # type: ignore[arg-type]
        if not all(e in place for e in target):
            return None
        return tuple(sorted(range(len(target)), key=lambda axis: place[target[axis]]))  # type: ignore[index]

    def _backwards(self) -> None:
        for op in reversed(self.operations):
            for result in op.results:
                if result not in self.chosen and self._can_produce(op):
                    self._choose(result, self._demand(result))

    def _can_produce(self, op: ir.Operation) -> bool:
        if op in self.convolutions or op.name in ("tensor.empty", "arith.constant", "linalg.fill"):
            return False
        if op in self.views:
            view = self.views[op]
            return len(view.inits) == 1 and all(isinstance(e, int) for e in view.init_maps[0])
        return op.name in _BACKWARD

    def _demand(self, value: ir.Value) -> Layout | None:
        """The layout that every use of ``value`` wants, or None."""
        wanted = {self._wants(use.owner.operation, use.operand_number, value) for use in value.uses}
        return wanted.pop() if len(wanted) == 1 else None

    def _wants(self, op: ir.Operation, number: int, value: ir.Value) -> Layout | None:
        if op.block != value.owner.operation.block:  # type: ignore[union-attr]
            return None
        if op in self.convolutions:
            roles = self.convolutions[op]
            return image_layout(self.views[op].maps[number], roles) if number == roles.lhs else None
        if not len(op.results) or (op.results[0] not in self.chosen and not self._only_transposes(op, value)):
            return None
        layout = self.of(op.results[0])
        if op in self.views:
            view = self.views[op]
            place = _places([view.init_maps[0][axis] for axis in layout])
            map_ = view.maps[number]
            keys = [min((place[d] for d in dims_in(e) if d in place), default=None) for e in map_]
            if any(k is None for k in keys):
                return None
            return tuple(sorted(range(len(map_)), key=lambda axis: keys[axis]))  # type: ignore[arg-type,return-value]
        rule = _BACKWARD.get(op.name)
        return rule(op, layout) if rule is not None and (number == 0 or op.name in _SEVERAL) else None

    def _only_transposes(self, op: ir.Operation, value: ir.Value) -> bool:
        """Whether ``op`` is a transposition that the elementwise operation before it can make unnecessary, and that no
        product reads in place anyway."""
        maker = self.views.get(value.owner.operation)  # type: ignore[union-attr]
        if copy_permutation(op) is None or maker is None or not maker.is_elementwise:
            return False
        readers = [self.views.get(user) for user in users(op.results[0])]
        products = [contraction(reader) if reader is not None else None for reader in readers]
        return not all(roles is not None and not roles.is_convolution for roles in products)


def only_extracted(op: ir.Operation) -> set[ir.Value]:
    """The tensors that the body of ``op`` captures only to extract elements: in any layout, by indices in its order."""
    inner = list(walk(op))
    sources = {o.operands[0] for o in inner if o.name == "tensor.extract"}
    others = {v for o in inner for v in list(o.operands)[1 if o.name == "tensor.extract" else 0 :]}
    return {v for v in captures(op) if v in sources and v not in others}


def _extracted(op: ir.Operation) -> list[tuple[ir.Value, Map]]:
    """The captured tensors read at the loops' own positions, or at 0 where only run time tells that they broadcast."""
    found: list[tuple[ir.Value, Map]] = []
    for inner in walk(op):
        if inner.name == "tensor.extract":
            loops = [_own_loop(index) for index in list(inner.operands)[1:]]
            if all(loop is not None for loop in loops):
                found.append((inner.operands[0], tuple(loop for loop in loops if loop is not None)))
    return found


def _own_loop(index: ir.Value) -> int | None:
    choice = defining(index, "arith.select")
    op = defining(index if choice is None else choice.operands[2], "linalg.index")
    return None if op is None else index_loop(op)


def _places(exprs: Sequence[object]) -> dict[int, int]:
    """Loop → position of the first expression that mentions it."""
    place: dict[int, int] = {}
    for position, expr in enumerate(exprs):
        for dim in dims_in(expr):  # type: ignore[arg-type]
            place.setdefault(dim, position)
    return place


def drops_units(op: ir.Operation) -> bool:
    """Whether a ``tensor.collapse_shape`` only drops axes of extent 1."""
    shape = ir.RankedTensorType(op.operands[0].type).shape
    return all(sum(shape[axis] != 1 for axis in group) <= 1 for group in reassociation(op))


def expanded(op: ir.Operation, layout: Layout) -> Layout | None:
    """The layout of an expanded value: each group of axes moves as a whole."""
    groups = reassociation(op)
    return tuple(axis for group in layout for axis in groups[group])


def collapsed(op: ir.Operation, layout: Layout) -> Layout | None:
    """The layout of a collapsed value; None when the axes of a group do not lie together and in order."""
    order = [group for group, _ in collapse_runs(op, layout) or ()]
    return tuple(order) if order else None


def collapse_runs(op: ir.Operation, layout: Layout) -> list[tuple[int, list[int]]] | None:
    """For a collapse of a value in ``layout``: (group, positions in memory) in memory order; None when it is not a
    collapse.

    Axes of extent 1 may lie anywhere, since they do not order any elements.
    """
    return _runs(reassociation(op), ir.RankedTensorType(op.operands[0].type).shape, layout)


def expand_runs(op: ir.Operation, layout: Layout) -> list[tuple[int, list[int]]] | None:
    """For an expansion whose result has ``layout``: (group, positions in memory) in memory order; None when no
    expansion gives it.
    """
    return _runs(reassociation(op), ir.RankedTensorType(op.results[0].type).shape, layout)


def _runs(groups: list[list[int]], shape: Sequence[int], layout: Layout) -> list[tuple[int, list[int]]] | None:
    owner: dict[int, int] = {}
    for number, group in enumerate(groups):
        solid = [axis for axis in group if shape[axis] != 1] or group[:1]
        owner.update(dict.fromkeys(solid, number))
    runs: list[tuple[int, list[int]]] = []
    last_axis = -1
    leading: list[int] = []
    for position, axis in enumerate(layout):
        if axis not in owner:
            (runs[-1][1] if runs else leading).append(position)
            continue
        if runs and runs[-1][0] == owner[axis]:
            if axis < last_axis:
                return None
            runs[-1][1].append(position)
        else:
            runs.append((owner[axis], [*leading, position]))
            leading = []
        last_axis = axis
    numbers = [number for number, _ in runs]
    return runs if len(set(numbers)) == len(numbers) == len(groups) else None


def _slice_keeps_rank(op: ir.Operation) -> bool:
    return rank_of(op.operands[0]) == rank_of(op.results[0])


def _same(op: ir.Operation, layout: Layout) -> Layout | None:
    return layout


def _slice(op: ir.Operation, layout: Layout) -> Layout | None:
    return layout if _slice_keeps_rank(op) else None


def _ungroup(op: ir.Operation, layout: Layout) -> Layout | None:
    """The layout of an expansion's source that gives the result ``layout``."""
    found = expand_runs(op, layout)
    return None if found is None else tuple(number for number, _ in found)


def _group(op: ir.Operation, layout: Layout) -> Layout | None:
    return expanded(op, layout)


# Operations with several operands that have the layout of the result.
_SEVERAL = ("tensor.concat", "tensor.insert_slice")
Rule = Callable[[ir.Operation, Layout], Layout | None]
_FORWARD: dict[str, Rule] = {
    "tensor.pad": _same,
    "tensor.concat": _same,
    "tensor.cast": _same,
    "tensor.extract_slice": _slice,
    "tensor.insert_slice": _slice,
    "tensor.expand_shape": expanded,
    "tensor.collapse_shape": collapsed,
}
_BACKWARD: dict[str, Rule] = {
    "tensor.pad": _same,
    "tensor.concat": _same,
    "tensor.cast": _same,
    "tensor.extract_slice": _slice,
    "tensor.insert_slice": _slice,
    "tensor.expand_shape": _ungroup,
    "tensor.collapse_shape": _group,
}
