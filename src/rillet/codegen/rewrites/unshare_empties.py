"""Gives each use of an empty tensor a tensor of its own: clean-ups merge empty tensors of ops that share nothing."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import KernelFunction


def unshare_empties(function: KernelFunction) -> bool:
    """Give each use of a ``tensor.empty`` in the kernel's function one of its own; False where each has one."""
    shared = [op for op in function.ops if op.name == "tensor.empty" and len(list(op.results[0].uses)) > 1]
    for op in shared:
        for use in list(op.results[0].uses)[1:]:
            clone = op.clone(ip=ir.InsertionPoint(op))
            use.owner.operation.operands[use.operand_number] = clone.operation.results[0]
    return bool(shared)
