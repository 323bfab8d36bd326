"""Results whose shapes are known better than the function's type says, as after inputs were pinned."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.attributes import DIMS
from rillet.ir.rewrite import defining


def refine(main: ir.Operation) -> None:
    """Return the operands of casts to less static types, and change the function's result types to match."""
    *_, last = main.regions[0].blocks[0].operations
    edges = list(ir.ArrayAttr(main.attributes["res_attrs"])) if "res_attrs" in main.attributes else []
    for number, value in enumerate(last.operation.operands):
        cast = defining(value)
        if (
            cast is None
            or cast.name != "tensor.cast"
            or not ir.RankedTensorType(cast.operands[0].type).has_static_shape
        ):
            continue
        last.operation.operands[number] = cast.operands[0]
        edges[number] = ir.DictAttr.get({a.name: a.attr for a in ir.DictAttr(edges[number]) if a.name != DIMS})
        if not list(cast.results[0].uses):
            cast.erase()
    if edges:
        main.attributes["res_attrs"] = ir.ArrayAttr.get(edges)
    arguments = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    results = [value.type for value in last.operation.operands]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))
