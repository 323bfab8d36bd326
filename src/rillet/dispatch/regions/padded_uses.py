"""Lets other readers of a padded value read the interior of the padded tensor, so that only that one is written.

A pad joins the dispatch that makes its source only if no other op reads the source. When the other readers are
elementwise operations of later dispatches (a residual sum, for example), they can index the padded tensor with an
offset instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch_mlir import ir

from rillet.dispatch.regions.groups import Group
from rillet.dispatch.regions.nodes import Kind, Node, node
from rillet.ir.extents import margins, padding_value
from rillet.ir.rewrite import defining, rebuild_generic, replace
from rillet.ir.structured import Expr, Map, captures, structured


def redirect(groups: Mapping[int, Group], producers: Mapping[ir.Value, Node], nodes: Mapping[int, Node]) -> bool:
    """Redirect readers in one block, given the groups formed so far. True when the block changed."""
    nodes, makers = dict(nodes), dict(producers)
    by_op = {n.op: n for n in nodes.values()}
    changed = False
    for index in list(nodes):
        pad = nodes[index]
        if pad.kind is not Kind.PAD or len(groups[index].nodes) > 1:
            continue
        source, (lows, highs) = pad.op.operands[0], margins(pad.op)
        maker = makers.get(source)
        if maker is None or not all(isinstance(e, int) for e in (*lows, *highs)):
            continue
        readers = {u.owner.operation for u in source.uses} - {pad.op}
        others = [by_op.get(op) for op in readers]
        # An indexing map that names a loop alone is for an axis of that loop's extent: padding must come first there.
        plain = {axis for axis, (low, high) in enumerate(zip(lows, highs, strict=True)) if low == 0 and high != 0}
        if not readers or any(o is None or not _can_redirect(o, source, groups, maker, plain) for o in others):
            continue
        _move_up(pad.op, maker.op)
        # Sorted by position, so that the result does not depend on the order of a set.
        for other in sorted((o for o in others if o is not None), key=lambda o: o.index):
            # The next pad's source may be what this reader makes, so what is known of it follows the rebuilt operation.
            del by_op[other.op]
            for value in other.op.results:
                makers.pop(value, None)
            rebuilt = _redirect(other, source, pad.op.results[0], [e for e in lows if isinstance(e, int)])
            renewed = node(rebuilt, other.index)
            assert renewed is not None
            nodes[other.index] = by_op[rebuilt] = renewed
            makers |= dict.fromkeys(renewed.result_maps, renewed)
        changed = True
    return changed


def _can_redirect(
    reader: Node, value: ir.Value, groups: Mapping[int, Group], maker: Node, plain: Collection[int]
) -> bool:
    """Whether an operation of another dispatch reads ``value`` by its maps only, and loses nothing by an offset.

    No map may name a loop alone in the axes ``plain``.
    """
    view = structured(reader.op)  # not the node's own, whose inputs an earlier redirection may have replaced
    if view is None or groups[reader.index] is groups[maker.index]:
        return False
    maps = [m for v, m in zip(view.inputs, view.input_maps, strict=True) if v == value]
    if any(isinstance(m[axis], int) for m in maps for axis in plain):
        return False
    if reader.kind is not Kind.ELEMENTWISE and not all(_is_strided(m) for m in maps):
        return False
    return value not in view.inits and value not in captures(reader.op) and reader.op.block == maker.op.block


def _is_strided(map_: Map) -> bool:
    """Whether the operand is read with steps, so that rows are not contiguous anyway. (A dense operand without padding
    makes longer rows.)"""
    return any(isinstance(part, ir.AffineMulExpr) for e in map_ if not isinstance(e, int) for part in _parts(e))


def _parts(expr: ir.AffineExpr) -> list[ir.AffineExpr]:
    if isinstance(expr, ir.AffineAddExpr):
        return [*_parts(expr.lhs), *_parts(expr.rhs)]
    return [expr]


def _move_up(pad: ir.Operation, maker: ir.Operation) -> None:
    """Move ``pad`` right behind ``maker``, with the constant it pads with."""
    pad.move_after(maker)
    constant = defining(padding_value(pad))
    if constant is not None and constant.name == "arith.constant" and constant.block == pad.block:
        constant.move_before(pad.block.operations[0])


def _redirect(reader: Node, value: ir.Value, padded: ir.Value, lows: list[int]) -> ir.Operation:
    """The reader, rebuilt so that it reads the interior of ``padded`` instead of ``value``."""
    view = structured(reader.op)
    assert view is not None
    operands, maps = list(reader.op.operands), list(view.maps)
    for number, operand in enumerate(view.inputs):
        if operand == value:
            operands[number] = padded
            maps[number] = tuple(_shifted(e, low) for e, low in zip(maps[number], lows, strict=True))
    types = [r.type for r in reader.op.results]
    rebuilt = rebuild_generic(reader.op, operands, types, maps, view.parallel)
    replace(reader.op, rebuilt.results)
    return rebuilt


def _shifted(expr: Expr, low: int) -> Expr:
    if low == 0:
        return expr
    plain = ir.AffineExpr.get_dim(expr) if isinstance(expr, int) else expr
    return plain + low
