"""Finds results that may overwrite an argument: ``flow.may_alias`` (docs/reference/flow-form.md).

An argument qualifies under two conditions. Exactly one operation reads it, at the position of the result's element
computed from it. And no other result has elements computed from it at other positions, since kernels may read it again
for these. So every element is read before it is written. Row-wise reductions are left out, since their kernels may use
the result's memory in between; chains are too, since their kernels keep arguments and results apart.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.dispatch.regions.nodes import Kind, node
from rillet.ir import Program, dtypes
from rillet.ir.kernels import declarations, functions
from rillet.ir.rewrite import defining
from rillet.ir.structured import reads, structured


def run(program: Program, options: None) -> None:
    """Annotate kernels and their declarations."""
    with program.context, ir.Location.unknown():
        declared = declarations(program)
        for name, function in functions(program).items():
            pairs = _pairs(function)
            if pairs:
                attribute = ir.DenseI64ArrayAttr.get([n for pair in pairs for n in pair])
                function.attributes[flow.MAY_ALIAS] = attribute
                declared[name].attributes[flow.MAY_ALIAS] = attribute


def _pairs(function: ir.Operation) -> list[tuple[int, int]]:
    block = function.regions[0].blocks[0]
    operations = [op.operation for op in block.operations]
    nodes = [n for i, op in enumerate(operations) if (n := node(op, i)) is not None]
    is_chain = sum(n.kind is Kind.ROOT for n in nodes) > 1
    if is_chain or any(n.kind in (Kind.REDUCTION, Kind.SOLO) for n in nodes):
        return []
    number = {argument: i for i, argument in enumerate(block.arguments)}
    pairs: dict[int, int] = {}
    known: dict[ir.Value, dict[ir.Value, bool]] = {}
    elsewhere = {a for value in operations[-1].operands for a, same in _positions(value, known).items() if not same}
    for result, value in enumerate(operations[-1].operands):
        for argument in _same_position(value, ir.RankedTensorType(value.type)):
            if argument not in elsewhere:
                pairs.setdefault(number[argument], result)
    return [(result, argument) for argument, result in sorted(pairs.items(), key=lambda p: p[::-1])]


def _same_position(value: ir.Value, result: ir.RankedTensorType) -> list[ir.Value]:
    """The arguments that ``value`` reads only once, each at the element's own position."""
    owner = defining(value)
    if owner is None:
        is_alike = _is_alike(ir.RankedTensorType(value.type), result)
        return [value] if is_alike and len(list(value.uses)) == 1 else []
    view = structured(owner)
    if view is None or not view.is_elementwise:
        return []
    target = view.init_maps[list(owner.results).index(value)]
    found = []
    for source, map_ in zip(view.inputs, view.input_maps, strict=True):
        if map_ == target:
            found += _same_position(source, result)
    return found


def _positions(value: ir.Value, known: dict[ir.Value, dict[ir.Value, bool]]) -> dict[ir.Value, bool]:
    """The tensors that ``value`` is computed from, back to the arguments, and whether each element comes only from the
    one at its own position. ``known``: earlier findings."""
    owner = defining(value)
    if owner is None:
        return {value: True}
    if value in known:
        return known[value]
    view = structured(owner)
    ways: dict[ir.Value, set[bool]] = {}
    if view is not None and view.is_elementwise:
        target = view.init_maps[list(owner.results).index(value)]
        for source, map_ in zip(view.inputs, view.input_maps, strict=True):
            ways.setdefault(source, set()).add(map_ == target)
    found: dict[ir.Value, bool] = {}
    for source in reads(owner):
        if not isinstance(source.type, ir.RankedTensorType):
            continue
        same = ways.get(source) == {True}
        for argument, at_own in _positions(source, known).items():
            found[argument] = found.get(argument, True) and same and at_own
    known[value] = found
    return found


def _is_alike(a: ir.RankedTensorType, b: ir.RankedTensorType) -> bool:
    return a.shape == b.shape and dtypes.storage_bytes(a.element_type) == dtypes.storage_bytes(b.element_type)
