"""Ops of upstream's ``index`` dialect, which some of its conversions make, as ``arith`` on the type ``index``."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import builders
from rillet.ir.structured import walk

_ARITH = {
    "index.add": "arith.addi",
    "index.sub": "arith.subi",
    "index.mul": "arith.muli",
    "index.divs": "arith.divsi",
    "index.divu": "arith.divui",
    "index.floordivs": "arith.floordivsi",
    "index.ceildivs": "arith.ceildivsi",
    "index.rems": "arith.remsi",
    "index.remu": "arith.remui",
    "index.maxs": "arith.maxsi",
    "index.mins": "arith.minsi",
    "index.and": "arith.andi",
    "index.or": "arith.ori",
    "index.xor": "arith.xori",
    "index.casts": "arith.index_cast",
    "index.castu": "arith.index_castui",
}


def to_arith(module: ir.Module) -> None:
    """Replace each op that ``arith`` has too."""
    for op in [o for o in walk(module.operation) if o.name.startswith("index.")]:
        with ir.InsertionPoint(op), op.location:
            if op.name == "index.constant":
                op.results[0].replace_all_uses_with(builders.index(ir.IntegerAttr(op.attributes["value"]).value))
            elif op.name in _ARITH:
                types = [r.type for r in op.results]
                new = ir.Operation.create(_ARITH[op.name], results=types, operands=list(op.operands))
                op.results[0].replace_all_uses_with(new.results[0])
            else:
                continue
        op.erase()
