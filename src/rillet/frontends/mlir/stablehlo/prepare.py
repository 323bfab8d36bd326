"""Rewrites StableHLO that upstream's conversion refuses or converts wrongly."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rillet.ir.rewrite import defining, replace
from rillet.ir.structured import walk

# Arithmetic of bools is logic; in the region of a reduction upstream would add them modulo 2.
_BOOL = {"stablehlo.add": "stablehlo.or", "stablehlo.multiply": "stablehlo.and"}
# Calls that say where values live, not what they are.
_TRANSPARENT = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")


def prepare(module: ir.Module) -> None:
    """Rewrite every op of ``module`` that needs it."""
    for op in list(walk(module.operation)):
        if op.name in _BOOL and str(ir.ShapedType(op.results[0].type).element_type) == "i1":
            with ir.InsertionPoint(op):
                new = ir.Operation.create(_BOOL[op.name], [op.results[0].type], list(op.operands), loc=op.location)
            replace(op, list(new.results))
        elif op.name == "stablehlo.optimization_barrier":
            replace(op, list(op.operands))
        elif op.name == "stablehlo.dynamic_reshape":
            with ir.InsertionPoint(op), op.location:
                replace(op, [tensor.ReshapeOp(op.results[0].type, *op.operands).result])
        elif op.name == "stablehlo.concatenate":
            _concatenate(op)
        elif op.name == "stablehlo.reduce":
            _reduce_nothing(op)
        elif op.name == "stablehlo.get_tuple_element":
            _take_from_tuple(op)
        elif op.name == "stablehlo.custom_call":
            _known_call(op)
    for op in [o for o in walk(module.operation) if o.name == "stablehlo.tuple"]:
        if next(iter(op.results[0].uses), None) is None:
            op.erase()


def _concatenate(op: ir.Operation) -> None:
    """Tensors of dynamic shapes are joined by an op whose operands are checked to fit each other."""
    result = ir.RankedTensorType(op.results[0].type)
    if all(ir.RankedTensorType(v.type).has_static_shape for v in op.operands):
        return
    with ir.InsertionPoint(op), op.location:
        axis = ir.IntegerAttr(op.attributes["dimension"]).value
        replace(op, [tensor.ConcatOp(result, axis, list(op.operands)).result])


def _reduce_nothing(op: ir.Operation) -> None:
    """A reduction over no elements gives its initial value."""
    count = len(op.results)
    operands = list(op.operands)
    first = operands[0].type
    if not isinstance(first, ir.RankedTensorType) or 0 not in first.shape or 0 in op.results[0].type.shape:
        return
    with ir.InsertionPoint(op):
        dims = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        values = [
            ir.Operation.create("stablehlo.broadcast_in_dim", [r.type], [init], dims, loc=op.location).results[0]
            for r, init in zip(op.results, operands[count:], strict=True)
        ]
    replace(op, values)


def _take_from_tuple(op: ir.Operation) -> None:
    made = defining(op.operands[0])
    if made is not None and made.name == "stablehlo.tuple":
        replace(op, [made.operands[ir.IntegerAttr(op.attributes["index"]).value]])


def _known_call(op: ir.Operation) -> None:
    """Erase calls that say nothing about values; calls that serialize ops of the dialect chlo become these ops."""
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in _TRANSPARENT and [v.type for v in op.operands] == [r.type for r in op.results]:
        replace(op, list(op.operands))
    elif target.startswith("mhlo.") and "mhlo.attributes" in op.attributes:
        given = {named.name: named.attr for named in ir.DictAttr(op.attributes["mhlo.attributes"])}
        name = "chlo." + {"topk": "top_k"}.get(target.removeprefix("mhlo."), target.removeprefix("mhlo."))
        if op.context.is_registered_operation(name) and given.pop("largest", ir.BoolAttr.get(True)).value:
            with ir.InsertionPoint(op):
                types = [r.type for r in op.results]
                new = ir.Operation.create(name, types, list(op.operands), given, loc=op.location)
            replace(op, list(new.results))
