"""flow → stream: a tensor becomes a byte range of a resource, a dispatch a command with explicit destinations.

Each result gets memory of its own here, and an update in place becomes a copy followed by the update; later passes
merge what may share memory. Tensors that pass through control flow travel as a resource and their dynamic extents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.dialects import flow, stream
from rillet.errors import CompileError
from rillet.ir import Program, dtypes
from rillet.ir.attributes import DIMS, DTYPE, NAME
from rillet.ir.builders import i64_attr
from rillet.ir.kernels import called, declarations
from rillet.ir.rewrite import create_like, int_constant
from rillet.schedule import host
from rillet.schedule.carried import carried
from rillet.schedule.checks import Checks
from rillet.schedule.entries import entries


@dataclass(frozen=True)
class Options:
    """``splat_constant_bytes``: splats up to this size are stored in the file, larger ones filled at each call."""

    splat_constant_bytes: int = 64 * 1024


@dataclass
class Range:
    """A tensor value: its resource, byte offset, and one ``index`` value for each dynamic extent.

    ``owned``: the resource was allocated for exactly these bytes in this block.
    """

    type: ir.RankedTensorType
    resource: ir.Value
    offset: ir.Value
    dims: list[ir.Value]
    owned: bool = False

    def length(self) -> ir.Value:
        """The bytes of the tensor, computed at the current insertion point."""
        return host.byte_length(self.type, self.dims)


def run(program: Program, options: Options) -> None:
    """Replace ``@main`` and the declarations of kernels by the stream form of ``@main``."""
    with program.context, ir.Location.unknown():
        main = program.main()
        _Converter(program, options, main).convert()
        host.simplify(program)
        body = program.module.body
        for op in list(body.operations):
            if flow.KERNEL in op.operation.attributes or op.operation.name == "ml_program.global":
                op.operation.erase()


class _Converter:
    def __init__(self, program: Program, options: Options, main: ir.Operation) -> None:
        self.program, self.options, self.main = program, options, main
        self.scalars: dict[ir.Value, ir.Value] = {}
        self.ranges: dict[ir.Value, Range] = {}
        self.views: dict[ir.Value, ir.Value] = {}
        self.checks = Checks()
        self.devices = flow.devices(program.module)
        self.ordinals = {device.name: i for i, device in enumerate(self.devices)}
        self.callees = declarations(program)
        self.handlers: dict[str, Callable[[ir.Operation], None]] = {
            "func.call": self._dispatch,
            "func.return": self._return,
            "flow.reshape": self._reshape,
            "flow.slice": self._slice,
            "flow.load": self._load,
            "flow.splat": self._splat,
            "flow.transfer": self._transfer,
            "tensor.dim": self._dim,
            "cf.assert": self._assert,
            "ml_program.global_load_const": self._constant,
        }

    def convert(self) -> None:
        main = self.main
        self.program.module.operation.attributes["stream.entries"] = entries(self.program)
        function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        view = stream.ViewType.get()
        new_type = ir.FunctionType.get([view] * len(function_type.inputs), [view] * len(function_type.results))
        attributes = {
            "sym_name": main.attributes["sym_name"],
            "function_type": ir.TypeAttr.get(new_type),
            "arg_attrs": _io_attributes(main, "arg_attrs", function_type.inputs),
            "res_attrs": _io_attributes(main, "res_attrs", function_type.results),
        }
        with ir.InsertionPoint(main):
            new = ir.Operation.create("func.func", attributes=attributes, regions=1, loc=main.location)
        block = new.regions[0].blocks.append(*new_type.inputs)
        old_block = main.regions[0].blocks[0]
        with ir.InsertionPoint(block):
            self._arguments(old_block, block, attributes["arg_attrs"])
            self._block(old_block)
        main.erase()

    def _arguments(self, old: ir.Block, new: ir.Block, attributes: ir.ArrayAttr) -> None:
        seen: dict[str, ir.Value] = {}
        for number, (argument, view) in enumerate(zip(old.arguments, new.arguments, strict=True)):
            tensor = ir.RankedTensorType(argument.type)
            named = ir.DictAttr(attributes[number])
            dtype = dtypes.by_name[ir.StringAttr(named[DTYPE]).value].code
            extents = [-1 if tensor.is_dynamic_dim(i) else tensor.get_dim_size(i) for i in range(tensor.rank)]
            stream.view_check(view, number, dtype, extents)
            dims = []
            for axis, (extent, name) in enumerate(zip(extents, named[DIMS], strict=True)):
                if extent >= 0:
                    continue
                actual = stream.ViewDimOp(ir.IndexType.get(), view, i64_attr(axis)).operation.results[0]
                symbol = ir.StringAttr(name).value
                expected = seen.get(symbol)
                if expected is not None:
                    stream.CheckDimOp(actual, expected, i64_attr(number), i64_attr(axis))
                elif symbol != "?":
                    seen[symbol] = actual
                dims.append(expected if expected is not None else actual)
            resource = stream.ImportOp(stream.ResourceType.get(), view).operation.results[0]
            self.ranges[argument] = Range(tensor, resource, host.index(0), dims)

    def _block(self, block: ir.Block) -> None:
        for op in block.operations:
            with op.operation.location:
                self._operation(op.operation)

    def _operation(self, op: ir.Operation) -> None:
        handler = self.handlers.get(op.name)
        if handler is not None:
            handler(op)
        elif op.name == "arith.constant" and isinstance(op.results[0].type, ir.RankedTensorType):
            self._splat_constant(op)
        elif len(op.regions) or any(isinstance(v.type, ir.RankedTensorType) for v in op.operands):
            self._control(op)
        else:
            clone = create_like(op, [self.scalars[operand] for operand in op.operands])
            self.scalars.update(zip(op.results, clone.results, strict=True))

    def _control(self, op: ir.Operation) -> None:
        """A control flow op or terminator: tensors are flattened to a resource and their extents."""
        if not op.name.startswith("scf."):
            raise CompileError(f"internal: '{op.name}' on tensors is left in the host program")
        updated = {c.init for c in carried(op) if self._is_updated(c.argument)}
        new = ir.Operation.create(
            op.name,
            results=[t for v in op.results for t in _flat_types(v.type)],
            operands=[v for i, operand in enumerate(op.operands) for v in self._flatten(operand, i in updated)],
            attributes={a.name: a.attr for a in _named(op)},
            regions=len(op.regions),
        )
        for old_region, new_region in zip(op.regions, new.regions, strict=True):
            for old_block in old_region.blocks:
                types = [t for v in old_block.arguments for t in _flat_types(v.type)]
                block = new_region.blocks.append(*types, arg_locs=[op.location] * len(types))
                with ir.InsertionPoint(block), self.checks.nested():
                    self._unflatten(old_block.arguments, list(block.arguments))
                    self._block(old_block)
        self._unflatten(op.results, list(new.results))

    def _is_updated(self, argument: ir.Value) -> bool:
        """Whether a dispatch updates the tensor in place."""
        for use in argument.uses:
            user = use.owner.operation
            if user.name != "func.call":
                continue
            callee = self.callees[called(user)]
            if any(tied == use.operand_number for _, tied in flow.pairs(callee, flow.TIED)):
                return True
        return False

    def _flatten(self, value: ir.Value, private: bool = False) -> list[ir.Value]:
        """A value as it enters or leaves control flow; ``private``: the loop owns its memory."""
        source = self.ranges.get(value)
        if source is None:
            return [self.scalars[value]]
        if private:
            source = self._copy(source)
        resource = source.resource
        if int_constant(source.offset) != 0:
            resource = stream.SubviewOp(resource.type, resource, source.offset, source.length()).operation.results[0]
        return [resource, *source.dims]

    def _unflatten(self, values: Sequence[ir.Value], flat: list[ir.Value]) -> None:
        for value in values:
            if not isinstance(value.type, ir.RankedTensorType):
                self.scalars[value] = flat.pop(0)
                continue
            tensor = ir.RankedTensorType(value.type)
            resource = flat.pop(0)
            dims = [flat.pop(0) for _ in range(_dynamic_count(tensor))]
            self.ranges[value] = Range(tensor, resource, host.index(0), dims)

    def _alloc(self, tensor: ir.RankedTensorType, dims: list[ir.Value], device: int = 0) -> Range:
        self.checks.size(tensor, dims)
        resource = stream.ResourceType.get()
        alloc = stream.AllocOp(resource, host.byte_length(tensor, dims), ir.StringAttr.get("transient"))
        stream.set_device(alloc, device)
        return Range(tensor, alloc.operation.results[0], host.index(0), dims, owned=True)

    def _dispatch(self, op: ir.Operation) -> None:
        callee = self.callees[called(op)]
        arguments = [self.ranges[v] for v in op.operands if v in self.ranges]
        scalars = [v for v in op.operands if v not in self.ranges]
        tied, result_dims = dict(flow.pairs(callee, flow.TIED)), _result_dims(callee, op)
        device = self._device(op)
        bindings = list(arguments)
        access = ["read"] * len(arguments)
        for number, result in enumerate(op.results):
            dims = [self.scalars[d] for d in result_dims[number]]
            target = self._alloc(ir.RankedTensorType(result.type), dims, device)
            if number in tied:
                argument = tied[number]
                source = arguments[argument]
                copy = stream.CopyOp(target.resource, target.offset, source.resource, source.offset, target.length())
                stream.set_device(copy, device)
                bindings[argument] = target
                access[argument] = "read_write"
            bindings.append(target)
            access.append("read_write" if number in tied else "write")
            self.ranges[result] = target
        aliases = flow.pairs(callee, flow.MAY_ALIAS)
        command = stream.dispatch(
            callee.attributes[flow.KERNEL],
            [host.to_bits(self.scalars[v]) for v in scalars],
            [(b.resource, b.offset, b.length()) for b in bindings],
            access,
            [n for r, a in aliases for n in (len(arguments) + r, a)],
        )
        stream.set_device(command, device)

    def _device(self, op: ir.Operation) -> int:
        """The ordinal of the device that a dispatch or a fill is placed on."""
        return self.ordinals[ir.StringAttr(op.attributes[flow.DEVICE]).value] if flow.DEVICE in op.attributes else 0

    def _transfer(self, op: ir.Operation) -> None:
        """A transfer of a tensor. Devices that work in the host's memory share it; others get constants at load, and
        other tensors by a copy."""
        source = self.ranges[op.operands[0]]
        device = self.ordinals[ir.StringAttr(op.attributes["device"]).value]
        maker = source.resource.owner
        if self.devices[device].host_memory and self._in_host_memory(source):
            self.ranges[op.results[0]] = source
            return
        if not isinstance(maker, ir.Block) and maker.name == "stream.constant":
            moved = stream.ConstantOp(source.resource.type, maker.attributes["symbol"])
            offset = source.offset
        else:
            moved = stream.TransferOp(source.resource.type, [], source.resource, source.offset, source.length(), [])
            offset = host.index(0)
        stream.set_device(moved, device)
        self.ranges[op.results[0]] = Range(source.type, moved.operation.results[0], offset, source.dims)

    def _in_host_memory(self, source: Range) -> bool:
        owner = source.resource.owner
        return isinstance(owner, ir.Block) or self.devices[stream.device_of(owner.operation)].host_memory

    def _reshape(self, op: ir.Operation) -> None:
        source = self.ranges[op.operands[0]]
        tensor = ir.RankedTensorType(op.results[0].type)
        dims = [self.scalars[d] for d in list(op.operands)[1:]]
        self.checks.size(tensor, dims)
        self.ranges[op.results[0]] = Range(tensor, source.resource, source.offset, dims, source.owned)

    def _slice(self, op: ir.Operation) -> None:
        source = self.ranges[op.operands[0]]
        tensor = ir.RankedTensorType(op.results[0].type)
        start = host.multiply(self.scalars[op.operands[1]], dtypes.storage_bytes(tensor.element_type))
        dims = [self.scalars[d] for d in list(op.operands)[2:]]
        self.checks.size(tensor, dims)
        self.ranges[op.results[0]] = Range(tensor, source.resource, host.add(source.offset, start), dims)

    def _assert(self, op: ir.Operation) -> None:
        self.checks.condition(op, self.scalars)

    def _load(self, op: ir.Operation) -> None:
        source = self.ranges[op.operands[0]]
        element = source.type.element_type
        start = host.multiply(self.scalars[op.operands[1]], dtypes.storage_bytes(element))
        offset = host.add(source.offset, start)
        code = i64_attr(host.element_code(element))
        load = stream.LoadOp(op.results[0].type, source.resource, offset, code)
        self.scalars[op.results[0]] = load.operation.results[0]

    def _splat(self, op: ir.Operation) -> None:
        device = self._device(op)
        dims = [self.scalars[d] for d in list(op.operands)[1:]]
        target = self._alloc(ir.RankedTensorType(op.results[0].type), dims, device)
        size = dtypes.storage_bytes(target.type.element_type)
        pattern = host.to_bits(self.scalars[op.operands[0]])
        fill = stream.FillOp(pattern, target.resource, target.offset, target.length(), i64_attr(size))
        stream.set_device(fill, device)
        self.ranges[op.results[0]] = target

    def _splat_constant(self, op: ir.Operation) -> None:
        tensor = ir.RankedTensorType(op.results[0].type)
        if 0 in tensor.shape:
            nothing = np.empty(tensor.shape, dtypes.by_code[host.element_code(tensor.element_type)].numpy)
            self._constant_range(op.results[0], self.program.constants.add(nothing, "empty"))
            return
        attribute = op.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
            raise CompileError("internal: a constant that is not a splat is left inline in the host program")
        scalar = np.asarray(attribute.get_splat_value().value)  # type: ignore[attr-defined]
        element = dtypes.by_code[host.element_code(tensor.element_type)].numpy.type
        one = scalar.astype(element)
        size = dtypes.storage_bytes(tensor.element_type)
        if int(np.prod(tensor.shape)) * size <= self.options.splat_constant_bytes or size > 8:
            name = self.program.constants.add(np.full(tensor.shape, one), "splat")
            self._constant_range(op.results[0], name)
            return
        device = self._device(op)
        target = self._alloc(tensor, [], device)
        pattern = host.i64(int.from_bytes(one.tobytes().ljust(8, b"\0"), "little", signed=True))
        fill = stream.FillOp(pattern, target.resource, target.offset, target.length(), i64_attr(size))
        stream.set_device(fill, device)
        self.ranges[op.results[0]] = target

    def _constant(self, op: ir.Operation) -> None:
        self._constant_range(op.results[0], ir.FlatSymbolRefAttr(op.attributes["global"]).value)

    def _constant_range(self, value: ir.Value, name: str) -> None:
        constant = stream.ConstantOp(stream.ResourceType.get(), ir.StringAttr.get(name)).operation.results[0]
        self.ranges[value] = Range(ir.RankedTensorType(value.type), constant, host.index(0), [])

    def _dim(self, op: ir.Operation) -> None:
        source = self.ranges[op.operands[0]]
        axis = int_constant(self.scalars[op.operands[1]])
        if axis is None:
            raise CompileError("internal: tensor.dim of an unknown axis is left in the host program")
        self.scalars[op.results[0]] = _extents(source)[axis]

    def _return(self, op: ir.Operation) -> None:
        results = []
        attributes = self.main.attributes.get("res_attrs", None)
        exported: set[ir.Value] = set()
        for number, value in enumerate(op.operands):
            source = self.ranges[value]
            if not source.owned or source.resource in exported:
                source = self._copy(source)
            exported.add(source.resource)
            source.resource.owner.attributes["lifetime"] = ir.StringAttr.get("external")
            name = _dtype_name(attributes[number] if attributes else None, source.type)
            dtype = i64_attr(dtypes.by_name[name].code)
            export = stream.ExportOp(stream.ViewType.get(), source.resource, _extents(source), dtype)
            results.append(export.operation.results[0])
        ir.Operation.create("func.return", operands=results)

    def _copy(self, source: Range) -> Range:
        """A result in memory of its own, copied from an input, a constant, a part of another tensor or a result used
        twice."""
        target = self._alloc(source.type, source.dims)
        stream.CopyOp(target.resource, target.offset, source.resource, source.offset, target.length())
        return target


def _extents(source: Range) -> list[ir.Value]:
    dynamic = iter(source.dims)
    tensor = source.type
    return [next(dynamic) if tensor.is_dynamic_dim(i) else host.index(tensor.shape[i]) for i in range(tensor.rank)]


def _dynamic_count(tensor: ir.RankedTensorType) -> int:
    return sum(tensor.is_dynamic_dim(i) for i in range(tensor.rank))


def _flat_types(type_: ir.Type) -> list[ir.Type]:
    if not isinstance(type_, ir.RankedTensorType):
        return [type_]
    return [stream.ResourceType.get(), *[ir.IndexType.get()] * _dynamic_count(ir.RankedTensorType(type_))]


def _named(op: ir.Operation) -> list[ir.NamedAttribute]:
    return [op.attributes[i] for i in range(len(op.attributes))]


def _result_dims(callee: ir.Operation, call: ir.Operation) -> list[list[ir.Value]]:
    """For each result of a dispatch, the scalar operands that hold its dynamic extents."""
    dims = []
    for number in range(len(call.results)):
        dims.append([call.operands[p] for p in flow.dims(callee, "res_attrs", number)])
        if len(dims[-1]) != _dynamic_count(ir.RankedTensorType(call.results[number].type)):
            name = ir.StringAttr(callee.attributes["sym_name"]).value
            raise CompileError(f"internal: result {number} of kernel '{name}' lacks the scalars of its extents")
    return dims


def _io_attributes(main: ir.Operation, which: str, types: Sequence[ir.Type]) -> ir.ArrayAttr:
    """Name, element type and dimension names of every argument or result, complete and in one form."""
    given = main.attributes.get(which, None)
    complete = []
    for number, type_ in enumerate(types):
        tensor = ir.RankedTensorType(type_)
        attribute = ir.DictAttr(given[number]) if given else ir.DictAttr.get({})
        default = f"{'input' if which == 'arg_attrs' else 'output'}{number}"
        name = ir.StringAttr(attribute[NAME]).value if NAME in attribute else default
        names = [ir.StringAttr(d).value for d in attribute[DIMS]] if DIMS in attribute else []
        names = names or ["?"] * tensor.rank
        dims = [name if tensor.is_dynamic_dim(i) else str(tensor.get_dim_size(i)) for i, name in enumerate(names)]
        complete.append(
            ir.DictAttr.get(
                {
                    NAME: ir.StringAttr.get(name),
                    DTYPE: ir.StringAttr.get(_dtype_name(attribute, tensor)),
                    DIMS: ir.ArrayAttr.get([ir.StringAttr.get(d) for d in dims]),
                }
            )
        )
    return ir.ArrayAttr.get(complete)


def _dtype_name(attribute: ir.Attribute | None, tensor: ir.RankedTensorType) -> str:
    named = ir.DictAttr(attribute) if attribute is not None else {}
    if DTYPE in named:
        return str(ir.StringAttr(named[DTYPE]).value)
    return dtypes.by_code[host.element_code(tensor.element_type)].name
