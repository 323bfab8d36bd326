"""stream → hal: regions become command buffers, resources become buffers.

A region whose sizes, offsets and constants are all known is recorded once, in ``@__init``, into a module global. Each
call replays it with its own binding table. Any other region is recorded where it runs. Regions without fences are
executed; regions with fences are queued on their device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rillet.dialects import flow, hal, stream
from rillet.hal import record
from rillet.hal.build import Builder
from rillet.ir import Program


@dataclass(frozen=True)
class Options:
    """``record_once``: replay static regions; without it every region is recorded at each call."""

    record_once: bool = True


def run(program: Program, options: Options) -> None:
    """Replace the stream form by ``@__init`` and ``@main`` in the hal dialect; the kernels leave the module."""
    with program.context, ir.Location.unknown():
        module = program.module
        for op in list(module.body.operations):
            if op.operation.name == "builtin.module":
                op.operation.erase()
        main = program.main()
        _Converter(module, main, options).convert()
        main.erase()


class _Converter:
    def __init__(self, module: ir.Module, main: ir.Operation, options: Options) -> None:
        self.module, self.main, self.options = module, main, options
        self.values: dict[ir.Value, ir.Value] = {}
        self.build = Builder()
        self.globals = 0
        self.dispatches = 0
        entries = [list(names) for names in ir.ArrayAttr(module.operation.attributes["stream.entries"])]
        self.entries = [
            {ir.StringAttr(name).value: i for i, name in enumerate(entries[device.kernels])}
            for device in flow.devices(module)
        ]
        self.types = {
            stream.ResourceType.get(): hal.BufferType.get(),
            stream.ViewType.get(): hal.ViewType.get(),
            stream.FenceType.get(): hal.FenceType.get(),
        }
        self.segments: dict[int, int] = {}
        self.messages: dict[str, int] = {}
        self.handlers = {
            "stream.view_check": self._view_check,
            "stream.view_dim": self._view_dim,
            "stream.check_dim": self._check_dim,
            "stream.assert": self._assert,
            "stream.check_size": self._check_size,
            "stream.import_view": self._import,
            "stream.export_view": self._export,
            "stream.segment": self._segment,
            "stream.alloc": self._alloc,
            "stream.subview": self._subview,
            "stream.load": self._load,
            "stream.execute": self._execute,
            "stream.transfer": self._transfer,
            "stream.await": self._await,
        }

    def convert(self) -> None:
        with ir.InsertionPoint(self.main):
            init = self._function("__init", ir.FunctionType.get([], []))
            type_ = ir.FunctionType(ir.TypeAttr(self.main.attributes["function_type"]).value)
            new_type = ir.FunctionType.get(
                [self._type(t) for t in type_.inputs], [self._type(t) for t in type_.results]
            )
            new = self._function("main", new_type)
        for name in ("arg_attrs", "res_attrs"):
            new.attributes[name] = self.main.attributes[name]
        self.init = init.regions[0].blocks.append()
        block = new.regions[0].blocks.append(*new_type.inputs)
        old = self.main.regions[0].blocks[0]
        self.values.update(zip(old.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            self._block(old)
        with ir.InsertionPoint(self.init):
            ir.Operation.create("func.return")
        if self.globals == 0:
            init.erase()
        attributes = self.module.operation.attributes
        attributes["hal.ref_globals"] = self.build.i64_attr(self.globals)
        attributes["hal.dispatch_count"] = self.build.i64_attr(self.dispatches)
        attributes["hal.messages"] = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in self.messages])

    def _function(self, name: str, type_: ir.FunctionType) -> ir.Operation:
        attributes = {"sym_name": ir.StringAttr.get(name), "function_type": ir.TypeAttr.get(type_)}
        return ir.Operation.create("func.func", attributes=attributes, regions=1)

    def _type(self, type_: ir.Type) -> ir.Type:
        return self.types.get(type_, type_)

    def _block(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            with op.location:
                self.handlers.get(op.name, self._keep)(op)

    def _keep(self, op: ir.Operation) -> None:
        """Host arithmetic and control flow, with the types of buffers changed."""
        new = ir.Operation.create(
            op.name,
            results=[self._type(v.type) for v in op.results],
            operands=[self.values[v] for v in op.operands],
            attributes={op.attributes[i].name: op.attributes[i].attr for i in range(len(op.attributes))},
            regions=len(op.regions),
        )
        for old_region, new_region in zip(op.regions, new.regions, strict=True):
            for old_block in old_region.blocks:
                types = [self._type(a.type) for a in old_block.arguments]
                block = new_region.blocks.append(*types, arg_locs=[op.location] * len(types))
                self.values.update(zip(old_block.arguments, block.arguments, strict=True))
                with ir.InsertionPoint(block):
                    self._block(old_block)
        self.values.update(zip(op.results, new.results, strict=True))

    def _operands(self, op: ir.Operation) -> list[ir.Value]:
        return [self.values[v] for v in op.operands]

    def _integer(self, op: ir.Operation, name: str) -> ir.Value:
        return self.build.i64(ir.IntegerAttr(op.attributes[name]).value)

    def _view_check(self, op: ir.Operation) -> None:
        dims = list(ir.DenseI64ArrayAttr(op.attributes["dims"]))
        hal.ViewCheckOp(
            self.values[op.operands[0]],
            self._integer(op, "argument"),
            self._integer(op, "dtype"),
            self.build.i64(len(dims)),
            [self.build.i64(d) for d in dims],
        )

    def _view_dim(self, op: ir.Operation) -> None:
        new = hal.ViewDimOp(ir.IndexType.get(), self.values[op.operands[0]], self._integer(op, "axis"))
        self._replace(op, new)

    def _check_dim(self, op: ir.Operation) -> None:
        hal.CheckDimOp(self._integer(op, "argument"), self._integer(op, "axis"), *self._operands(op))

    def _assert(self, op: ir.Operation) -> None:
        condition, actual, expected = self._operands(op)
        hal.CheckAssertOp(condition, self._message(op), actual, expected)

    def _check_size(self, op: ir.Operation) -> None:
        hal.CheckSizeOp(self._message(op), self._integer(op, "factor"), self._operands(op))

    def _message(self, op: ir.Operation) -> ir.Value:
        """The ordinal of the message of a check."""
        text = ir.StringAttr(op.attributes["message"]).value
        return self.build.i64(self.messages.setdefault(text, len(self.messages)))

    def _import(self, op: ir.Operation) -> None:
        self._replace(op, hal.ViewBufferOp(hal.BufferType.get(), *self._operands(op)))

    def _export(self, op: ir.Operation) -> None:
        buffer, *dims = self._operands(op)
        self._replace(op, hal.ViewCreateOp(hal.ViewType.get(), buffer, self._integer(op, "dtype"), dims))

    def _segment(self, op: ir.Operation) -> None:
        ordinal = ir.IntegerAttr(op.attributes["ordinal"]).value
        if ordinal not in self.segments:
            with ir.InsertionPoint(self.init):
                buffer = hal.ConstantOp(hal.BufferType.get(), self.build.i64(ordinal))
                if stream.device_of(op):  # a segment for memory of the device's own
                    done = self._fence()
                    buffer = self._move(stream.device_of(op), buffer.operation.results[0], self._join([]), done)
                    hal.FenceAwaitOp(done)
                self.segments[ordinal] = self._store(buffer)
        self._replace(op, self._global(hal.BufferType.get(), self.segments[ordinal]))

    def _alloc(self, op: ir.Operation) -> None:
        external = ir.StringAttr(op.attributes["lifetime"]).value == "external"
        kind = hal.BufferAllocateOp if external else hal.BufferTransientOp
        device = self.build.i64(stream.device_of(op))
        self._replace(op, kind(hal.BufferType.get(), device, *self._operands(op)))

    def _subview(self, op: ir.Operation) -> None:
        self._replace(op, hal.BufferSubspanOp(hal.BufferType.get(), *self._operands(op)))

    def _load(self, op: ir.Operation) -> None:
        buffer, offset = self._operands(op)
        self._replace(op, hal.BufferLoadOp(op.results[0].type, buffer, offset, self._integer(op, "dtype")))

    def _execute(self, op: ir.Operation) -> None:
        region = record.Region.of(op)
        self.dispatches += region.dispatch_count
        entries = self.entries[region.device]
        buffers = [self.values[v] for v in region.slots]
        if self.options.record_once and region.is_static:
            with ir.InsertionPoint(self.init):
                commands = record.record(region, self.build, entries, self.build.copy_constant)
                ordinal = self._store(commands)
            commands = self._global(hal.CommandsType.get(), ordinal)
        else:
            commands = record.record(region, self.build, entries, self.values.__getitem__)
        recorded = commands.operation.results[0]
        if not len(op.results):
            hal.ExecuteOp(recorded, buffers)
            return
        done = self._fence()
        hal.QueueOp(recorded, self._join([self.values[fence] for fence in op.operands]), done, buffers)
        self.values[op.results[0]] = done

    def _transfer(self, op: ir.Operation) -> None:
        source, offset, length, *awaits = self._operands(op)
        part = hal.BufferSubspanOp(hal.BufferType.get(), source, offset, length).operation.results[0]
        done = self._fence()
        moved = self._move(stream.device_of(op), part, self._join(awaits), done)
        self.values.update(zip(op.results, [moved.operation.results[0], done], strict=True))

    def _await(self, op: ir.Operation) -> None:
        for fence in self._operands(op):
            hal.FenceAwaitOp(fence)

    def _fence(self) -> ir.Value:
        return hal.FenceCreateOp(hal.FenceType.get()).operation.results[0]

    def _join(self, fences: Sequence[ir.Value]) -> ir.Value:
        """One fence that is reached when all ``fences`` are."""
        return fences[0] if len(fences) == 1 else hal.FenceJoinOp(hal.FenceType.get(), fences).operation.results[0]

    def _move(self, device: int, source: ir.Value, wait: ir.Value, done: ir.Value) -> ir.OpView:
        return hal.TransferOp(hal.BufferType.get(), self.build.i64(device), source, wait, done)

    def _store(self, value: ir.OpView) -> int:
        ordinal = self.globals
        self.globals += 1
        hal.GlobalStoreOp(value.operation.results[0], self.build.i64_attr(ordinal))
        return ordinal

    def _global(self, type_: ir.Type, ordinal: int) -> ir.OpView:
        return hal.GlobalLoadOp(type_, self.build.i64_attr(ordinal))

    def _replace(self, op: ir.Operation, new: ir.OpView) -> None:
        self.values[op.results[0]] = new.operation.results[0]
