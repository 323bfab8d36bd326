"""The memory that a session of the C runtime needs for one program with static shapes: what it allocates, as requests.

The runtime's arena keeps a block that was freed for the next request of its size and alignment, so a program never
needs more than, for each place in the runtime that allocates, as many blocks as are in use at the same time. Sizes of
structures come from the runtime's own sources (``structure_sizes``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu.result import CpuKernel
from rillet.dialects import vm
from rillet.errors import CompileError
from rillet.export.convert_to_emitc import literal
from rillet.export.lifetimes import carriers
from rillet.ir import Program, dtypes
from rillet.ir.attributes import DIMS, DTYPE
from rillet.ir.image import Image
from rillet.ir.rewrite import defining, int_constant

_BUFFER_ALIGNMENT = 64
_FIRST_CAPACITY = 8  # of a growing array, which doubles
_RECORDED = ("hal.cmd_dispatch", "hal.cmd_fill", "hal.cmd_copy", "hal.cmd_barrier")
_BINDINGS = {"hal.cmd_bind": 1, "hal.cmd_fill": 1, "hal.cmd_copy": 2}


@dataclass(frozen=True)
class Request:
    """Blocks that one place of the runtime has in use at the same time.

    ``parts``: the sum of ``count`` structures each; ``alignment``: a number of bytes or what ``structure_sizes`` calls
    it; ``unit``: what the size is rounded up to a multiple of.
    """

    parts: tuple[tuple[str, int], ...]
    alignment: str | int = "alignment"
    unit: int = 1
    copies: int = 1

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """The most that the arena takes for it, with headers and gaps."""
        header = sizes["header"]
        size = max(1, _round_up(sum(sizes[name] * count for name, count in self.parts), self.unit))
        alignment = sizes[self.alignment] if isinstance(self.alignment, str) else self.alignment
        return self.copies * (header + _round_up(size, header) + max(0, alignment - header))


def bound(requests: Sequence[Request], sizes: Mapping[str, int]) -> int:
    """The most bytes of an arena that the requests take. ``sizes``: of the runtime's structures."""
    return _round_up(sum(r.bytes(sizes) for r in requests), _BUFFER_ALIGNMENT)


def of_program(program: Program, kernels: Sequence[CpuKernel]) -> list[Request]:
    """What the operations of the host program, in hal form, allocate. ``kernels``: in ordinal order.

    Raises ``CompileError`` when a size depends on the data.
    """
    with program.context:
        operations = [op for function in program.module.body.operations for op in _operations_of(function.operation)]
        found = [request for op in operations for request in _of_operation(op)]
        created = [op for op in operations if op.name == "hal.cmd_create"]
        executed = [op for op in operations if op.name == "hal.execute"]
        # The device keeps one block of scratch; a larger one replaces it.
        found += dict.fromkeys(_scratch(op, kernels) for op in created)
        found += dict.fromkeys(_request(("pointer", len(op.operands) - 1)) for op in executed)
        return [*found, *_copied_outputs(program.main())]


def of_session(program: Program, image: Image) -> list[Request]:
    """What loading a module and calling it allocate beside what its host program does.

    ``program``: in vm form; ``image``: what it became.
    """
    export, constants, functions = image.exports[0], len(image.segments), len(image.functions)
    counts = (("function", functions), ("import", len(image.imports)), ("export", len(image.exports)))
    found = [_request((name, 1)) for name in ("file", "session", "device", "scratch", "library", "vm_module")]
    found += [_request(("pointer", constants)), *[_request(("buffer", 1))] * constants]
    found += [_request(*((f"source_{name}", count) for name, count in counts)), *map(_request, counts)]
    found += [_request(("int64", image.int_globals)), _request(("pointer", image.ref_globals))]
    found += [_request(("byte", len(f.code) // 8 + 1)) for f in image.functions]  # while it is verified
    for spec in export.inputs:
        found += [_request(("buffer", 1)), _view(len(spec.dims))]
    found.append(_request(("pointer", len(export.inputs) + len(export.outputs))))
    return [*found, _stack(program, image)]


def copies(op: ir.Operation) -> int:
    """How many of the objects that an operation makes are alive at the same time."""
    return 1 + len(carriers(op.results[0]))


def _of_operation(op: ir.Operation) -> Iterator[Request]:
    if op.name == "hal.cmd_create":
        yield from (dataclasses.replace(r, copies=copies(op)) for r in _commands(op))
    elif op.name in ("hal.buffer_transient", "hal.buffer_allocate"):
        yield _buffer(_size_of(op), copies(op))
    elif op.name == "hal.buffer_subspan":
        yield _request(("buffer", 1), copies=copies(op))
    elif op.name == "hal.view_create":
        yield _view(len(op.operands) - 2, copies(op))


def _request(*parts: tuple[str, int], copies: int = 1) -> Request:
    return Request(parts, copies=copies)


def _buffer(length: int, copies: int = 1) -> Request:
    return Request((("buffer", 1), ("byte", _BUFFER_ALIGNMENT - 1 + length)), "word", copies=copies)


def _view(rank: int, copies: int = 1) -> Request:
    return Request((("view", 1), ("int64", rank)), "word", copies=copies)


def _commands(create: ir.Operation) -> Iterator[Request]:
    """A command buffer, with the arrays that it outgrows while it is recorded."""
    yield _request(("commands", 1), ("slot", literal(create.operands[1])))
    users = _recorded(create)
    added = {
        "command": [1 for op in users if op.name in _RECORDED],
        "binding": [1 for op in users for _ in range(_BINDINGS.get(op.name, 0))],
        "int64": [len(op.operands) - 1 for op in users if op.name == "hal.cmd_constants"],
    }
    for structure, appended in added.items():
        yield from (_request((structure, capacity)) for capacity in _capacities(appended))


def _capacities(appended: Sequence[int]) -> Iterator[int]:
    """Those of an array to which so many elements are appended one after the other."""
    capacity = count = 0
    for more in appended:
        if more > capacity - count:
            capacity = max(2 * capacity or _FIRST_CAPACITY, count + more)
            yield capacity
        count += more


def _scratch(create: ir.Operation, kernels: Sequence[CpuKernel]) -> Request:
    """The kernels' own memory, and the addresses of all bindings."""
    users = _recorded(create)
    ran = [kernels[literal(op.operands[1])] for op in users if op.name == "hal.cmd_dispatch"]
    local = max((k.local_memory_size for k in ran), default=0)
    bindings = sum(_BINDINGS.get(op.name, 0) for op in users)
    size = _round_up(local, _BUFFER_ALIGNMENT) + 1
    return Request((("byte", size), ("pointer", bindings)), _BUFFER_ALIGNMENT, unit=_BUFFER_ALIGNMENT)


def _stack(program: Program, image: Image) -> Request:
    """Frames, and the registers of a function with room for what one call passes to and gets from the runtime."""
    ints = refs = 0
    for number, function in enumerate(program.module.body.operations):
        calls = [op for op in _operations_of(function.operation) if op.name == "vm.call"]
        passed = [[*op.operands, *op.results] for op in calls]
        ref_counts = [sum(isinstance(v.type, vm.RefType) for v in values) for values in passed]
        int_counts = [len(values) - count for values, count in zip(passed, ref_counts, strict=True)]
        ints = max(ints, image.functions[number].int_registers + max(int_counts, default=0))
        refs = max(refs, image.functions[number].ref_registers + max(ref_counts, default=0))
    return Request((("frames", 1), ("int64", ints), ("pointer", refs)), "word", unit=8)


def _recorded(create: ir.Operation) -> list[ir.Operation]:
    """The operations that record into a command buffer, in order."""
    operations = [view.operation for view in create.block.operations]
    return [op for op in operations if op.name.startswith("hal.cmd_") and op.operands[0] == create.results[0]]


def _copied_outputs(main: ir.Operation) -> Iterator[Request]:
    """The session copies outputs when one may be a constant, an input or another output's memory."""
    if _shares_outputs(main):
        for attribute in ir.ArrayAttr(main.attributes["res_attrs"]):
            spec = ir.DictAttr(attribute)
            dims = [int(ir.StringAttr(d).value) for d in ir.ArrayAttr(spec[DIMS])]
            yield _buffer(math.prod(dims) * dtypes.by_name[ir.StringAttr(spec[DTYPE]).value].bits // 8)
            yield _view(len(dims))


def _shares_outputs(main: ir.Operation) -> bool:
    makers: list[ir.Value] = []
    for operation in _operations_of(main):
        if operation.name != "func.return":
            continue
        for view in operation.operands:
            made = defining(view, "hal.view_create")
            buffer = defining(made.operands[0], "hal.buffer_allocate") if made else None
            if buffer is None or buffer.results[0] in makers:
                return True
            makers.append(buffer.results[0])
    return False


def _operations_of(function: ir.Operation) -> list[ir.Operation]:
    return [view.operation for block in function.regions[0].blocks for view in block.operations]


def _size_of(op: ir.Operation) -> int:
    size = int_constant(op.operands[1])
    if size is None:
        raise CompileError("the size of a buffer depends on the data, which needs memory that is not static")
    return size


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
