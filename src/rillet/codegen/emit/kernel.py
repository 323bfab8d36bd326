"""The kernel being built: its two functions, the kernel's values inside them, loops and scratch memory.

A kernel module holds ``@NAME__body(bindings, scalars, workgroup x, y, z, scratch) -> i32`` and ``@NAME__grid(scalars)
-> (index, index, index)``. ``cpu.object_code.llvm`` wraps them in the C ABI of docs/reference/kernel-abi.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, func, memref, scf

from rillet.codegen import index
from rillet.codegen.emit.extents import KernelSizes
from rillet.codegen.emit.memory import Buffer, reshape_memref
from rillet.codegen.emit.storage import storage_type, stored_constant
from rillet.codegen.index import Index
from rillet.codegen.knobs import Choice
from rillet.codegen.recognize.kernel_function import KernelFunction, Port
from rillet.errors import CompileError
from rillet.ir.dtypes import storage_bytes
from rillet.ir.rewrite import create_like, defining
from rillet.ir.structured import DYNAMIC
from rillet.targets import Target

_ALIGNMENT = 64

STATUS_INDEX_OUT_OF_BOUNDS = 1


@dataclass
class Loop:
    """An open loop: ``iv`` is the induction variable, ``carried`` the values carried into this iteration."""

    iv: ir.Value
    carried: list[ir.Value]
    results: list[ir.Value]  # after the loop: the carried values of the last iteration
    _yielded: list[ir.Value] | None = None

    def yield_(self, *values: ir.Value) -> None:
        """Give the carried values of the next iteration."""
        self._yielded = list(values)


class KernelBuilder:
    """Builds one kernel for one target.

    A strategy calls ``grid(...)`` once and then emits inside ``with kernel.body():``. Ops go to the current insertion
    point.
    """

    def __init__(self, function: KernelFunction, target: Target, *, vector_bits: int, scratch_limit: int):
        """``vector_bits``: the width of the target's vectors, 0 when it has none; ``scratch_limit``: bytes of scratch
        that a kernel may ask for. ``target`` is kept for the strategies."""
        self.function = function
        self.target = target
        self.vector_bits = vector_bits
        self._scratch_limit = scratch_limit
        self.local_memory_size = 0
        self.static_grid: tuple[int, int, int] | None = None  # the workgroup grid, when it does not depend on scalars
        self.choice: Choice | None = None  # the strategy's decision, if tuning may overrule it
        self.module = ir.Module.create(ir.Location.unknown())
        self.tiles: Mapping[ir.Value, Buffer] = {}  # memory of a stage's arguments and results that no binding holds
        self.streaming: frozenset[int] = frozenset()  # bindings that are written past the caches (cpu.caches.streaming)
        self._scalars: dict[ir.Value, ir.Value] = {}  # the scalars of the function being built
        self._has_status = False
        self._runs = 0
        self._make_body()
        self._make_grid()

    # --- the two functions -------------------------------------------------------------------------------------------

    def grid(self, extents: Callable[[], Sequence[Index]]) -> None:
        """Set the workgroup grid: ``extents`` is called where only scalars are available and returns up to three
        counts.

        Inside it ``kernel.extents(value)`` and ``kernel.scalar(value)`` work as they do in the body.
        """
        saved, self._scalars = self._scalars, self._grid_scalars
        with ir.InsertionPoint(self._grid_block):
            counts = list(extents())
            counts += [1] * (3 - len(counts))
            if any(op.name == "tensor.pad" for op in self.function.ops):
                counts = [index.maximum(c, 1) for c in counts]  # the padding of an empty tensor is still written
            if all(isinstance(c, int) for c in counts):
                self.static_grid = (counts[0], counts[1], counts[2])
            func.ReturnOp([index.value(c) for c in counts])
        self._scalars = saved
        self._has_grid = True

    @contextmanager
    def body(self) -> Iterator[None]:
        """Emit the workgroup's code inside this context."""
        with ir.InsertionPoint(self._body_block):
            self._status = memref.AllocaOp(ir.MemRefType.get([], _i32()), [], []).result
            memref.StoreOp(arith.ConstantOp(_i32(), 0).result, self._status, [])
            for port in (*self.function.arguments, *self.function.results):
                self._bind(port)
            yield
            func.ReturnOp([memref.LoadOp(self._status, []).result])

    @contextmanager
    def stage(self, function: KernelFunction, tiles: Mapping[ir.Value, Buffer]) -> Iterator[None]:
        """Emit one stage of the kernel inside this context as if it were the whole kernel. ``tiles``: the memory of its
        arguments and results that no binding holds."""
        saved = self.function, self.tiles
        self.function, self.tiles = function, tiles
        yield
        self.function, self.tiles = saved

    def buffer(self, port: Port) -> Buffer:
        """Where an argument or result of the kernel lies (body only)."""
        if port.value in self.tiles:
            return self.tiles[port.value]
        streaming = port.binding in self.streaming
        return Buffer.whole(self._memrefs[port.binding], port.type.element_type, streaming=streaming)

    def workgroup(self, axis: int) -> ir.Value:
        """This workgroup's position on grid axis 0, 1 or 2, as ``index``."""
        return self._workgroup[axis]

    def fail_if(self, condition: ir.Value, code: int = STATUS_INDEX_OUT_OF_BOUNDS) -> None:
        """Make the kernel return ``code`` when ``condition`` (i1) holds. Execution goes on, so accesses must be made
        safe."""
        branch = scf.IfOp(condition)
        with ir.InsertionPoint(branch.then_block):
            memref.StoreOp(arith.ConstantOp(_i32(), code).result, self._status, [])
            scf.YieldOp([])

    def finish(self) -> ir.Module:
        """Fix the signature and return the verified kernel module."""
        if not self._has_grid:
            self.grid(lambda: [])
        scratch = self._body_block.arguments[len(self._body_block.arguments) - 1]
        scratch.set_type(ir.MemRefType.get([max(self.local_memory_size, 1)], _i8()))
        types = [a.type for a in self._body_block.arguments]
        self._body.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [_i32()]))
        self.module.operation.verify()
        return self.module

    # --- values of the kernel ----------------------------------------------------------------------------------------

    def argument(self, number: int) -> ir.Value:
        """The memref of tensor argument ``number`` with the storage type (body only). In a stage the argument may be a
        tile: see ``buffer``."""
        return self.buffer(self.function.arguments[number]).memref

    def result(self, number: int) -> ir.Value:
        """The memref of result ``number`` with the storage type (body only)."""
        return self.buffer(self.function.results[number]).memref

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar of the kernel's function (argument, or computed from arguments) as a value of the function
        being built."""
        if value in self._scalars:
            return self._scalars[value]
        operation = defining(value)
        if operation is None:
            raise CompileError(f"kernel @{self.function.name}: a scalar does not come from the function's arguments")
        operands = [self.scalar(o) for o in operation.operands]
        clone = create_like(operation, operands)
        return clone.results[ir.OpResult(value).result_number]

    def extents(self, value: ir.Value) -> list[Index]:
        """The extents of a tensor of the kernel: ``int`` where static, ``index`` values where dynamic."""
        sizes = KernelSizes(self)
        return [sizes.extent(value, axis) for axis in range(ir.RankedTensorType(value.type).rank)]

    def dims(self, value: ir.Value) -> list[Index] | None:
        """The extents of an argument or result of the kernel; None for any other tensor."""
        port = self._ports.get(value)
        return None if port is None else self._port_extents(port)

    # --- loops and memory --------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, lower: Index, upper: Index, step: Index = 1, carried: Sequence[ir.Value] = ()) -> Iterator[Loop]:
        """``for iv in lower..upper step``. With ``carried`` the body must call ``loop.yield_``; then read
        ``loop.results``."""
        op = scf.ForOp(index.value(lower), index.value(upper), index.value(step), list(carried))
        loop = Loop(op.induction_variable, list(op.inner_iter_args), list(op.results))
        with ir.InsertionPoint(op.body):
            yield loop
            scf.YieldOp(loop._yielded if loop._yielded is not None else [])

    @contextmanager
    def when(self, condition: ir.Value) -> Iterator[None]:
        """``if condition`` without results."""
        op = scf.IfOp(condition)
        with ir.InsertionPoint(op.then_block):
            yield
            scf.YieldOp([])

    def switch(self, value: ir.Value, cases: Mapping[int, Callable[[], None]]) -> None:
        """Runs the case of ``value``, which is one of them."""
        *numbers, last = cases

        def default(_: ir.OpView) -> None:
            cases[last]()
            scf.YieldOp([])

        def case(_: ir.OpView, __: int, number: int) -> None:
            cases[number]()
            scf.YieldOp([])

        scf.IndexSwitchOp([], value, numbers, case, default)

    def select(
        self, condition: ir.Value | bool, values: Callable[[], Sequence[ir.Value]], otherwise: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The value of ``values()`` where ``condition`` holds, computed only there; else ``otherwise``."""
        if isinstance(condition, bool):
            return list(values() if condition else otherwise)
        op = scf.IfOp(condition, [v.type for v in otherwise], has_else=True)
        with ir.InsertionPoint(op.then_block):
            scf.YieldOp(list(values()))
        with ir.InsertionPoint(op.else_block):
            scf.YieldOp(list(otherwise))
        return list(op.results)

    def local(self, shape: Sequence[int], element: ir.Type) -> ir.Value:
        """A memref of ``shape`` x storage of ``element`` in this worker's scratch, 64-byte aligned, contents undefined.

        Raises ``CompileError`` when the kernel's scratch would pass its limit.
        """
        return self.local_at(self.reserve(shape, element), shape, element)

    def reserve(self, shape: Sequence[int], element: ir.Type) -> int:
        """Reserve scratch without viewing it yet; returns its byte offset, for ``local_at``."""
        size = math.prod(shape) * storage_bytes(element)
        offset = -(-self.local_memory_size // _ALIGNMENT) * _ALIGNMENT
        if offset + size > self._scratch_limit:
            raise CompileError(
                f"kernel @{self.function.name}: an intermediate of {size} bytes does not fit the scratch memory "
                f"of a kernel ({self._scratch_limit} bytes)"
            )
        self.local_memory_size = offset + size
        return offset

    def local_at(self, offset: int, shape: Sequence[int], element: ir.Type) -> ir.Value:
        """View reserved scratch at the current insertion point."""
        scratch = self._body_block.arguments[len(self._body_block.arguments) - 1]
        type_ = ir.MemRefType.get(shape, storage_type(element))
        return memref.ViewOp(type_, scratch, index.value(offset), []).result

    def constant_run(self, length: int, element: ir.Type, value: ir.Attribute) -> ir.Value:
        """Read-only memory of ``length`` elements equal to ``value``, at the current insertion point (body only).

        ``element`` is the elements' storage type.
        """
        tensor = ir.RankedTensorType.get([length], element)
        return self._constants(ir.DenseElementsAttr.get_splat(tensor, stored_constant(value, element)))

    def constant_table(self, values: np.ndarray) -> ir.Value:
        """Read-only memory with these numbers (float32 or float64, one axis), at the current insertion point (body
        only)."""
        return self._constants(ir.DenseElementsAttr.get(values))

    # --- internals ---------------------------------------------------------------------------------------------------

    def _constants(self, values: ir.DenseElementsAttr) -> ir.Value:
        tensor = ir.RankedTensorType(values.type)
        type_ = ir.MemRefType.get(tensor.shape, tensor.element_type)
        name = f"{self.function.name}__run{self._runs}"
        self._runs += 1
        with ir.InsertionPoint.at_block_begin(self.module.body):
            memref.GlobalOp(name, type_, initial_value=values, constant=True, sym_visibility="private")
        return memref.GetGlobalOp(type_, name).result

    def _make_body(self) -> None:
        ports = (*self.function.arguments, *self.function.results)
        self._ports = {port.value: port for port in (*self.function.results, *self.function.arguments)}
        memrefs = [ir.MemRefType.get([1], storage_type(p.type.element_type)) for p in ports]
        scalars = [s.type for s in self.function.scalars]
        i = ir.IndexType.get()
        types = [*memrefs, *scalars, i, i, i, ir.MemRefType.get([1], _i8())]
        with ir.InsertionPoint(self.module.body):
            self._body = func.FuncOp(f"{self.function.name}__body", ir.FunctionType.get(types, [_i32()])).operation
        self._body_block = ir.Block.create_at_start(self._body.regions[0], types)
        self._body.attributes["arg_attrs"] = ir.ArrayAttr.get([self._argument_attributes(n) for n in range(len(types))])
        first = len(ports)
        arguments = list(self._body_block.arguments)
        self._scalars = dict(zip(self.function.scalars, arguments[first : first + len(scalars)], strict=True))
        self._workgroup = arguments[first + len(scalars) : first + len(scalars) + 3]
        self._memrefs: dict[int, ir.Value] = {}

    def _argument_attributes(self, number: int) -> ir.DictAttr:
        """``noalias`` for each binding that shares no memory with another one that is written."""
        bindings = self.function.binding_count
        first_result = len(self.function.arguments)
        aliased = {n for r, a in self.function.may_alias for n in (first_result + r, a)}
        is_scratch = number == bindings + len(self.function.scalars) + 3
        if is_scratch or (number < bindings and number not in aliased):
            return ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
        return ir.DictAttr.get({})

    def _make_grid(self) -> None:
        types = [s.type for s in self.function.scalars]
        i = ir.IndexType.get()
        with ir.InsertionPoint(self.module.body):
            grid = func.FuncOp(f"{self.function.name}__grid", ir.FunctionType.get(types, [i, i, i])).operation
        self._grid_block = ir.Block.create_at_start(grid.regions[0], types)
        self._grid_scalars = dict(zip(self.function.scalars, self._grid_block.arguments, strict=True))
        self._has_grid = False

    def _bind(self, port: Port) -> None:
        base = self._body_block.arguments[port.binding]
        self._memrefs[port.binding] = reshape_memref(base, self._port_extents(port))

    def _port_extents(self, port: Port) -> list[Index]:
        dims = iter(port.dims)
        return [e if e != DYNAMIC else self.scalar(next(dims)) for e in port.type.shape]


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _i8() -> ir.Type:
    return ir.IntegerType.get_signless(8)
