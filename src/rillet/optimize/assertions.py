"""Asserts at run time the conditions that a model with dynamic shapes relies on, where they do not follow from its
inputs.

Every operation on tensors has conditions under which it stays inside its operands: extents that one loop runs over are
equal, a slice lies inside its source, a reshape keeps the number of elements. A condition that cannot be proven becomes
a ``cf.assert`` before the operation, each fact once. Later passes rely on these assertions, so this pass must come
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from rillet.ir import Program, builders, locations
from rillet.ir import polynomials as poly
from rillet.ir.attributes import DIMS
from rillet.ir.builders import Extent
from rillet.ir.extents import box, extents, joined_axis, margins
from rillet.ir.polynomials import Polynomial, Polynomials
from rillet.ir.rewrite import erase_dead
from rillet.ir.structured import DYNAMIC, Expr, Structured, structured

_EQUAL, _AT_MOST = arith.CmpIPredicate.eq, arith.CmpIPredicate.sle
_SWAPPED = {_EQUAL: _EQUAL, _AT_MOST: arith.CmpIPredicate.sge}


def run(program: Program, options: None) -> None:
    """Add the assertions that ``@main`` needs; a program with only static shapes and slices does not change."""
    with program.context, ir.Location.unknown():
        main = program.main()
        erase_dead(main)
        _Asserter(main).block(main.regions[0].blocks[0])


class _Asserter:
    def __init__(self, main: ir.Operation) -> None:
        self.main = main
        self.polynomials = Polynomials()
        self.known: dict[object, list[ir.Block]] = {}
        self.handlers: dict[str, Callable[[ir.Operation], None]] = {
            "linalg.generic": self._generic,
            "tensor.extract_slice": self._extract_slice,
            "tensor.insert_slice": self._insert_slice,
            "tensor.pad": self._pad,
            "tensor.concat": self._concat,
            "tensor.cast": self._cast,
            "tensor.expand_shape": self._expand,
            "tensor.reshape": self._reshape,
        }
        self._name_inputs()

    def _name_inputs(self) -> None:
        """Dimensions of one name have one extent: the runtime checks that at the inputs."""
        block = self.main.regions[0].blocks[0]
        attributes = self.main.attributes.get("arg_attrs", None)
        for number, argument in enumerate(block.arguments):
            named = ir.DictAttr(attributes[number]) if attributes else {}
            if DIMS not in named or not isinstance(argument.type, ir.RankedTensorType):
                continue
            names = [ir.StringAttr(d).value for d in named[DIMS]]
            for axis, name in enumerate(names):
                if ir.RankedTensorType(argument.type).is_dynamic_dim(axis) and name != "?":
                    self.polynomials.name_dim(argument, axis, name)

    def block(self, block: ir.Block) -> None:
        """Visits operations in the order of execution: a fact asserted after a loop is not known inside it."""
        for view in list(block.operations):
            op = view.operation
            if op.name.startswith("scf."):
                for nested in (b for region in op.regions for b in region.blocks):
                    self.block(nested)
            handler = self.handlers.get(op.name)
            if handler is None or not _is_dynamic(op):
                continue
            with ir.InsertionPoint(op), op.location:
                handler(op)

    # --- operations ---------------------------------------------------------------------------------------------------

    def _generic(self, op: ir.Operation) -> None:
        view = structured(op)
        assert view is not None
        operands = [
            (extents(value), map_)
            for value, map_ in zip((*view.inputs, *view.inits), view.maps, strict=True)
            if isinstance(value.type, ir.RankedTensorType)
        ]
        loops = _loop_extents(view, operands)
        for shape, map_ in operands:
            for extent, expr in zip(shape, map_, strict=True):
                if isinstance(expr, int):
                    self._equal(op, loops[expr], extent, "dimensions {0} and {1} do not agree")
                else:
                    self._inside(op, expr, loops, extent)

    def _inside(self, op: ir.Operation, expr: ir.AffineExpr, loops: Sequence[Extent], extent: Extent) -> None:
        lowest, highest = self._range(expr, [self.polynomials.of(e) for e in loops])
        empty = [e for e in loops if isinstance(e, ir.Value)]
        size = poly.added(highest, {(): 1})
        self._at_most(op, size, self.polynomials.of(extent), "{0} positions are read of a dimension of {1}", empty)
        self._at_most(op, {}, lowest, "position {1} is read, but the first is {0}", empty)

    def _range(self, expr: Expr, loops: Sequence[Polynomial]) -> tuple[Polynomial, Polynomial]:
        """The least and the greatest value of an affine expression when no loop is empty."""
        if isinstance(expr, int | ir.AffineDimExpr):
            position = expr if isinstance(expr, int) else expr.position
            return {}, poly.subtracted(loops[position], {(): 1})
        if isinstance(expr, ir.AffineConstantExpr):
            return self.polynomials.of(expr.value), self.polynomials.of(expr.value)
        low, high = self._range(expr.lhs, loops)  # type: ignore[attr-defined]
        other = self._range(expr.rhs, loops)  # type: ignore[attr-defined]
        if isinstance(expr, ir.AffineAddExpr):
            return poly.added(low, other[0]), poly.added(high, other[1])
        factor = other[0].get((), 0)
        if isinstance(expr, ir.AffineMulExpr):
            ends = poly.scaled(low, factor), poly.scaled(high, factor)
            return ends if factor >= 0 else (ends[1], ends[0])
        if isinstance(expr, ir.AffineModExpr):
            return {}, self.polynomials.of(factor - 1)
        if isinstance(expr, ir.AffineCeilDivExpr):
            low, high = (poly.added(e, {(): factor - 1}) for e in (low, high))
        return self.polynomials.floordiv(low, factor), self.polynomials.floordiv(high, factor)

    def _extract_slice(self, op: ir.Operation) -> None:
        self._box(op, op.operands[0])

    def _insert_slice(self, op: ir.Operation) -> None:
        sizes = self._box(op, op.operands[1])
        source = extents(op.operands[0])
        if len(source) == len(sizes):
            for extent, size in zip(source, sizes, strict=True):
                self._equal(op, extent, size, "dimensions {0} and {1} do not agree")

    def _box(self, op: ir.Operation, source: ir.Value) -> list[Extent]:
        """The box of a slice lies inside ``source``; returns its sizes."""
        offsets, sizes, strides = box(op)
        of = self.polynomials.of
        for offset, size, stride, extent in zip(offsets, sizes, strides, extents(source), strict=True):
            self._at_most(op, {}, of(offset), "a slice begins at position {1}, but the first is {0}")
            self._at_most(op, {}, of(size), "a slice cannot have {1} positions, at least {0}")
            steps = poly.multiplied(poly.subtracted(of(size), {(): 1}), of(stride))
            end = poly.added(poly.added(of(offset), steps), {(): 1})
            empty = [size] if isinstance(size, ir.Value) else []
            if size != 0:
                self._at_most(op, end, of(extent), "{0} positions are needed of a dimension of {1}", empty)
        return sizes

    def _pad(self, op: ir.Operation) -> None:
        low, high = margins(op)
        for amount in (*low, *high):
            self._at_most(op, {}, self.polynomials.of(amount), "padding by {1} is less than {0}")

    def _concat(self, op: ir.Operation) -> None:
        along = joined_axis(op)
        shapes = [extents(v) for v in op.operands]
        for axis, column in enumerate(zip(*shapes, strict=True)):
            known = next((e for e in column if isinstance(e, int)), column[0])
            for extent in column if axis != along else ():
                self._equal(op, known, extent, "dimensions {0} and {1} do not agree")

    def _cast(self, op: ir.Operation) -> None:
        for extent, static in zip(extents(op.operands[0]), ir.RankedTensorType(op.results[0].type).shape, strict=True):
            if static != DYNAMIC:
                self._equal(op, extent, static, "a dimension is {0}, but must be {1}")

    def _expand(self, op: ir.Operation) -> None:
        source, target = extents(op.operands[0]), extents(op.results[0])
        for extent, group in zip(source, op.attributes["reassociation"], strict=True):
            product = self._product([target[ir.IntegerAttr(i).value] for i in group])
            self._equal_forms(op, self.polynomials.of(extent), product, "{0} elements cannot become {1}")

    def _reshape(self, op: ir.Operation) -> None:
        source, target = (self._product(extents(v)) for v in (op.operands[0], op.results[0]))
        self._equal_forms(op, source, target, "{0} elements cannot become {1}")

    def _product(self, shape: Sequence[Extent]) -> Polynomial:
        result: Polynomial = {(): 1}
        for extent in shape:
            result = poly.multiplied(result, self.polynomials.of(extent))
        return result

    # --- facts --------------------------------------------------------------------------------------------------------

    def _equal(self, op: ir.Operation, a: Extent, b: Extent, text: str) -> None:
        self._equal_forms(op, self.polynomials.of(a), self.polynomials.of(b), text)

    def _equal_forms(self, op: ir.Operation, a: Polynomial, b: Polynomial, text: str) -> None:
        difference = poly.subtracted(a, b)
        if self.polynomials.is_zero(difference) or self._is_known("equal", poly.reduced(difference), op):
            return
        self._assert(op, _EQUAL, a, b, text, [])
        if op.block == self.main.regions[0].blocks[0]:
            self.polynomials.learn_zero(difference)

    def _at_most(
        self, op: ir.Operation, a: Polynomial, b: Polynomial, text: str, empty: Sequence[ir.Value] = ()
    ) -> None:
        """``a <= b``, or one of the extents ``empty`` is zero."""
        difference = poly.subtracted(b, a)
        if self.polynomials.is_never_negative(difference) or self._is_known("at most", difference, op):
            return
        self._assert(op, _AT_MOST, a, b, text, empty)

    def _is_known(self, kind: str, difference: Polynomial, op: ir.Operation) -> bool:
        """Whether the fact was asserted before in this block or one around it; if not, it is from now on."""
        seen = self.known.setdefault((kind, poly.frozen(difference)), [])
        around = [op.block]
        while around[-1] != self.main.regions[0].blocks[0]:
            around.append(around[-1].owner.operation.block)
        if any(block in around for block in seen):
            return True
        seen.append(op.block)
        return False

    def _assert(
        self,
        op: ir.Operation,
        predicate: arith.CmpIPredicate,
        a: Polynomial,
        b: Polynomial,
        text: str,
        empty: Sequence[ir.Value],
    ) -> None:
        if not set(a) - {()}:  # a constant goes right, where canonicalization wants it, so that {0} stays the left one
            a, b, predicate = b, a, _SWAPPED[predicate]
            text = text.replace("{0}", "{2}").replace("{1}", "{0}").replace("{2}", "{1}")
        condition = arith.cmpi(predicate, self.polynomials.emit(a), self.polynomials.emit(b))
        zero = builders.index(0)
        for extent in dict.fromkeys(empty):
            condition = arith.ori(condition, arith.cmpi(_EQUAL, extent, zero))
        cf.assert_(condition, f"{locations.label(op.location)}: {text}")


def _is_dynamic(op: ir.Operation) -> bool:
    """Whether the operation takes or makes a tensor of dynamic shape, or takes an extent."""
    for value in (*op.operands, *op.results):
        if isinstance(value.type, ir.IndexType):
            return True
        if isinstance(value.type, ir.RankedTensorType) and not ir.RankedTensorType(value.type).has_static_shape:
            return True
    return False


def _loop_extents(view: Structured, operands: Sequence[tuple[list[Extent], Sequence[Expr]]]) -> list[Extent]:
    """The extent of each loop, from an operand that determines it; a static one where there is one."""
    loops: list[Extent | None] = [None] * view.loops
    for shape, map_ in operands:
        for extent, expr in zip(shape, map_, strict=True):
            if isinstance(expr, int) and (loops[expr] is None or isinstance(extent, int)):
                loops[expr] = extent
    return [0 if e is None else e for e in loops]
