"""Ops on dimensions that are known at run time only."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building.builder import Builder
from rillet.ir import builders
from rillet.ir.rewrite import replace


def get_dimension_size(b: Builder, op: ir.Operation) -> None:
    """An extent as a tensor of one i32."""
    extent = builders.dim(op.operands[0], ir.IntegerAttr(op.attributes["dimension"]).value)
    element = ir.RankedTensorType(op.results[0].type).element_type
    number = arith.index_cast(element, builders.as_index(extent))
    replace(op, [builders.from_elements([number], [])])
