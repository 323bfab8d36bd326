"""From the vm module to the image that the module writer stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program, dtypes
from rillet.ir.attributes import DIMS, DTYPE, MACS, NAME
from rillet.ir.image import Export, Image, ProgramDevice, Segment, TensorSpec
from rillet.vm.bytecode import ImportTable, encode_function

_STATS = {
    "arena_bytes": "stream.arena_bytes",
    "arena_is_dynamic": "stream.arena_is_dynamic",
    "arena_lower_bound": "stream.arena_lower_bound",
    "dispatch_count": "hal.dispatch_count",
    "macs": MACS,
}


def encode(program: Program) -> Image:
    """The image of a program that is through every stage. Constants are referred to, not copied."""
    with program.context, ir.Location.unknown():
        attributes = program.module.operation.attributes
        functions = [view.operation for view in program.module.body.operations]
        table = ImportTable()
        encoded = tuple(encode_function(function, table) for function in functions)
        segments = tuple(_segment(program, ir.DictAttr(a)) for a in ir.ArrayAttr(attributes["stream.segments"]))
        defaults = {name: number for number, name in enumerate(program.defaults, len(segments))}
        segments += tuple(Segment(array.nbytes, ((0, array),)) for array in program.defaults.values())
        exports = tuple(
            Export(f.name, ordinal, _specs(function, "arg_attrs", defaults), _specs(function, "res_attrs", {}))
            for ordinal, (f, function) in enumerate(zip(encoded, functions, strict=True))
            if "arg_attrs" in function.attributes or "res_attrs" in function.attributes
        )
        stats = {key: int(ir.IntegerAttr(attributes[name]).value) for key, name in _STATS.items() if name in attributes}
        stats["constant_bytes"] = sum(segment.length for segment in segments)
        stats["bytecode_bytes"] = 2 * sum(len(f.code) for f in encoded)
        return Image(
            functions=encoded,
            imports=tuple(table.used),
            exports=exports,
            int_globals=0,
            ref_globals=int(ir.IntegerAttr(attributes["hal.ref_globals"]).value),
            segments=segments,
            entries=tuple(
                tuple(ir.StringAttr(name).value for name in ir.ArrayAttr(names))
                for names in ir.ArrayAttr(attributes["stream.entries"])
            ),
            stats=stats,
            messages=tuple(ir.StringAttr(text).value for text in attributes.get("hal.messages", ir.ArrayAttr.get([]))),
            devices=tuple(
                ProgramDevice(device.name, device.driver, device.kernels) for device in flow.devices(program.module)
            ),
        )


def _segment(program: Program, layout: ir.DictAttr) -> Segment:
    names = [ir.StringAttr(name).value for name in ir.ArrayAttr(layout["names"])]
    offsets = list(ir.DenseI64ArrayAttr(layout["offsets"]))
    parts = tuple((offset, program.constants[name]) for offset, name in zip(offsets, names, strict=True))
    return Segment(int(ir.IntegerAttr(layout["length"]).value), parts)


def _specs(function: ir.Operation, which: str, defaults: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    return tuple(_spec(ir.DictAttr(attribute), defaults) for attribute in ir.ArrayAttr(function.attributes[which]))


def _spec(attribute: ir.DictAttr, defaults: Mapping[str, int]) -> TensorSpec:
    name = ir.StringAttr(attribute[NAME]).value
    names: Sequence[str] = [ir.StringAttr(d).value for d in ir.ArrayAttr(attribute[DIMS])]
    return TensorSpec(
        name,
        dtypes.by_name[ir.StringAttr(attribute[DTYPE]).value].code,
        tuple(int(dim) if dim.isdecimal() else -1 for dim in names),
        tuple("" if dim.isdecimal() or dim == "?" else dim for dim in names),
        defaults.get(name),
    )
