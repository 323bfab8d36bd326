"""Device loops and any other legal function: upstream bufferization and scalar loops, in one workgroup.

Results are built in place: the tensor a result starts from (an empty one, or a copy of an argument) is the result's
own memory. Intermediates of static size live in scratch.
"""

from __future__ import annotations

from dataclasses import replace

from torch_mlir import ir, passmanager
from torch_mlir.dialects import arith, bufferization, builtin, tensor

from rillet.codegen import index
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.emit.values import constant
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.errors import CompileError
from rillet.ir import builders
from rillet.ir.builders import copy_into
from rillet.ir.extents import extents, margins, padding_value
from rillet.ir.rewrite import defining, int_constant, is_defined_by, remap
from rillet.ir.structured import DYNAMIC, IN_BOUNDS, structured

_BUFFERIZE = (
    "canonicalize",
    "cse",
    "one-shot-bufferize{allow-unknown-ops=1}",
    "canonicalize",
    "cse",
)
_LOOPS = ("convert-linalg-to-loops", "canonicalize", "cse")


class FallbackStrategy:
    """See the module's docstring."""

    name = "fallback"
    vectorize_loops = True
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> KernelFunction | None:
        """The kernel itself: there is nothing to decide."""
        return function

    def emit(self, plan: KernelFunction, kernel: KernelBuilder) -> None:
        """Emit the kernel."""
        function = plan
        _separate_starts(function)
        _update_in_place(function)
        _pad_in_place(function)
        kernel.grid(lambda: [])
        with kernel.body():
            _clone(function, kernel)
        module = kernel.finish()
        _run(module, _BUFFERIZE, function)
        _place_allocations(module, kernel, function)
        kernel.finish()
        _run(module, _LOOPS, function)


def _separate_starts(function: KernelFunction) -> None:
    """Gives each tensor that is written an initial tensor of its own again; equal ones (empty, or zero) were merged."""
    taken: set[ir.Value] = set()
    for op in function.ops:
        for number, value in _written(op):
            if not isinstance(value.type, ir.RankedTensorType) or isinstance(value.owner, ir.Block):
                continue
            if value in taken and value.owner.operation.name in ("linalg.fill", "tensor.empty"):
                with ir.InsertionPoint(op):
                    op.operands[number] = _made_again(value)
            taken.add(value)
    function.ops = tuple(op.operation for op in function.block.operations)[:-1]


def _update_in_place(function: KernelFunction) -> None:
    """Elementwise results take the memory of an operand that is read for the last time, at the same element."""
    for op in function.ops:
        view = structured(op)
        if view is None or len(view.results) != 1 or not view.is_parallel or not _is_empty(view.inits[0]):
            continue
        for value, map_ in zip(view.inputs, view.input_maps, strict=True):
            made_here = is_defined_by(value, "linalg.generic")
            last = len(list(value.uses)) == 1 and value.type == view.results[0].type and map_ == view.init_maps[0]
            if made_here and last:
                op.operands[len(op.operands) - 1] = value
                break


def _pad_in_place(function: KernelFunction) -> None:
    """Computes a padded tensor's source in the middle of the padded tensor, so that it needs no memory of its own."""
    for op in function.ops:
        if op.name != "tensor.pad":
            continue
        source, start = op.operands[0], _start(op.operands[0])
        known = [padding_value(op), *list(op.operands)[1:]]
        if _is_empty(start) and all(len(list(v.uses)) == 1 for v in (source, start)) and all(map(_is_given, known)):
            padded = _compute_inside(op, source, start)
            function.results = tuple(
                replace(p, value=padded) if p.value == op.results[0] else p for p in function.results
            )
            op.erase()
    function.ops = tuple(op.operation for op in function.block.operations)[:-1]


def _is_given(value: ir.Value) -> bool:
    """Whether a scalar is an argument or a constant, and so available anywhere."""
    return isinstance(value.owner, ir.Block) or is_defined_by(value, "arith.constant")


def _compute_inside(pad: ir.Operation, source: ir.Value, start: ir.Value) -> ir.Value:
    """Make the empty tensor ``start``, which ``source`` is built in, a slice of the tensor that replaces the pad."""
    empty = start.owner.operation
    with ir.InsertionPoint(empty), pad.location:
        sizes, (low, high) = extents(start), margins(pad)
        around = padding_value(pad)
        if not isinstance(around.owner, ir.Block):
            around = around.owner.operation.clone().operation.results[0]
        shape = ir.RankedTensorType(pad.results[0].type).shape
        summed = [index.add(index.add(n, before), after) for n, before, after in zip(sizes, low, high, strict=True)]
        filled = builders.fill(around, [s if n == DYNAMIC else n for n, s in zip(shape, summed, strict=True)])
        steps = [1] * len(sizes)
        start.replace_all_uses_with(builders.extract_slice(filled, low, sizes, steps))
    with ir.InsertionPoint(pad), pad.location:
        padded = builders.insert_slice(source, filled, low, sizes, steps)
    pad.results[0].replace_all_uses_with(padded)
    empty.erase()
    return padded


def _written(op: ir.Operation) -> list[tuple[int, ir.Value]]:
    """The operands, by number, whose memory an op writes its results to."""
    first, end = 0, 0
    if op.name == "scf.for":
        first, end = 3, len(op.operands)
    elif op.name in ("tensor.insert", "tensor.insert_slice"):
        first, end = 1, 2
    elif op.name in ("linalg.fill", "linalg.generic"):
        first, end = len(op.operands) - len(op.results), len(op.operands)
    return list(enumerate(op.operands))[first:end]


def _made_again(value: ir.Value) -> ir.Value:
    """A copy of the op that makes a tensor from no other tensor, at the insertion point."""
    owner = value.owner.operation
    clone = owner.clone().operation
    if owner.name == "linalg.fill":
        clone.operands[1] = _made_again(owner.operands[1])
        clone.move_after(clone.operands[1].owner.operation)
    return clone.results[0]


def _run(module: ir.Module, passes: tuple[str, ...], function: KernelFunction) -> None:
    try:
        passmanager.PassManager.parse(f"builtin.module({','.join(passes)})", module.context).run(module.operation)
    except ir.MLIRError as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else "unknown"
        raise CompileError(
            f"kernel @{function.name}: its loops cannot be turned into memory accesses: {reason}"
        ) from error


def _clone(function: KernelFunction, kernel: KernelBuilder) -> None:
    """Copy the function's ops into the kernel; they read arguments from the bindings and write results to them."""
    mapping: dict[ir.Value, ir.Value] = {s: kernel.scalar(s) for s in function.scalars}
    for number, port in enumerate(function.arguments):
        mapping[port.value] = _as_tensor(kernel.argument(number), port.type, writable=False)
    starts: dict[ir.Value, ir.Value] = {}
    for number, port in enumerate(function.results):
        place = _as_tensor(kernel.result(number), port.type, writable=True)
        start = _start(port.value)
        if start in starts or not _is_empty(start):
            continue
        starts[start] = place
    mapping.update(starts)
    for op in function.ops:
        if op.results and op.results[0] in starts:
            continue
        _clone_op(op, mapping, function, kernel)
    for number, port in enumerate(function.results):
        destination = _memref_as(kernel.result(number), port.type)
        bufferization.MaterializeInDestinationOp(None, mapping[port.value], destination, restrict=True, writable=True)


def _clone_op(
    op: ir.Operation, mapping: dict[ir.Value, ir.Value], function: KernelFunction, kernel: KernelBuilder
) -> None:
    """Copy one op. Where a loop (or an insertion) starts from an argument and becomes a result, give it the result's
    memory, which holds a copy of the argument (a tied result holds it already)."""
    own: dict[ir.Value, ir.Value] = {}
    for number, port in enumerate(function.results):
        start = _start(port.value)
        if start not in list(op.operands) or not _leads_to(op, start, port.value):
            continue
        place = _as_tensor(kernel.result(number), port.type, writable=True)
        own[start] = place if number in function.tied else copy_into(mapping[start], place)
    clone = op.clone().operation
    remap(clone, mapping | own)
    _check_accesses(clone, kernel)
    mapping.update(zip(op.results, clone.results, strict=True))


def _start(value: ir.Value) -> ir.Value:
    """The tensor that ``value`` is built from in place: the loops' and insertions' initial value."""
    while (op := defining(value)) is not None:
        number = ir.OpResult(value).result_number
        if op.name == "scf.for":
            value = op.operands[3 + number]
        elif op.name == "scf.while":
            value = op.operands[number]
        elif op.name in ("tensor.insert", "tensor.insert_slice"):
            value = op.operands[1]
        elif op.name in ("linalg.fill", "linalg.generic"):
            value = list(op.operands)[len(op.operands) - len(op.results) + number]
        else:
            return value
    return value


def _leads_to(op: ir.Operation, start: ir.Value, result: ir.Value) -> bool:
    """True when ``op`` is the first of the chain that builds ``result`` in place from ``start``."""
    return any(_start(r) == start for r in op.results) and _start(result) == start and not _is_empty(start)


def _is_empty(value: ir.Value) -> bool:
    return is_defined_by(value, "tensor.empty")


def _as_tensor(memref_: ir.Value, type_: ir.RankedTensorType, *, writable: bool) -> ir.Value:
    return bufferization.ToTensorOp(type_, _memref_as(memref_, type_), restrict=True, writable=writable).result


def _memref_as(memref_: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The memref with the tensor's element type instead of the storage type. Both lower to the same descriptor, and
    LLVM gives an element narrower than a byte one byte."""
    current = ir.MemRefType(memref_.type)
    if current.element_type == type_.element_type:
        return memref_
    target = ir.MemRefType.get(current.shape, type_.element_type)
    return builtin.unrealized_conversion_cast([target], [memref_])


def _check_accesses(op: ir.Operation, kernel: KernelBuilder) -> None:
    """Guard indices of ``tensor.extract`` and ``tensor.insert`` that may be out of range: then the kernel fails."""
    for region in op.regions:
        for block in region.blocks:
            for nested in list(block.operations):
                _check_accesses(nested.operation, kernel)
    first = {"tensor.extract": 1, "tensor.insert": 2}.get(op.name)
    if first is None or IN_BOUNDS in op.attributes:
        return
    source = op.operands[first - 1]
    with ir.InsertionPoint(op):
        for axis, position in enumerate(list(op.operands)[first:]):
            if _is_below(position, ir.RankedTensorType(source.type).shape[axis]):
                continue
            extent = tensor.DimOp(source, index.value(axis)).result
            inside = arith.CmpIOp(arith.CmpIPredicate.ult, position, extent).result
            kernel.fail_if(arith.XOrIOp(inside, constant(1, inside.type)).result)
            op.operands[first + axis] = arith.SelectOp(inside, position, index.value(0)).result


def _is_below(position: ir.Value, extent: int) -> bool:
    """Whether an index is a constant, or counts a loop of static bounds, below the static ``extent``."""
    static = extent != DYNAMIC
    if not isinstance(position.owner, ir.Block):
        known = int_constant(position)
        return static and known is not None and 0 <= known < extent
    loop = position.owner.owner.operation
    if loop.name != "scf.for" or ir.BlockArgument(position).arg_number != 0:
        return False
    low, high = (int_constant(v) for v in list(loop.operands)[:2])
    return static and low is not None and high is not None and low >= 0 and high <= extent


def _place_allocations(module: ir.Module, kernel: KernelBuilder, function: KernelFunction) -> None:
    """Turn every ``memref.alloc`` into scratch and every ``memref.copy`` into a loop."""
    for op in _operations(module.operation, ("memref.alloc", "memref.alloca", "memref.copy")):
        if op.name == "memref.alloca":
            continue
        with ir.InsertionPoint(op), op.location:
            if op.name == "memref.copy":
                copy_into(op.operands[0], op.operands[1])
                op.erase()
                continue
            type_ = ir.MemRefType(op.results[0].type)
            if not type_.has_static_shape:
                raise CompileError(
                    f"kernel @{function.name}: an intermediate whose size is only known at run time "
                    "must be a kernel of its own"
                )
            local = kernel.local(list(type_.shape), type_.element_type)
            same = _memref_as(local, ir.RankedTensorType.get(type_.shape, type_.element_type))
            op.results[0].replace_all_uses_with(same)
            op.erase()


def _operations(op: ir.Operation, names: tuple[str, ...]) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for nested in block.operations:
                found += _operations(nested.operation, names)
                if nested.operation.name in names:
                    found.append(nested.operation)
    return found
