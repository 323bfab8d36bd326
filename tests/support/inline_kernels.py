"""Turns a flow program back into one function in tensor form, so that it can be evaluated without the rest of the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rillet.ir import Program, builders
from rillet.ir.extents import extents
from rillet.ir.kernels import functions
from rillet.ir.rewrite import clone_body
from rillet.ir.structured import walk


def inlined(program: Program) -> Program:
    """The same program with every call replaced by the kernel's body and every ``flow`` operation by a tensor
    operation.
    """
    with program.context, ir.Location.unknown():
        bodies = {name: f.regions[0].blocks[0] for name, f in functions(program).items()}
        for op in list(walk(program.main())):
            with ir.InsertionPoint(op):
                if op.name == "func.call":
                    values = _call(op, bodies[ir.FlatSymbolRefAttr(op.attributes["callee"]).value])
                elif op.name.startswith("flow."):
                    values = [_view(op)]
                else:
                    continue
            for old, new in zip(op.results, values, strict=True):
                old.replace_all_uses_with(new)
            op.erase()
        for op in list(program.module.body.operations):
            is_declaration = op.operation.name == "func.func" and "flow.kernel" in op.operation.attributes
            if is_declaration or op.operation.name == "builtin.module":
                op.operation.erase()
    program.module.operation.verify()
    return program


def _call(op: ir.Operation, body: ir.Block) -> list[ir.Value]:
    mapping = dict(zip(body.arguments, op.operands, strict=True))
    scratch = ir.Operation.create("builtin.module", regions=1)
    block = scratch.regions[0].blocks.append()
    clone_body(body, block, mapping, terminator=False)
    for inner in list(block.operations):
        inner.operation.move_before(op)
    scratch.erase()
    returned = list(list(body.operations)[-1].operands)
    return [mapping.get(v, v) for v in returned]


def _view(op: ir.Operation) -> ir.Value:
    source, result = op.operands[0], op.results[0].type
    if op.name == "flow.splat":
        return builders.fill(source, extents(op.results[0]))
    if op.name == "flow.load":
        return tensor.ExtractOp(_flat(source), [op.operands[1]]).result
    shape = extents(op.results[0])
    if op.name == "flow.slice":
        size = _product(shape)
        flat = builders.extract_slice(_flat(source), [op.operands[1]], [size], [1])
        return builders.cast(builders.reshape(flat, shape), _static(result))
    return builders.reshape(source, shape)


def _static(type_: ir.Type) -> list[int]:
    return list(ir.RankedTensorType(type_).shape)


def _flat(value: ir.Value) -> ir.Value:
    return builders.reshape(value, [_product(extents(value))])


def _product(shape: Sequence[builders.Extent]) -> builders.Extent:
    total: builders.Extent = 1
    for extent in shape:
        if isinstance(total, int) and isinstance(extent, int):
            total *= extent
        else:
            total = arith.MulIOp(builders.as_index(total), builders.as_index(extent)).result
    return total
