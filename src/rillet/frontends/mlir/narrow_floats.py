"""Floats of 16 bits and less are storage types: bodies extend them to f32, compute, and truncate what they store.

Producers write arithmetic in the type of the tensors. Taken literally, a sum of bf16 would be rounded at every step,
and stops growing at 256 when ones are added; here it is kept in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.ir import builders
from rillet.ir.rewrite import defining, generic_with, remap
from rillet.ir.structured import Structured, captures, structured, walk

_ARITHMETIC = frozenset(
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "divf", "remf", "negf", "maximumf", "minimumf", "maxnumf", "minnumf")
) | frozenset(("arith.cmpf", "arith.select", "arith.fptosi", "arith.fptoui", "arith.sitofp", "arith.uitofp"))


def widen(main: ir.Operation) -> None:
    """Compute with narrow floats in f32 in the bodies of structured ops, and keep what they reduce in f32."""
    for op in list(walk(main)):
        view = structured(op)
        if view is not None and any(_is_narrow(a.type) for a in view.body.arguments):
            with ir.InsertionPoint(op), op.location:
                _widen(view)


def _widen(view: Structured) -> None:
    reduces = not all(view.parallel)
    kept = [reduces and _is_narrow(a.type) for a in list(view.body.arguments)[len(view.inputs) :]]
    inits = [_extended(init) if wide else init for init, wide in zip(view.inits, kept, strict=True)]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        return _Body(view.body, arguments).results(kept)

    new = generic_with(view.inputs, inits, view.maps, view.parallel, body)
    for old, result, wide in zip(view.op.results, new.results, kept, strict=True):
        old.replace_all_uses_with(_truncated(result, old.type) if wide else result)
    view.op.erase()


class _Body:
    """A body built again with narrow floats in f32: each of its values as it is stored, as it computes, or both."""

    def __init__(self, source: ir.Block, arguments: Sequence[ir.Value]):
        self._source = source
        self._stored: dict[ir.Value, ir.Value] = {}
        self._wide: dict[ir.Value, ir.Value] = {}
        for old, new in zip(source.arguments, arguments, strict=True):
            (self._stored if old.type == new.type else self._wide)[old] = new

    def results(self, kept: Sequence[bool]) -> list[ir.Value]:
        """Clone the operations at the insertion point, and return the values that they yield, in f32 where ``kept``
        says so.
        """
        *operations, terminator = (op.operation for op in self._source.operations)
        for op in operations:
            with op.location:
                self._clone(op)
        yielded = zip(terminator.operands, kept, strict=True)
        return [self._computing(value) if wide else self._storing(value) for value, wide in yielded]

    def _clone(self, op: ir.Operation) -> None:
        if not any(_is_narrow(v.type) for v in (*op.operands, *op.results, *captures(op))):
            self._copy(op)
        elif op.name == "arith.constant":
            value = ir.FloatAttr.get(ir.F32Type.get(), ir.FloatAttr(op.attributes["value"]).value)
            self._wide[op.results[0]] = arith.ConstantOp(ir.F32Type.get(), value).result
        elif op.name == "arith.extf":
            self._extend(op)
        elif op.name == "arith.truncf":  # a rounding that the producer asked for
            source = self._computing(op.operands[0])
            self._stored[op.results[0]] = arith.truncf(op.results[0].type, source)
        elif op.name in _ARITHMETIC or op.name.startswith("math."):
            self._compute(op)
        else:
            self._copy(op)

    def _copy(self, op: ir.Operation) -> None:
        mapping = {value: self._storing(value) for value in (*op.operands, *captures(op))}
        clone = op.clone()
        remap(clone, mapping)
        self._stored.update(zip(op.results, clone.results, strict=True))

    def _extend(self, op: ir.Operation) -> None:
        result, wide = op.results[0], self._computing(op.operands[0])
        if str(result.type) == "f64":
            self._stored[result] = arith.extf(result.type, wide)
        else:
            self._wide[result] = wide

    def _compute(self, op: ir.Operation) -> None:
        new = ir.Operation.create(
            op.name,
            results=[ir.F32Type.get() if _is_narrow(r.type) else r.type for r in op.results],
            operands=[self._computing(v) for v in op.operands],
            attributes={name: op.attributes[name] for name in op.attributes},
        )
        for old, result in zip(op.results, new.results, strict=True):
            (self._wide if _is_narrow(old.type) else self._stored)[old] = result

    def _computing(self, value: ir.Value) -> ir.Value:
        if not _is_narrow(value.type):
            return self._stored.get(value, self._wide.get(value, value))
        if value not in self._wide:
            self._wide[value] = arith.extf(ir.F32Type.get(), self._storing(value))
        return self._wide[value]

    def _storing(self, value: ir.Value) -> ir.Value:
        if value not in self._stored and value in self._wide:
            wide = self._wide[value]
            self._stored[value] = wide if wide.type == value.type else arith.truncf(value.type, wide)
        return self._stored.get(value, value)


def _is_narrow(type_: ir.Type) -> bool:
    return isinstance(type_, ir.FloatType) and type_.width < 32


def _extended(init: ir.Value) -> ir.Value:
    """The initial value of a reduction, in f32."""
    owner = defining(init)
    shape = [builders.dim(init, axis) for axis in range(ir.RankedTensorType(init.type).rank)]
    f32 = ir.F32Type.get()
    if owner is not None and owner.name == "linalg.fill":
        return builders.fill(arith.extf(f32, owner.operands[0]), shape)
    loops = builders.dims(len(shape))
    return builders.generic(
        [(init, loops)], [(builders.empty(shape, f32), loops)], "p" * len(shape), lambda x, _: arith.extf(f32, x)
    )[0]


def _truncated(result: ir.Value, narrow: ir.Type) -> ir.Value:
    tensor = ir.RankedTensorType(narrow)
    shape = [builders.dim(result, axis) for axis in range(tensor.rank)]
    loops = builders.dims(len(shape))
    element = tensor.element_type
    return builders.generic(
        [(result, loops)],
        [(builders.empty(shape, element), loops)],
        "p" * len(shape),
        lambda x, _: arith.truncf(element, x),
    )[0]
