"""Calls of LLVM's target intrinsics, for single instructions that no pattern of ordinary operations reliably
becomes."""

from __future__ import annotations

from torch_mlir import ir


def call(name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
    """The value of intrinsic ``name``: LLVM's name, with the types that tell its versions apart."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    made = ir.Operation.create("llvm.call_intrinsic", results=[result], operands=list(operands), attributes=attributes)
    return made.results[0]


def keep_order() -> None:
    """Forbids moving memory reads across this point. It emits no instruction, but limits what the scheduler holds in
    registers at a time."""
    attributes = {
        "asm_string": ir.StringAttr.get(""),
        "constraints": ir.StringAttr.get("~{memory}"),
        "has_side_effects": ir.UnitAttr.get(),
    }
    ir.Operation.create("llvm.inline_asm", results=[], operands=[], attributes=attributes)
