"""Makes convolutions channels-last: rewrites every operation for the layouts that ``layouts.Layouts`` chose.

Weights are transposed at compile time, in numpy. A transposition of a tensor remains only where a value with one layout
is needed with another; all uses that need it share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch_mlir import ir

from rillet.ir import Program, builders, constants
from rillet.ir.builders import Extent
from rillet.ir.contraction import Contraction
from rillet.ir.extents import box, extents, joined_axis, margins, mixed, padding_value, reassociation
from rillet.ir.rewrite import (
    CLEANUP,
    blocks,
    defining,
    erase_dead,
    int_constant,
    rebuild_generic,
    remap,
    renumber_index,
    run_upstream,
    sweep_constants,
)
from rillet.ir.shapes import runs, transpose
from rillet.ir.structured import Structured, captures, dims_in, inverse, rename, walk
from rillet.optimize.layouts.layouts import (
    Layout,
    Layouts,
    collapse_runs,
    expand_runs,
    filter_layout,
    identity,
    image_layout,
    is_flexible,
    only_extracted,
    rank_of,
)


def run(program: Program, options: None) -> None:
    """Change the layouts in ``@main``. Arguments and results keep their own."""
    with program.context, ir.Location.unknown():
        moved: dict[tuple[str, Layout], str] = {}
        for block in blocks(program.main()):
            layouts = Layouts(block)
            if layouts.chosen or layouts.convolutions:
                _Rewriter(program, layouts, moved).rewrite()
        erase_dead(program.main())
        sweep_constants(program)
        run_upstream(program.module.operation, CLEANUP)


class _Rewriter:
    def __init__(self, program: Program, layouts: Layouts, moved: dict[tuple[str, Layout], str]) -> None:
        self.program = program
        self.layouts = layouts
        self.moved = moved  # transposed copies of constants, by name and layout
        self.current: dict[ir.Value, tuple[ir.Value, Layout]] = {}  # old value → what holds it now, and how
        self.cache: dict[tuple[ir.Value, Layout], ir.Value] = {}
        self.special: dict[str, Callable[[ir.Operation, Layout], ir.Value]] = {
            "tensor.pad": self._pad,
            "tensor.concat": self._concat,
            "tensor.cast": self._cast,
            "tensor.extract_slice": self._slice,
            "tensor.insert_slice": self._insert,
            "tensor.expand_shape": self._expand,
            "tensor.collapse_shape": self._collapse,
        }

    def rewrite(self) -> None:
        replaced = []
        for op in self.layouts.operations:
            with ir.InsertionPoint(op), op.location:
                if self._rewrite(op):
                    replaced.append(op)
        for op in reversed(replaced):
            op.erase()

    def _rewrite(self, op: ir.Operation) -> bool:
        """Rewrite ``op``; True when other values replace its results now."""
        if op in self.layouts.views:
            if not self._touches(op):
                return False
            self._generic(self.layouts.views[op])
            return True
        if op.name in self.special and self._touches(op):
            result = op.results[0]
            layout = self.layouts.of(result)
            self.current[result] = (self.special[op.name](op, layout), layout)
            return True
        if op.name == "tensor.dim":
            self._dim(op)
            return False
        # All other operations read their operands as the model wrote them.
        plain = {v: self._as_written(v) for v in (*op.operands, *captures(op)) if v in self.current}
        if plain:
            remap(op, plain)
        return False

    def _as_written(self, value: ir.Value) -> ir.Value:
        """``value`` in its own layout and with its own type, which may be less static than the holding value's."""
        plain = self.get(value, identity(rank_of(value)))
        return builders.cast(plain, ir.RankedTensorType(value.type).shape)

    def _touches(self, op: ir.Operation) -> bool:
        values = (*op.operands, *op.results, *captures(op))
        return op in self.layouts.convolutions or any(v in self.current or self.layouts.is_moved(v) for v in values)

    # --- values ---

    def held(self, value: ir.Value) -> tuple[ir.Value, Layout]:
        """The value that holds ``value`` now, and its layout."""
        return self.current.get(value) or (value, identity(rank_of(value)))

    def get(self, value: ir.Value, layout: Layout) -> ir.Value:
        """``value`` in ``layout``."""
        holder, present = self.held(value)
        if present == layout:
            return holder
        if is_flexible(value):
            return self._remade(value, layout)
        key = (value, layout)
        if key not in self.cache:
            step = tuple(present.index(axis) for axis in layout)
            self.cache[key] = transpose(holder, step)
        return self.cache[key]

    def _remade(self, value: ir.Value, layout: Layout) -> ir.Value:
        """A constant or empty tensor in another layout."""
        owner = defining(value)
        assert owner is not None
        name = constants.global_name(value)
        if name is not None:
            return self._constant(value, name, layout)
        type_ = _permuted_type(value.type, layout)
        if owner.name == "tensor.empty":
            return builders.empty(_permuted(extents(value), layout), type_.element_type)
        if owner.name == "linalg.fill":
            return builders.fill_into(owner.operands[0], self._remade(owner.operands[1], layout))
        splat = ir.DenseElementsAttr(owner.attributes["value"]).get_splat_value()
        attribute = ir.DenseElementsAttr.get_splat(type_, splat)
        return ir.Operation.create("arith.constant", results=[type_], attributes={"value": attribute}).result

    def _constant(self, value: ir.Value, name: str, layout: Layout) -> ir.Value:
        type_ = _permuted_type(value.type, layout)
        if (name, layout) not in self.moved:
            array = np.ascontiguousarray(self.program.constants[name].transpose(layout))
            self.moved[name, layout] = constants.declare(self.program, array, name, type_)
        return constants.load(self.moved[name, layout], type_)

    # --- operations ---

    def _generic(self, view: Structured) -> None:
        op = view.op
        roles = self.layouts.convolutions.get(op)
        order = self._loop_order(view, roles)
        new = inverse(order)
        operands, maps = [], []
        for number, (value, map_) in enumerate(zip((*view.inputs, *view.inits), view.maps, strict=True)):
            if not isinstance(value.type, ir.RankedTensorType):
                operands.append(value)
                maps.append(map_)
                continue
            is_init = number >= len(view.inputs)
            layout = self._operand_layout(view, number, roles, new) if not is_init else None
            if layout is None:
                layout = self.layouts.of(op.results[number - len(view.inputs)]) if is_init else self.held(value)[1]
            operands.append(self.get(value, layout))
            maps.append(rename([map_[axis] for axis in layout], new))
        # Before the new generic, which captures them.
        extracted = only_extracted(op)
        captured = {
            v: self.held(v)[0] if v in extracted else self.get(v, identity(rank_of(v)))
            for v in captures(op)
            if v in self.current
        }
        types = [v.type for v in operands[len(view.inputs) :]]
        rebuilt = rebuild_generic(op, operands, types, maps, [view.parallel[d] for d in order])
        renumber_index(rebuilt, new)
        for extract in [inner for inner in walk(rebuilt) if inner.name == "tensor.extract"]:
            source, *indices = extract.operands
            if source in captured and source in extracted:
                for number, axis in enumerate(self.held(source)[1]):
                    extract.operands[1 + number] = indices[axis]
        remap(rebuilt, captured)
        for old, result in zip(op.results, rebuilt.results, strict=True):
            self.current[old] = (result, self.layouts.of(old))

    def _loop_order(self, view: Structured, roles: Contraction | None) -> Layout:
        """New loop ``i`` is old loop ``order[i]``: the result's axes as they lie in memory, then the reductions."""
        layout = self.layouts.of(view.op.results[0])
        target = [view.init_maps[0][axis] for axis in layout]
        order = [e for e in target if isinstance(e, int)]
        order += [d for d in range(view.loops) if view.parallel[d] and d not in order]
        reductions = [d for d in range(view.loops) if not view.parallel[d]]
        if roles is not None:
            reductions = [*roles.window, *roles.k]
        return tuple(order + reductions)

    def _operand_layout(
        self, view: Structured, number: int, roles: Contraction | None, new: Sequence[int]
    ) -> Layout | None:
        """The layout that an input should have; None to take it as it is."""
        map_ = view.maps[number]
        if roles is not None and number == roles.lhs:
            return image_layout(map_, roles)
        if roles is not None and number == roles.rhs:
            return filter_layout(map_, roles)
        if is_flexible(view.inputs[number]) and all(isinstance(e, int) for e in map_):
            return tuple(sorted(range(len(map_)), key=lambda axis: new[map_[axis]]))  # type: ignore[index]
        if view.is_windowed and not view.is_elementwise:
            # Windows are computed in vectors along the result's last axis: a transposition before them costs far less
            # than reading each element from another place.
            places = [min((new[d] for d in dims_in(e)), default=-1) for e in map_]
            return tuple(sorted(range(len(map_)), key=places.__getitem__))
        return None

    def _pad(self, op: ir.Operation, layout: Layout) -> ir.Value:
        low, high = (_permuted(margin, layout) for margin in margins(op))
        shape = _permuted_type(op.results[0].type, layout).shape
        return builders.pad(self.get(op.operands[0], layout), low, high, shape, padding_value(op))

    def _concat(self, op: ir.Operation, layout: Layout) -> ir.Value:
        axis = layout.index(joined_axis(op))
        shape = _permuted_type(op.results[0].type, layout).shape
        return builders.concat([self.get(v, layout) for v in op.operands], axis, shape)

    def _cast(self, op: ir.Operation, layout: Layout) -> ir.Value:
        return builders.cast(self.get(op.operands[0], layout), _permuted_type(op.results[0].type, layout).shape)

    def _insert(self, op: ir.Operation, layout: Layout) -> ir.Value:
        source, destination = list(op.operands)[:2]
        if rank_of(source) != rank_of(destination):
            clone = op.clone()
            remap(clone, {v: self.get(v, identity(rank_of(v))) for v in (source, destination)})
            return clone.results[0]
        parts = [_permuted(part, layout) for part in box(op)]
        return builders.insert_slice(self.get(source, layout), self.get(destination, layout), *parts)

    def _slice(self, op: ir.Operation, layout: Layout) -> ir.Value:
        source = op.operands[0]
        if rank_of(source) != rank_of(op.results[0]):
            clone = op.clone()
            clone.operands[0] = self.get(source, identity(rank_of(source)))
            return clone.results[0]
        parts = [_permuted(part, layout) for part in box(op)]
        sliced = builders.extract_slice(self.get(source, layout), *parts)
        return builders.cast(sliced, _permuted_type(op.results[0].type, layout).shape)

    def _expand(self, op: ir.Operation, layout: Layout) -> ir.Value:
        """An expansion, with its groups in the order of the source's layout. Where the groups' axes do not lie
        together, a plain expansion is transposed."""
        found = expand_runs(op, layout)
        kept = layout if found is not None else identity(len(layout))
        order = tuple(number for number, _ in found) if found is not None else identity(rank_of(op.operands[0]))
        groups = [positions for _, positions in found] if found is not None else reassociation(op)
        shape = _permuted(mixed(op, "static_output_shape", list(op.operands)[1:]), kept)
        static = _permuted_type(op.results[0].type, kept).shape
        result = [e if e >= 0 else d for e, d in zip(static, shape, strict=True)]
        expanded = builders.expand_shape(self.get(op.operands[0], order), groups, result)
        return expanded if found is not None else transpose(expanded, layout)

    def _collapse(self, op: ir.Operation, layout: Layout) -> ir.Value:
        holder, present = self.held(op.operands[0])
        shape = _permuted_type(op.results[0].type, layout).shape
        found = collapse_runs(op, present)
        if found is not None and tuple(number for number, _ in found) == layout:
            return builders.collapse_shape(holder, [positions for _, positions in found], shape)
        groups = reassociation(op)
        source = tuple(axis for number in layout for axis in groups[number])
        sizes = [len(groups[number]) for number in layout]
        return builders.collapse_shape(self.get(op.operands[0], source), runs(sizes), shape)

    def _dim(self, op: ir.Operation) -> None:
        axis = int_constant(op.operands[1])
        if op.operands[0] not in self.current:
            return
        holder, layout = self.held(op.operands[0])
        if axis is None:
            op.operands[0] = self.get(op.operands[0], identity(len(layout)))
            return
        op.operands[0] = holder
        op.operands[1] = builders.index(layout.index(axis))


def _permuted(values: Sequence[Extent], layout: Layout) -> list[Extent]:
    return [values[axis] for axis in layout]


def _permuted_type(type_: ir.Type, layout: Layout) -> ir.RankedTensorType:
    tensor = ir.RankedTensorType(type_)
    return ir.RankedTensorType.get([tensor.shape[axis] for axis in layout], tensor.element_type)
