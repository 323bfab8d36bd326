"""Scalars that the host cannot compute are computed in the structured ops that use them.

The host knows integers, f32 and f64, and little mathematics (``vm/scalars.py``). A fill or a pad by another scalar
becomes a generic whose body computes it, from the elements of tensors that the scalar comes from.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import builders, tensor_form
from rillet.ir.extents import extents, margins
from rillet.ir.rewrite import clone_operations, defining, erase_dead, rebuild_generic, replace
from rillet.ir.structured import Structured, captures, structured, walk

_HOST_MATH = ("math.absf", "math.ceil", "math.floor", "math.sqrt", "math.trunc")
_CONSTANTS = ("arith.constant", "complex.constant")


def sink(main: ir.Operation) -> None:
    """Move the scalars that the host cannot compute into the ops of ``main`` that use them."""
    for op in list(walk(main)):
        view = structured(op)
        with ir.InsertionPoint(op), op.location:
            if op.name == "linalg.fill" and _is_strange(op.operands[0]):
                replace(op, [_filled(op.operands[0], op.operands[1])])
            elif op.name == "tensor.pad" and _is_strange(_padding(op)):
                replace(op, [_padded(op)])
            elif view is not None:
                _sink_captures(view)
    erase_dead(main)


def is_strange(op: ir.Operation) -> bool:
    """Whether ``op``, which is in host code, computes a scalar that the host cannot."""
    results = [r.type for r in op.results if not isinstance(r.type, ir.ShapedType)]
    if not results or op.name in _CONSTANTS:
        return False
    is_unknown = op.name == "arith.remf" or (op.name.startswith("math.") and op.name not in _HOST_MATH)
    is_float = any(isinstance(t, ir.FloatType) for t in results)
    return (is_unknown and is_float) or any(_is_narrow(t) for t in results)


def _is_narrow(type_: ir.Type) -> bool:
    return isinstance(type_, ir.ComplexType) or (isinstance(type_, ir.FloatType) and type_.width < 32)


def _is_strange(value: ir.Value) -> bool:
    return any(is_strange(op) for op in _makers(value))


def _makers(value: ir.Value) -> list[ir.Operation]:
    """The scalar operations of the host that make ``value``, in order."""
    found: dict[ir.Operation, None] = {}

    def visit(value: ir.Value) -> None:
        op = defining(value)
        if op is None or op in found or isinstance(value.type, ir.ShapedType) or not tensor_form.is_of_host(op):
            return
        for operand in op.operands:
            visit(operand)
        found[op] = None

    visit(value)
    return list(found)


def _filled(scalar: ir.Value, destination: ir.Value) -> ir.Value:
    """``destination`` with every element equal to ``scalar``, which the body computes."""
    rank = ir.RankedTensorType(destination.type).rank

    def body(_: ir.Value) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = {}
        clone_operations(_makers(scalar), mapping)
        return mapping.get(scalar, scalar)

    return builders.generic([], [(destination, builders.dims(rank))], "p" * rank, body)[0]


def _padding(pad: ir.Operation) -> ir.Value:
    return list(pad.regions[0].blocks[0].operations)[-1].operands[0]


def _padded(pad: ir.Operation) -> ir.Value:
    """The source, inserted into a tensor full of the padding."""
    source, scalar, shape = pad.operands[0], _padding(pad), extents(pad.results[0])
    filled = _filled(scalar, builders.empty(shape, scalar.type))
    low, _ = margins(pad)
    return builders.insert_slice(source, filled, low, extents(source), [1] * len(low))


def _sink_captures(view: Structured) -> None:
    strange = [v for v in captures(view.op) if not isinstance(v.type, ir.ShapedType) and _is_strange(v)]
    if not strange:
        return
    new = rebuild_generic(
        view.op, [*view.inputs, *view.inits], [r.type for r in view.op.results], view.maps, view.parallel
    )
    mapping: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint.at_block_begin(new.regions[0].blocks[0]):
        clone_operations([op for value in strange for op in _makers(value) if op.results[0] not in mapping], mapping)
    for op in walk(new):
        for number, operand in enumerate(op.operands):
            if operand in strange:
                op.operands[number] = mapping[operand]
    replace(view.op, new.results)
