"""Returns scalars of device loops through memory.

A dispatch returns tensors only. Where an op outside a device loop uses a scalar result of it, the loop carries a tensor
of one element along, and the host reads that.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import scf, tensor

from rillet.dispatch.regions.nodes import host_blocks
from rillet.ir import Program, builders
from rillet.ir.tensor_form import is_device_loop


def run(program: Program, options: None) -> None:
    """Rewrite every such ``scf.for`` of the host program."""
    with program.context, ir.Location.unknown():
        for block in host_blocks(program.main()):
            for op in [view.operation for view in block.operations]:
                if op.name == "scf.for" and is_device_loop(op) and _used_scalars(op):
                    with op.location, ir.InsertionPoint(op):
                        _rewrite(op, _used_scalars(op))


def _used_scalars(op: ir.Operation) -> list[int]:
    return [
        i
        for i, result in enumerate(op.results)
        if not isinstance(result.type, ir.RankedTensorType) and any(True for _ in result.uses)
    ]


def _rewrite(op: ir.Operation, scalars: list[int]) -> None:
    low, high, step, *inits = op.operands
    cells = [tensor.FromElementsOp(ir.RankedTensorType.get([1], inits[i].type), [inits[i]]).result for i in scalars]
    loop = scf.ForOp(low, high, step, [*inits, *cells])
    old, new = op.regions[0].blocks[0], loop.operation.regions[0].blocks[0]
    for before, after in zip(old.arguments, list(new.arguments)[: len(inits) + 1], strict=True):
        before.replace_all_uses_with(after)
    for inner in [view.operation for view in old.operations]:
        new.append(inner)
    ends = list(new.operations)[-1].operation
    carried = list(new.arguments)[1 + len(inits) :]
    with ir.InsertionPoint(ends):
        zero = builders.index(0)
        stored = [
            tensor.InsertOp(ends.operands[i], cell, [zero]).result for i, cell in zip(scalars, carried, strict=True)
        ]
        scf.YieldOp([*ends.operands, *stored])
    ends.erase()
    results = list(loop.operation.results)
    for number, result in enumerate(op.results):
        if number not in scalars:
            result.replace_all_uses_with(results[number])
    for cell, number in enumerate(scalars):
        op.results[number].replace_all_uses_with(builders.extract(results[len(inits) + cell], [0]))
    op.erase()
