"""hal → emitc: the host program of a model with static shapes as one C function.

A buffer is a pointer. Work that the VM would record and replay is written out: each dispatch fills an array of pointers
and calls its kernel. Results go straight to memory that the caller provides, scratch is one static array, constants are
one read-only array. So the function allocates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu.result import CpuKernel
from rillet.errors import CompileError
from rillet.export import scalars
from rillet.export.emit import Emit
from rillet.export.lifetimes import carriers, is_in_cycle
from rillet.ir import Program, dtypes
from rillet.ir.attributes import NAME
from rillet.ir.rewrite import defining, int_constant

_ALIGNMENT = 64


@dataclass(frozen=True)
class Memory:
    """A part of the arena. ``of``: its purpose; ``bytes``, with alignment, of each of ``copies``."""

    of: str
    bytes: int
    copies: int = 1

    @property
    def total(self) -> int:
        """Bytes of all copies."""
        return self.bytes * self.copies

    def __str__(self) -> str:
        return self.of if self.copies == 1 else f"{self.copies} copies of the {self.of}"


@dataclass(frozen=True)
class Lowered:
    """``module`` holds one ``emitc.func``; the kernels' own scratch lies at the end of the arena.

    ``tensors``: the tensors alive at the same time that determine the arena's size.
    """

    module: ir.Module
    arena_bytes: int
    tensors: tuple[Memory, ...]
    dispatches: tuple[str, ...]  # the entry of each call, in program order


def lower(program: Program, kernels: Sequence[CpuKernel]) -> Lowered:
    """The program after stage ``hal`` as an emitc module; ``program`` is not changed.

    ``kernels``: in ordinal order. Raises ``CompileError`` for host code that has no static form.
    """
    with program.context, ir.Location.unknown():
        return _Lowering(program, kernels).run()


class _Lowering:
    def __init__(self, program: Program, kernels: Sequence[CpuKernel]) -> None:
        self.main = program.main()
        functions = {ir.StringAttr(f.attributes["sym_name"]).value: f.operation for f in program.module.body.operations}
        init = functions.get("__init")
        self.stored = _stored(init) if init is not None else {}
        self.kernels = kernels
        self.local_memory_size = max((k.local_memory_size for k in kernels), default=0)
        self.emit = Emit()
        self.values: dict[ir.Value, ir.Value] = {}
        self.blocks: dict[ir.Block, ir.Block] = {}
        self.results = _results(self.main)
        self.arena_bytes = 0
        self.packed = _packed(program)
        self.tensors: list[Memory] = []
        self.dispatches: list[str] = []
        self.handlers: dict[str, Callable[[ir.Operation], None]] = {
            "hal.view_check": lambda op: None,
            "hal.view_create": lambda op: None,
            "hal.check_dim": lambda op: None,
            "hal.check_size": lambda op: None,  # memory of an unknown size is refused below
            "hal.check_assert": self._assert,
            "hal.view_buffer": self._view_buffer,
            "hal.global_load": self._global_load,
            "hal.buffer_allocate": self._allocate,
            "hal.buffer_transient": self._transient,
            "hal.buffer_subspan": self._subspan,
            "hal.buffer_load": self._load,
            "hal.execute": self._execute,
            "cf.br": self._branch,
            "cf.cond_br": self._branch_if,
            "func.return": self._return,
        }

    def run(self) -> Lowered:
        module = ir.Module.create()
        region = self.main.regions[0]
        inputs = len(region.blocks[0].arguments)
        outputs = len(ir.FunctionType(ir.TypeAttr(self.main.attributes["function_type"]).value).results)
        pointers = [self.emit.input_pointer] * inputs + [self.emit.void_pointer] * outputs
        with ir.InsertionPoint(module.body):
            function = self.emit.function("run", pointers)
        entry = function.regions[0].blocks.append(*pointers)
        with ir.InsertionPoint(entry):
            self.outputs = [self.emit.cast(a, self.emit.pointer) for a in list(entry.arguments)[inputs:]]
        self.inputs = dict(zip(region.blocks[0].arguments, entry.arguments, strict=False))
        for block in region.blocks:
            if block == region.blocks[0]:
                self.blocks[block] = entry
                continue
            types = [self.emit.type_of(a.type) for a in block.arguments]
            new = function.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
            self.blocks[block] = new
            self.values.update(zip(block.arguments, new.arguments, strict=True))
        with ir.InsertionPoint(entry):
            most = self._most_bindings()
            self.bindings = self.emit.array(most, self.emit.void_pointer) if most else None
        for block in region.blocks:
            with ir.InsertionPoint(self.blocks[block]):
                for view in block.operations:
                    self._convert(view.operation)
        if self.local_memory_size:
            self.arena_bytes = _align(self.arena_bytes) + self.local_memory_size
        module.operation.verify()
        return Lowered(module, self.arena_bytes, tuple(self.tensors), tuple(self.dispatches))

    def _most_bindings(self) -> int:
        counts = [0]
        for view in _walk(self.main):
            if view.name == "hal.execute":
                commands = self._commands(view)
                counts += [literal(c.operands[1]) + 1 for c in commands if c.name == "hal.cmd_bind"]
        return max(counts)

    def _convert(self, op: ir.Operation) -> None:
        if op.name.startswith("hal.cmd_"):
            return  # written out where they are executed
        handler = self.handlers.get(op.name, self._scalar_operation)
        try:
            handler(op)
        except CompileError as error:
            if source_of(op) in str(error):
                raise
            raise CompileError(f"{source_of(op)}: {error}") from error

    def _scalar_operation(self, op: ir.Operation) -> None:
        self.values[op.results[0]] = scalars.convert(self.emit, op, [self._value(v) for v in op.operands])

    def _value(self, value: ir.Value) -> ir.Value:
        if value in self.values:
            return self.values[value]
        raise CompileError(f"internal: {value} has no form in C")

    # --- buffers ------------------------------------------------------------------------------------------------------

    def _view_buffer(self, op: ir.Operation) -> None:
        view = op.operands[0]
        if view not in self.inputs:
            raise CompileError("a view that control flow passes around has no form in C")
        self.values[op.results[0]] = self.emit.cast(self.inputs[view], self.emit.pointer)

    def _global_load(self, op: ir.Operation) -> None:
        stored = self.stored[ir.IntegerAttr(op.attributes["ordinal"]).value]
        if stored.name == "hal.constant":
            self.values[op.results[0]] = self.emit.literal("CONSTANTS", self.emit.pointer)

    def _allocate(self, op: ir.Operation) -> None:
        """Memory for a buffer. The caller provides it for buffers that leave with a result; a buffer that control flow
        may make a result is copied later."""
        numbers = [n for n, buffer in enumerate(self.results) if buffer == op.results[0]]
        if len(numbers) == 1 and not is_in_cycle(op.block):
            self.values[op.results[0]] = self.outputs[numbers[0]]
        else:
            self._transient(op)

    def _transient(self, op: ir.Operation) -> None:
        size = int_constant(op.operands[1])
        if size is None:
            raise CompileError(
                f"the memory that {source_of(op)} needs depends on the data, so it cannot be reserved at compile time"
            )
        emit, size = self.emit, _align(size)
        base = emit.offset(emit.literal("ARENA", emit.pointer), self.arena_bytes)
        carried = [self.blocks[a.owner].arguments[a.arg_number] for a in carriers(op.results[0])]
        if not carried:
            self.arena_bytes += size
            self.tensors += self.packed.pop(size, [Memory(f"tensor of {source_of(op)}", size)])
            self.values[op.results[0]] = base
            return
        # Control flow carries buffers from earlier rounds of the loop, so a place is taken that it does not hold. One
        # place more than it can hold is always enough.
        held = emit.array(len(carried), emit.pointer)
        for number, pointer in enumerate(carried):
            emit.store(held, number, pointer)
        arguments = [base, emit.constant(size), held, emit.constant(len(carried))]
        self.values[op.results[0]] = emit.call("FRESH", arguments, emit.pointer)
        self.arena_bytes += (len(carried) + 1) * size
        self.tensors.append(Memory(f"tensor of {source_of(op)}, which a loop carries", size, len(carried) + 1))

    def _subspan(self, op: ir.Operation) -> None:
        buffer, offset, _ = op.operands
        self.values[op.results[0]] = self._at(self._value(buffer), offset)

    def _at(self, pointer: ir.Value, offset: ir.Value) -> ir.Value:
        known = int_constant(offset)
        return self.emit.offset(pointer, known if known is not None else self._value(offset))

    def _assert(self, op: ir.Operation) -> None:
        self.emit.verbatim("if (!{}) return 1;", [self._scalar(op.operands[0])])

    def _load(self, op: ir.Operation) -> None:
        buffer, offset, dtype = op.operands
        pointer = self._at(self._value(buffer), offset)
        self.values[op.results[0]] = scalars.load(self.emit, pointer, literal(dtype), op.results[0].type)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _commands(self, execute: ir.Operation) -> list[ir.Operation]:
        """The recorded commands that ``execute`` runs."""
        handle = execute.operands[0]
        owner = handle.owner.operation
        if owner.name == "hal.global_load":
            owner = self.stored[ir.IntegerAttr(owner.attributes["ordinal"]).value]
            handle = owner.results[0]
        uses = sorted((use.owner.operation for use in handle.uses), key=list(owner.block.operations).index)
        return [op for op in uses if op.name.startswith("hal.cmd_")]

    def _execute(self, op: ir.Operation) -> None:
        slots = [self._value(v) for v in list(op.operands)[1:]]
        bindings: list[ir.Value] = []
        constants: list[ir.Value] = []
        for command in self._commands(op):
            operands = list(command.operands)[1:]
            if command.name == "hal.cmd_constants":
                constants = operands
            elif command.name == "hal.cmd_bind":
                bindings.append(self._at(slots[literal(operands[1])], operands[2]))
            elif command.name == "hal.cmd_dispatch":
                with command.location:
                    self._dispatch(self.kernels[literal(operands[0])], bindings, constants)
                bindings, constants = [], []
            elif command.name == "hal.cmd_fill":
                slot, offset, length, pattern, size = operands
                pointer = self._at(slots[literal(slot)], offset)
                arguments = [pointer, *(self._scalar(v) for v in (length, pattern, size))]
                self.emit.call("FILL", arguments)
            elif command.name == "hal.cmd_copy":
                to, to_offset, source, source_offset, length = operands
                target = self._at(slots[literal(to)], to_offset)
                origin = self._at(slots[literal(source)], source_offset)
                self.emit.call("COPY", [target, origin, self._scalar(length)])

    def _dispatch(self, kernel: CpuKernel, bindings: Sequence[ir.Value], constants: Sequence[ir.Value]) -> None:
        emit = self.emit
        for number, pointer in enumerate(bindings):
            emit.store(self.bindings, number, pointer)
        values: list[ir.Value] = []
        if constants:
            array = emit.array(len(constants), emit.i64)
            for number, value in enumerate(constants):
                emit.store(array, number, self._scalar(value))
            values.append(array)
        data = [*([self.bindings] if bindings else ["NULL"]), *(values or ["NULL"])]
        if kernel.grid == (1, 1, 1):
            status = emit.call("RUN", [kernel.name, *data], emit.i32)
        else:
            status = emit.call("DISPATCH", [kernel.name, f"{kernel.name}__count", *data], emit.i32)
        emit.verbatim("if ({} != 0) return {};", [status, status])
        self.dispatches.append(kernel.name)

    def _scalar(self, value: ir.Value) -> ir.Value:
        known = int_constant(value)
        return self.emit.constant(known) if known is not None else self._value(value)

    # --- control flow -------------------------------------------------------------------------------------------------

    def _branch(self, op: ir.Operation) -> None:
        target = self.blocks[op.successors[0]]
        self.emit.branch(target, [self._operand(v) for v in op.operands])

    def _branch_if(self, op: ir.Operation) -> None:
        first, second = (self.blocks[s] for s in op.successors)
        _, count, _ = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        condition, *rest = op.operands
        values = [self._operand(v) for v in rest]
        self.emit.branch_if(self._value(condition), first, values[:count], second, values[count:])

    def _operand(self, value: ir.Value) -> ir.Value:
        return self._scalar(value) if int_constant(value) is not None else self._value(value)

    def _return(self, op: ir.Operation) -> None:
        for number, (view, buffer) in enumerate(zip(op.operands, self.results, strict=True)):
            if self.values.get(buffer) == self.outputs[number]:
                continue
            length = _bytes_of_view(view)
            self.emit.call("COPY", [self.outputs[number], self._value(buffer), self.emit.constant(length)])
        self.emit.return_(self.emit.constant(0, self.emit.i32))


def _stored(init: ir.Operation) -> dict[int, ir.Operation]:
    """For each global, the operation whose result ``@__init`` stores in it."""
    found = {}
    for op in init.regions[0].blocks[0].operations:
        if op.operation.name == "hal.global_store":
            ordinal = ir.IntegerAttr(op.operation.attributes["ordinal"]).value
            found[ordinal] = op.operation.operands[0].owner.operation
    return found


def _packed(program: Program) -> dict[int, list[Memory]]:
    """The tensors in the packed scratch (``schedule.arena``), under its size."""
    attributes = program.module.operation.attributes
    total, bound = (_align(ir.IntegerAttr(attributes[f"stream.arena_{a}"]).value) for a in ("bytes", "lower_bound"))
    tensors = [ir.DictAttr(a) for a in ir.ArrayAttr(attributes["stream.arena_peak"])]
    found = [
        Memory(f"tensor of {_quoted(ir.StringAttr(t['of']).value)}", ir.IntegerAttr(t["bytes"]).value) for t in tensors
    ]
    return {total: [*found, *([Memory("gaps between tensors", total - bound)] if total > bound else [])]}


def _results(main: ir.Operation) -> list[ir.Value]:
    """The buffer behind each result. A buffer returned twice counts for the first only."""
    returns = [op for op in _walk(main) if op.name == "func.return"]
    if len(returns) != 1:
        raise CompileError("a model that returns in several places has no form in C")
    buffers: list[ir.Value] = []
    specs = ir.ArrayAttr(main.attributes["res_attrs"])
    for view in returns[0].operands:
        owner = defining(view, "hal.view_create")
        if owner is None:
            raise CompileError("a result that control flow chooses has no static memory")
        if any(int_constant(dim) is None for dim in list(owner.operands)[2:]):
            name = ir.StringAttr(ir.DictAttr(specs[len(buffers)])[NAME]).value
            raise CompileError(f"the shape of output '{name}' depends on the data, so its memory cannot be static")
        buffers.append(owner.operands[0])
    return buffers


def _bytes_of_view(view: ir.Value) -> int:
    create = view.owner.operation
    size = dtypes.by_code[literal(create.operands[1])].bits // 8
    for dim in list(create.operands)[2:]:
        size *= literal(dim)
    return size


def _walk(op: ir.Operation) -> list[ir.Operation]:
    return [view.operation for block in op.regions[0].blocks for view in block.operations]


def source_of(op: ir.Operation) -> str:
    """The node of the model that an operation comes from, for messages."""
    return _quoted(str(op.location))


def _quoted(location: str) -> str:
    name = re.search(r'"([^"]+)"', location)
    return f"'{name[1]}'" if name else "an operation of the model"


def literal(value: ir.Value) -> int:
    """The integer value of a hal operand."""
    known = int_constant(value)
    if known is None:
        raise CompileError("internal: a hal operand that must be a literal is computed")
    return known


def _align(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
