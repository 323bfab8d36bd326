"""Walks through all trees of a forest as one structured op: a sum, minimum or maximum over the trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from rillet.dialects import linalg
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.element_types import element_type, is_float
from rillet.frontends.building.scalars import Scalar, constant, is_nan
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.ops.ml.tree_forest import EQ, LEQ, LT
from rillet.frontends.onnx.ops.ml.tree_tables import Tables
from rillet.ir import builders
from rillet.ir.structured import STAYS

# Where a test does not hold: for numbers, and for numbers and NaN.
_FAILS: Mapping[int, tuple[arith.CmpFPredicate, arith.CmpFPredicate]] = {
    LEQ: (arith.CmpFPredicate.OGT, arith.CmpFPredicate.UGT),
    LT: (arith.CmpFPredicate.OGE, arith.CmpFPredicate.UGE),
    EQ: (arith.CmpFPredicate.ONE, arith.CmpFPredicate.UNE),
}


def walk_trees(
    b: Builder,
    x: Tensor,
    tables: Tables,
    targets: int,
    dtype: str,
    identity: float,
    combine: Callable[[Scalar, Scalar], Scalar],
) -> Tensor:
    """x [rows, features] → [rows, targets] of ``dtype``, float32 or float64: for each target the weights of the
    leaves reached, combined over the trees in their order, from ``identity`` on."""
    walker = _Walker(b, x, tables, dtype)
    row, target, tree = builders.dims(3)
    roots = b.constant(tables.roots, name="roots")
    weights = b.value(b.constant(tables.weights, name="weights"))
    by_target = tables.roots.ndim == 2

    def body(root: Scalar, total: Scalar) -> Scalar:
        place = [walker.leaf(root).value, *([] if by_target else [linalg.IndexOp(1).result])]
        return combine(total, Scalar(builders.extract(weights, place, in_bounds=True), dtype))

    shape = [x.shape[0], targets]
    read = [target, tree] if by_target else [tree]
    output = (b.init(identity, dtype, shape), [row, target], dtype, shape)
    return b.generic([(roots, read)], [output], "ppr", body)[0]


class _Walker:
    """Emits the walk of the row of loop 0 through a tree. All reads are in bounds: the tables are made so."""

    def __init__(self, b: Builder, x: Tensor, tables: Tables, dtype: str):
        self._x, self._x_dtype = b.value(x), x.dtype
        self._records = b.value(b.constant(tables.records, name="records"))
        self._word, self._row_bits = tables.word, tables.row_bits
        self._dtype = dtype
        self._integer = f"int{tables.word.width}"

    def leaf(self, root: Scalar) -> Scalar:
        """The number (index) of the row of weights of the leaf that the walk from ``root`` ends at."""
        row, type_ = linalg.IndexOp(0).result, element_type("int32")
        loop = scf.WhileOp([type_], [root.value]).operation
        before = loop.regions[0].blocks.append(type_)
        with ir.InsertionPoint(before):
            goes_on = ~self._flag(self._read(before.arguments[0], 1), self._word.mark)
            scf.ConditionOp(goes_on.value, [before.arguments[0]])
        after = loop.regions[1].blocks.append(type_)
        with ir.InsertionPoint(after):
            scf.YieldOp([self._onward(row, after.arguments[0])])
        loop.attributes[STAYS] = ir.UnitAttr.get()
        row_number = self._read(loop.results[0], 0) & ((1 << self._row_bits) - 1)
        return convert(Scalar(row_number.value, f"u{self._integer}"), "index")

    def _as_float(self, bits: Scalar) -> Scalar:
        """The float whose bits are the low ones of a word."""
        narrow = convert(bits, "int32" if self._dtype == "float32" else "int64")
        return Scalar(arith.bitcast(element_type(self._dtype), narrow.value), self._dtype)

    def _read(self, position: ir.Value, column: int) -> Scalar:
        place = convert(Scalar(position, "uint32"), "index").value
        return Scalar(builders.extract(self._records, [place, column], in_bounds=True), self._integer)

    def _onward(self, row: ir.Value, position: ir.Value) -> ir.Value:
        """The position of the child that a branch leads to."""
        word, second = self._word, self._read(position, 1)
        feature = convert(Scalar((second & ((1 << word.feature) - 1)).value, f"u{self._integer}"), "index")
        value = builders.extract(self._x, [row, feature.value], in_bounds=True)
        fails = self._fails(Scalar(value, self._x_dtype), self._as_float(self._read(position, 0)), second)
        first = arith.shrui(second.value, constant(word.child, self._integer).value)
        child = convert(Scalar(first, self._integer), "int32")
        return (child + convert(fails, "int32")).value

    def _fails(self, x: Scalar, threshold: Scalar, second: Scalar) -> Scalar:
        """Whether the test of a branch, whose second word is given, does not hold."""
        word, value = self._word, convert(x, self._dtype)
        has_nan = is_float(x.dtype) and word.nan is not False
        predicates = {test: _FAILS[test][0 if has_nan else 1] for test in word.tests}
        outcomes = {t: Scalar(arith.cmpf(p, value.value, threshold.value), "bool") for t, p in predicates.items()}
        if len(outcomes) == 1:
            fails = next(iter(outcomes.values()))
        else:
            fails = constant(False, "bool")
            for number, outcome in enumerate(outcomes.values()):
                fails = fails | (outcome & self._flag(second, word.feature + number))
        if has_nan and word.nan is None:
            fails = fails | (is_nan(value) & ~self._flag(second, word.nan_flag))
        return fails

    def _flag(self, second: Scalar, place: int) -> Scalar:
        return (second & (1 << place)) != 0
