"""The form after the stage ``placement``."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.kernels import called
from rillet.ir.structured import walk
from rillet.placement import homes


def check(program: Program) -> None:
    """Raise ``CompileError`` unless every dispatch has a device, and every operand lives where it is used."""
    with program.context:
        names = [device.name for device in flow.devices(program.module)]
        for op in walk(program.main()):
            wanted = names[0]
            if op.name == "func.call":
                name = called(op)
                given = op.attributes.get(flow.DEVICE, None)
                wanted = ir.StringAttr(given).value if given is not None else ""
                if wanted not in names:
                    raise CompileError(f"internal: a dispatch of @{name} has no device of the program after placement")
            elif op.name in (*homes.VIEWS, "flow.transfer", "tensor.dim"):
                continue
            for i in homes.tensors(op):
                there = homes.home(op.operands[i]) or names[0]
                if there != wanted:
                    raise CompileError(
                        f"internal: '{op.name}' on device '{wanted}' has an operand that lives on '{there}'"
                    )
