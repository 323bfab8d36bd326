"""Operations that are built to learn something and then given up.

They stay until everything is built: extents know values by identity, and a new value may have the address of an erased
one.
"""

from __future__ import annotations

from torch_mlir import ir

_GIVEN_UP = "rillet.given_up"


def give_up(op: ir.Operation) -> None:
    """Mark an operation, with what was built in it, for ``erase_given_up``."""
    op.attributes[_GIVEN_UP] = ir.UnitAttr.get()


def erase_given_up(block: ir.Block) -> None:
    """Remove what was given up, here and in regions, once nothing more is built."""
    for op in list(block.operations):
        if _GIVEN_UP in op.operation.attributes:
            op.operation.erase()
            continue
        for region in op.operation.regions:
            for inner in region.blocks:
                erase_given_up(inner)
