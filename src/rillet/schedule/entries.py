"""Which kernels each device's libraries hold, in the order in which they number them."""

from __future__ import annotations

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program
from rillet.ir.kernels import declarations, modules
from rillet.ir.structured import walk


def entries(program: Program) -> ir.ArrayAttr:
    """The names of the kernels of each set: all of them where there is one set, else those that its devices run."""
    devices = {device.name: device for device in flow.devices(program.module)}
    names, called = list(modules(program)), declarations(program)
    run: dict[int, set[str]] = {device.kernels: set() for device in devices.values()}
    for op in walk(program.main()):
        if op.name == "func.call" and flow.DEVICE in op.attributes:
            declaration = called[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            kernel = ir.SymbolRefAttr(declaration.attributes[flow.KERNEL]).value[-1]
            run[devices[ir.StringAttr(op.attributes[flow.DEVICE]).value].kernels].add(kernel)
    sets = [names] if len(run) == 1 else [[name for name in names if name in run[i]] for i in sorted(run)]
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names]) for names in sets])
