"""hal → vm: one operation for each instruction; every host value becomes a 64-bit integer or a reference.

Narrow integers are kept sign-extended and booleans as 0 or 1. A float is kept as the bits of an f64 of the same value:
f32 arithmetic rounds after each operation, which is exact since f64 has more than twice the bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.dialects import vm
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.vm import imports
from rillet.vm.scalars import Scalars, is_reference


@dataclass(frozen=True)
class Options:
    """Has none."""


def run(program: Program, options: Options) -> None:
    """Replace every function of the module by its vm form."""
    with program.context, ir.Location.unknown():
        for view in list(program.module.body.operations):
            _Function(view.operation).convert()
    # Constants of one value and different types have become equal.
    PassManager.parse("builtin.module(cse)", program.context).run(program.module.operation)


class _Function:
    def __init__(self, old: ir.Operation) -> None:
        self.old = old
        self.values: dict[ir.Value, ir.Value] = {}
        self.blocks: dict[ir.Block, ir.Block] = {}
        self.i64 = ir.IntegerType.get_signless(64)
        self.ref = vm.RefType.get()
        self.scalars = Scalars()

    def convert(self) -> None:
        old = self.old
        type_ = ir.FunctionType(ir.TypeAttr(old.attributes["function_type"]).value)
        new_type = ir.FunctionType.get([self._type(t) for t in type_.inputs], [self._type(t) for t in type_.results])
        attributes = {old.attributes[i].name: old.attributes[i].attr for i in range(len(old.attributes))}
        attributes["function_type"] = ir.TypeAttr.get(new_type)
        with ir.InsertionPoint(old):
            new = ir.Operation.create("func.func", attributes=attributes, regions=1, loc=old.location)
        for block in old.regions[0].blocks:
            types = [self._type(a.type) for a in block.arguments]
            copy = new.regions[0].blocks.append(*types, arg_locs=[old.location] * len(types))
            self.blocks[block] = copy
            self.values.update(zip(block.arguments, copy.arguments, strict=True))
        for block, copy in self.blocks.items():
            with ir.InsertionPoint(copy):
                for view in block.operations:
                    with view.operation.location:
                        self._operation(view.operation)
        old.erase()

    def _type(self, type_: ir.Type) -> ir.Type:
        return self.ref if is_reference(type_) else self.i64

    def _operation(self, op: ir.Operation) -> None:
        operands = [self.values[v] for v in op.operands]
        if op.name == "hal.global_load":
            self._results(op, vm.GlobalLoadRefOp(self.ref, op.attributes["ordinal"]))
        elif op.name == "hal.global_store":
            vm.GlobalStoreRefOp(operands[0], op.attributes["ordinal"])
        elif op.name in imports.BY_OPERATION:
            self._call(op, operands)
        elif op.name == "func.return":
            ir.Operation.create("func.return", operands=operands)
        elif op.name == "cf.br":
            ir.Operation.create("cf.br", operands=operands, successors=self._successors(op))
        elif op.name == "cf.cond_br":
            condition = vm.TestOp(operands[0]).operation.results[0]
            attributes = {"operandSegmentSizes": op.attributes["operandSegmentSizes"]}
            successors = self._successors(op)
            ir.Operation.create(
                op.name, operands=[condition, *operands[1:]], attributes=attributes, successors=successors
            )
        elif op.name == "arith.select" and is_reference(op.results[0].type):
            self._results(op, vm.SelectRefOp(*operands, out=self.ref))
        elif op.name.startswith(("arith.", "math.")):
            self.values[op.results[0]] = self.scalars.convert(op, operands)
        else:
            raise CompileError(f"internal: '{op.name}' has no bytecode")

    def _call(self, op: ir.Operation, operands: list[ir.Value]) -> None:
        callee = imports.BY_OPERATION[op.name]
        ints = [v for v in operands if v.type == self.i64]
        refs = [v for v in operands if v.type == self.ref]
        call = vm.CallOp(
            [self.i64] * callee.results.count("i"),
            [self.ref] * callee.results.count("r"),
            ints,
            refs,
            ir.StringAttr.get(callee.name),
        )
        self._results(op, call)

    def _successors(self, op: ir.Operation) -> list[ir.Block]:
        return [self.blocks[block] for block in op.successors]

    def _results(self, old: ir.Operation, new: ir.OpView) -> None:
        self.values.update(zip(old.results, new.operation.results, strict=True))
