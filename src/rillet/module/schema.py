"""The FlatBuffer of a module file (runtime/schema/rillet.fbs), written with the FlatBuffers runtime.

Every scalar is stored, even where it equals its default, so that the size does not depend on segment offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import flatbuffers
import numpy as np

from rillet.ir.image import EntryFacts, Export, Function, Image, Import, ProgramDevice, TensorSpec
from rillet.module.library import CompiledLibrary

IDENTIFIER = b"RLM1"


@dataclass(frozen=True)
class Place:
    """A segment's place in the file."""

    offset: int
    length: int
    crc32: int = 0


def serialize(
    image: Image,
    libraries: Sequence[CompiledLibrary],
    constants: Sequence[Place],
    places: Sequence[Place],
    stats: dict[str, int],
    producer: str,
) -> bytes:
    """The bytes of table ``Module``."""
    b = flatbuffers.Builder(4096)
    b.ForceDefaults(True)
    starts, end = [], 0
    for function in image.functions:
        starts.append(end)
        end += len(function.code)
    code = np.array([word for f in image.functions for word in f.code], dtype="<u2")
    fields = [
        ("offset", b.CreateString(producer)),
        ("offset", _vector(b, [_import(b, i) for i in image.imports])),
        ("offset", _vector(b, [_function(b, f, s) for f, s in zip(image.functions, starts, strict=True)])),
        ("offset", _vector(b, [_export(b, e) for e in image.exports])),
        ("offset", b.CreateNumpyVector(code)),
        ("uint32", image.int_globals),
        ("uint32", image.ref_globals),
        ("offset", _vector(b, [_segment(b, place) for place in constants])),
        ("offset", _vector(b, [_library(b, lib, p) for lib, p in zip(libraries, places, strict=True)])),
        ("offset", _vector(b, [_stat(b, key, value) for key, value in sorted(stats.items())])),
        ("offset", _vector(b, [_facts(b, facts) for facts in image.facts])),
        ("offset", _strings(b, image.messages)),
        ("offset", _vector(b, [_device(b, device, image, libraries) for device in image.devices])),
    ]
    b.Finish(_table(b, fields), file_identifier=IDENTIFIER)
    return bytes(b.Output())


def _table(b: flatbuffers.Builder, fields: Sequence[tuple[str, int]]) -> int:
    """A table of (kind, value) fields in the order of the schema."""
    put: dict[str, Callable[[int, int, int], None]] = {
        "offset": b.PrependUOffsetTRelativeSlot,
        "uint8": b.PrependUint8Slot,
        "uint16": b.PrependUint16Slot,
        "uint32": b.PrependUint32Slot,
        "uint64": b.PrependUint64Slot,
        "int64": b.PrependInt64Slot,
    }
    b.StartObject(len(fields))
    # Wide fields first keeps padding small.
    for kind in ("uint64", "int64", "offset", "uint32", "uint16", "uint8"):
        for slot, (field_kind, value) in enumerate(fields):
            if field_kind == kind:
                put[kind](slot, value, 0)
    return int(b.EndObject())


def _vector(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _strings(b: flatbuffers.Builder, strings: Sequence[str]) -> int:
    return _vector(b, [b.CreateString(s) for s in strings])


def _import(b: flatbuffers.Builder, value: Import) -> int:
    texts = [b.CreateString(s) for s in (value.name, value.arguments, value.results)]
    return _table(b, [("offset", t) for t in texts])


def _function(b: flatbuffers.Builder, value: Function, start: int) -> int:
    texts = [b.CreateString(s) for s in (value.name, value.arguments, value.results)]
    numbers = [("uint16", value.int_registers), ("uint16", value.ref_registers)]
    span = [("uint32", start), ("uint32", len(value.code))]
    return _table(b, [*(("offset", t) for t in texts), *numbers, *span])


def _export(b: flatbuffers.Builder, value: Export) -> int:
    name = b.CreateString(value.name)
    inputs = _vector(b, [_tensor(b, spec) for spec in value.inputs])
    outputs = _vector(b, [_tensor(b, spec) for spec in value.outputs])
    return _table(b, [("offset", name), ("uint32", value.function), ("offset", inputs), ("offset", outputs)])


def _tensor(b: flatbuffers.Builder, spec: TensorSpec) -> int:
    name = b.CreateString(spec.name)
    dims = b.CreateNumpyVector(np.array(spec.dims, dtype="<i8"))
    names = _strings(b, spec.dim_names)
    default = 0 if spec.default is None else 1 + spec.default
    fields = [("offset", name), ("uint8", spec.dtype), ("offset", dims), ("offset", names), ("uint32", default)]
    return _table(b, fields)


def _segment(b: flatbuffers.Builder, place: Place) -> int:
    return _table(b, [("uint64", place.offset), ("uint64", place.length), ("uint32", place.crc32)])


def _library(b: flatbuffers.Builder, library: CompiledLibrary, place: Place) -> int:
    target, arch = b.CreateString(library.target), b.CreateString(library.arch)
    features, entries = _strings(b, library.features), _strings(b, library.entries)
    segment = _segment(b, place)
    return _table(
        b,
        [
            ("offset", target),
            ("uint8", library.format),
            ("offset", arch),
            ("offset", features),
            ("offset", segment),
            ("offset", entries),
        ],
    )


def _device(b: flatbuffers.Builder, device: ProgramDevice, image: Image, libraries: Sequence[CompiledLibrary]) -> int:
    name, driver = b.CreateString(device.name), b.CreateString(device.driver)
    numbers = [number for number, library in enumerate(libraries) if library.kernels == device.kernels]
    variants = b.CreateNumpyVector(np.array(numbers, dtype="<u4"))
    first = sum(map(len, image.entries[: device.kernels]))
    return _table(b, [("offset", name), ("offset", driver), ("offset", variants), ("uint32", first)])


def _stat(b: flatbuffers.Builder, key: str, value: int) -> int:
    name = b.CreateString(key)
    return _table(b, [("offset", name), ("int64", value)])


def _facts(b: flatbuffers.Builder, facts: EntryFacts) -> int:
    sources = b.CreateString(facts.sources)
    return _table(b, [("int64", facts.macs), ("int64", facts.bytes), ("offset", sources)])
