"""The most memory that a session of the C runtime allocates, for one program with static shapes and one call.

Every allocation of the runtime (runtime/src) is counted with the size of its structure; ``tests/export`` compares the
bound with measured use. The host program must be in hal form.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.export.convert_to_emitc import literal
from rillet.ir import Program, dtypes
from rillet.ir.attributes import DIMS, DTYPE
from rillet.ir.rewrite import defining, int_constant

# Bytes of structures by pointer width, rounded up; arrays behind some of them are counted apart.
_SIZES = {
    32: {"fixed": 1536, "buffer": 72, "view": 56, "commands": 112, "command": 64, "function": 112, "import": 48},
    64: {"fixed": 2816, "buffer": 112, "view": 88, "commands": 176, "command": 80, "function": 168, "import": 72},
}
_BINDING, _CONSTANT, _SLOT = 24, 8, 16
_BUFFER_ALIGNMENT = 64
_MAX_RANK = 32
_FIRST_CAPACITY = 8  # of a growing array, which doubles
_RECORDED = ("hal.cmd_dispatch", "hal.cmd_fill", "hal.cmd_copy", "hal.cmd_barrier")
_BINDINGS = {"hal.cmd_bind": 1, "hal.cmd_fill": 1, "hal.cmd_copy": 2}


def bound(program: Program, pointer_bits: int) -> int:
    """The most bytes, the kernels' memory included. Raises ``CompileError`` when a size depends on the data."""
    counter = _Counter(pointer_bits)
    total, called = counter.sizes["fixed"], set[str]()
    for function in program.module.body.operations:
        total += counter.sizes["function"]
        blocks = list(function.operation.regions[0].blocks)
        # A buffer that a loop carries lives while the next one is made.
        times = 2 if len(blocks) > 1 else 1
        for block in blocks:
            total += len(block.arguments) * counter.register
            for view in block.operations:
                total += counter.of(view.operation) * times
                called.add(view.operation.name)
    main = program.main()
    if _shares_outputs(main):
        total += sum(counter.buffer(n) + counter.view(_MAX_RANK) for n in _output_bytes(main))
    return total + counter.sizes["import"] * sum(name.startswith("hal.") for name in called)


class _Counter:
    """Counts the bytes that one operation allocates."""

    def __init__(self, pointer_bits: int) -> None:
        self.sizes = _SIZES[pointer_bits]
        self.word = pointer_bits // 8
        self.register = 8 + self.word
        self.overhead = 4 * self.word  # of a block of the arena: its header, and rounding

    def of(self, op: ir.Operation) -> int:
        registers = len(op.results) * self.register
        if op.name == "hal.cmd_create":
            return registers + self.commands(op)
        if op.name in ("hal.buffer_transient", "hal.buffer_allocate"):
            # A transient buffer is an object over another.
            objects = 2 if op.name == "hal.buffer_transient" else 1
            return registers + self.buffer(_size_of(op)) + (objects - 1) * (self.sizes["buffer"] + self.overhead)
        if op.name in ("hal.buffer_subspan", "hal.constant"):
            return registers + self.sizes["buffer"] + self.overhead
        if op.name == "hal.view_create":
            return registers + self.view(len(op.operands) - 2)
        return registers

    def buffer(self, length: int) -> int:
        return length + _BUFFER_ALIGNMENT + self.sizes["buffer"] + self.overhead

    def view(self, rank: int) -> int:
        return self.sizes["view"] + 8 * rank + self.overhead

    def commands(self, create: ir.Operation) -> int:
        """Counts a command buffer, with the arrays that it outgrew while it was recorded."""
        recorded = bindings = constants = 0
        for use in create.results[0].uses:
            user = use.owner
            recorded += user.name in _RECORDED
            bindings += _BINDINGS.get(user.name, 0)
            constants += len(user.operands) - 1 if user.name == "hal.cmd_constants" else 0
        arrays = sum(
            self.array(count, size)
            for count, size in (
                (recorded, self.sizes["command"]),
                (bindings, _BINDING),
                (constants, _CONSTANT),
            )
        )
        addresses = bindings * self.word + 2 * _BUFFER_ALIGNMENT + self.overhead
        slots = literal(create.operands[1]) * _SLOT
        return self.sizes["commands"] + self.overhead + slots + arrays + addresses

    def array(self, count: int, size: int) -> int:
        total, capacity = 0, _FIRST_CAPACITY
        while count:
            total += capacity * size + self.overhead
            if capacity >= count:
                break
            capacity *= 2
        return total


def _shares_outputs(main: ir.Operation) -> bool:
    """Whether an output may be a constant, an input or another output's memory: the session copies those."""
    makers: list[ir.Operation] = []
    for block in main.regions[0].blocks:
        for operation in block.operations:
            if operation.operation.name == "func.return":
                for view in operation.operation.operands:
                    made = defining(view, "hal.view_create")
                    buffer = defining(made.operands[0], "hal.buffer_allocate") if made else None
                    if buffer is None or buffer in makers:
                        return True
                    makers.append(buffer)
    return False


def _output_bytes(main: ir.Operation) -> list[int]:
    attributes = main.attributes
    specs = [ir.DictAttr(a) for a in ir.ArrayAttr(attributes["res_attrs"])] if "res_attrs" in attributes else []
    found = []
    for spec in specs:
        dims = [int(ir.StringAttr(d).value) for d in ir.ArrayAttr(spec[DIMS])] if DIMS in spec else []
        element = dtypes.by_name[ir.StringAttr(spec[DTYPE]).value]
        found.append(math.prod(dims) * element.numpy.itemsize)
    return found


def _size_of(op: ir.Operation) -> int:
    size = int_constant(op.operands[1])
    if size is None:
        raise CompileError("the size of a buffer depends on the data, which needs memory that is not static")
    return size
