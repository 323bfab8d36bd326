"""Encoding of vm functions as bytecode (docs/reference/bytecode.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from rillet.dialects import vm
from rillet.errors import CompileError
from rillet.ir.image import Function, Import
from rillet.vm import imports
from rillet.vm.liveness import Liveness, edges, reads, terminator
from rillet.vm.register_copies import sequentialize
from rillet.vm.registers import Allocation, allocate

_IMPORT_BIT = 0x8000


@dataclass
class ImportTable:
    """The imports in use, numbered in the order of their first use."""

    used: list[Import] = field(default_factory=list)

    def ordinal(self, name: str) -> int:
        """The position of an import in the module's table; its first use adds it. Raises ``KeyError`` for an unknown
        name."""
        entry = imports.BY_NAME[name]
        if entry not in self.used:
            self.used.append(entry)
        return self.used.index(entry)


def encode_function(function: ir.Operation, table: ImportTable) -> Function:
    """Allocate registers for and encode one ``func.func`` in vm form."""
    liveness = Liveness.of(function)
    allocation = allocate(function, liveness)
    encoder = _Encoder(liveness, allocation, table)
    for number, block in enumerate(liveness.blocks):
        following = liveness.blocks[number + 1] if number + 1 < len(liveness.blocks) else None
        encoder.block(block, following)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return Function(
        ir.StringAttr(function.attributes["sym_name"]).value,
        _signature(type_.inputs),
        _signature(type_.results),
        allocation.int_registers + encoder.int_scratch,
        allocation.ref_registers + encoder.ref_scratch,
        encoder.finish(),
    )


def _signature(types: Iterable[ir.Type]) -> str:
    return "".join("r" if isinstance(t, vm.RefType) else "i" for t in types)


class _Encoder:
    def __init__(self, liveness: Liveness, allocation: Allocation, table: ImportTable) -> None:
        self.liveness, self.allocation, self.table = liveness, allocation, table
        self.words: list[int] = []
        self.labels: dict[object, int] = {}
        self.fixups: list[tuple[int, object]] = []  # position of the low word, label
        self.int_scratch = self.ref_scratch = 0

    def finish(self) -> tuple[int, ...]:
        for position, label in self.fixups:
            target = self.labels[label]
            self.words[position], self.words[position + 1] = target & 0xFFFF, target >> 16
        return tuple(self.words)

    def block(self, block: ir.Block, following: ir.Block | None) -> None:
        self.labels[block] = len(self.words)
        operations = [view.operation for view in block.operations]
        calls = [i for i, op in enumerate(operations) if op.name == "vm.call"]
        # References that die when no call follows before the return are released by the return itself.
        last_call = calls[-1] if calls else -1
        ends = operations[-1].name == "func.return"
        if not ends or calls:
            self._release(self._dead_on_entry(block))
        dying = self._dying(block, operations)
        for i, op in enumerate(operations[:-1]):
            self._operation(op)
            if not ends or i < last_call:
                self._release(dying[i])
        self._terminator(operations[-1], following)

    def _dead_on_entry(self, block: ir.Block) -> set[int]:
        """Registers whose references a predecessor still needed, and this block does not."""
        living = self.liveness.live_in[block] | set(block.arguments)
        kept = {self._register(v) for v in living if _is_ref(v)}
        stale: set[int] = set()
        for predecessor in self.liveness.predecessors[block]:
            values = self.liveness.live_out[predecessor] | set(terminator(predecessor).operands)
            stale |= {self._register(v) for v in values if _is_ref(v)}
        return stale - kept

    def _dying(self, block: ir.Block, operations: Sequence[ir.Operation]) -> list[set[int]]:
        """For each operation, the registers of references that no later operation needs."""
        live = {v for v in self.liveness.live_out[block] if _is_ref(v)}
        live |= {v for v in operations[-1].operands if _is_ref(v)}
        dying: list[set[int]] = [set() for _ in operations]
        for i in range(len(operations) - 2, -1, -1):
            op = operations[i]
            results = {v for v in op.results if _is_ref(v)}
            unused = results - live
            occupied = {self._register(v) for v in results & live}
            last_read = {v for v in op.operands if _is_ref(v)} - live
            dying[i] = {self._register(v) for v in unused | last_read} - occupied
            live = (live - results) | last_read
        return dying

    def _release(self, registers: set[int]) -> None:
        for register in sorted(registers):
            self._emit(vm.NULL_REF, register)

    def _operation(self, op: ir.Operation) -> None:
        name = op.name.removeprefix("vm.")
        if name == "test":
            return
        if name == "const":
            value = int(ir.IntegerAttr(op.attributes["value"]).value)
            self._emit(vm.CONST, self._register(op.results[0]), *(value >> shift & 0xFFFF for shift in (0, 16, 32, 48)))
        elif name == "call":
            ordinal = self.table.ordinal(ir.StringAttr(op.attributes["callee"]).value)
            self._emit(vm.CALL, _IMPORT_BIT | ordinal, *self._lists(op.operands), *self._lists(op.results))
        elif name == "global_load_ref":
            self._emit(vm.GLOBAL_LOAD_REF, self._register(op.results[0]), _ordinal(op))
        elif name == "global_store_ref":
            self._emit(vm.GLOBAL_STORE_REF, _ordinal(op), self._register(op.operands[0]))
        else:
            opcodes = {**vm.BINARY, **vm.UNARY, "select": vm.SELECT, "select_ref": vm.SELECT_REF}
            if name not in opcodes:
                raise CompileError(f"internal: '{op.name}' has no encoding")
            self._emit(opcodes[name], *map(self._register, (*op.results, *op.operands)))

    def _terminator(self, op: ir.Operation, following: ir.Block | None) -> None:
        if op.name == "func.return":
            self._emit(vm.RETURN, *self._lists(op.operands))
            return
        targets = edges(op)
        if op.name == "cf.br":
            ((target, operands),) = targets
            self._moves(target, operands)
            if target != following:
                self._emit(vm.BRANCH)
                self._reference(target)
            return
        # A side that passes values branches to a stub that moves them.
        stubs = [
            (object(), target, operands) if operands else (target, target, operands) for target, operands in targets
        ]
        self._emit(vm.BRANCH_IF, self._register(reads(op)[0]))
        for label, _, _ in stubs:
            self._reference(label)
        for label, target, operands in stubs:
            if operands:
                self.labels[label] = len(self.words)
                self._moves(target, operands)
                self._emit(vm.BRANCH)
                self._reference(target)

    def _moves(self, target: ir.Block, operands: Sequence[ir.Value]) -> None:
        pairs = list(zip(target.arguments, operands, strict=True))
        for is_ref, opcode, count in (
            (False, vm.MOV, self.allocation.int_registers),
            (True, vm.MOV_REF, self.allocation.ref_registers),
        ):
            moves = {self._register(a): self._register(v) for a, v in pairs if _is_ref(a) == is_ref}
            steps, uses_scratch = sequentialize(moves, scratch=count)
            for destination, source in steps:
                self._emit(opcode, destination, source)
            if uses_scratch and is_ref:
                self.ref_scratch = 1
                self._emit(vm.NULL_REF, count)
            elif uses_scratch:
                self.int_scratch = 1

    def _register(self, value: ir.Value) -> int:
        return self.allocation.register[value]

    def _lists(self, values: Iterable[ir.Value]) -> list[int]:
        """Integer registers and reference registers, each preceded by their count."""
        ints = [self._register(v) for v in values if not _is_ref(v)]
        refs = [self._register(v) for v in values if _is_ref(v)]
        return [len(ints), *ints, len(refs), *refs]

    def _reference(self, label: object) -> None:
        self.fixups.append((len(self.words), label))
        self.words += [0, 0]

    def _emit(self, *words: int) -> None:
        self.words += words


def _is_ref(value: ir.Value) -> bool:
    return isinstance(value.type, vm.RefType)


def _ordinal(op: ir.Operation) -> int:
    return int(ir.IntegerAttr(op.attributes["ordinal"]).value)
