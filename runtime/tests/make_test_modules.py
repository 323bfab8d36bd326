"""Writes a small module file that uses every part of the format, for the tests of the C reader.

It is written with the ``flatbuffers`` package and on its own, not with the compiler's writer, so that the reader is
held against the format and not against another program of ours. Usage: ``make_test_modules.py OUTPUT.rlm``.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import flatbuffers

HEADER_SIZE = 16
CONSTANTS = (bytes(range(256)) * 20, b"", struct.pack("<4f", 1, 2, 3, 4))
IMAGES = (b"\x7fELF first image" * 40, b"\x7fELF second image" * 30)

# Two functions over the imports test.box (i -> r), test.unbox (r -> i), test.sum (ri* -> ir): the initializer puts a
# box of 5 in a global, and main(i, r) returns the sum of both boxes and i, as an integer and as a box.
IMPORT = 0x8000
INIT_CODE = [1, 0, 5, 0, 0, 0, 7, IMPORT | 0, 1, 0, 0, 0, 1, 0, 12, 0, 0, 8, 0, 0]
MAIN_CODE = [11, 1, 0, 7, IMPORT | 1, 0, 1, 1, 1, 1, 0, 7, IMPORT | 2, 2, 0, 1, 1, 0, 1, 0, 1, 0, 8, 1, 0, 1, 0]


class Writer:
    """Tables by slot number on top of ``flatbuffers.Builder``."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def offsets(self, values: list[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return self.builder.EndVector()

    def strings(self, values: list[str]) -> int:
        return self.offsets([self.builder.CreateString(v) for v in values])

    def scalars(self, values: list[int], size: int, prepend: str) -> int:
        self.builder.StartVector(size, len(values), size)
        for value in reversed(values):
            getattr(self.builder, prepend)(value)
        return self.builder.EndVector()

    def table(self, *fields: tuple[str, int]) -> int:
        """``fields``: (kind, value) by slot; kind is "offset" or the name of a Builder scalar type, e.g. "Uint16"."""
        self.builder.StartObject(len(fields))
        for slot, (kind, value) in enumerate(fields):
            if kind == "offset":
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                # Bytes are stored even when 0, so that tests can patch them.
                self.builder.ForceDefaults(kind == "Uint8")
                getattr(self.builder, f"Prepend{kind}Slot")(slot, value, 0)
        return self.builder.EndObject()

    def string(self, text: str) -> tuple[str, int]:
        return ("offset", self.builder.CreateSharedString(text))


def tensor(w: Writer, name: str, dtype: int, dims: list[int], dim_names: list[str]) -> int:
    dims_at = w.scalars(dims, 8, "PrependInt64")
    names_at = w.strings(dim_names)
    return w.table(w.string(name), ("Uint8", dtype), ("offset", dims_at), ("offset", names_at))


def function(w: Writer, name: str, kinds: tuple[str, str], registers: tuple[int, int], offset: int, length: int) -> int:
    return w.table(
        w.string(name), w.string(kinds[0]), w.string(kinds[1]), ("Uint16", registers[0]), ("Uint16", registers[1]),
        ("Uint32", offset), ("Uint32", length),
    )  # fmt: skip


def segment(w: Writer, offset: int, data: bytes, crc32: int) -> int:
    return w.table(("Uint64", offset), ("Uint64", len(data)), ("Uint32", crc32))


def library(w: Writer, target: str, features: list[str], offset: int, image: bytes) -> int:
    segment_at = segment(w, offset, image, zlib.crc32(image))
    features_at = w.strings(features)
    entries_at = w.strings(["matmul", "softmax"])
    return w.table(
        w.string(target), ("Uint8", 0), w.string("x86_64"), ("offset", features_at), ("offset", segment_at),
        ("offset", entries_at),
    )  # fmt: skip


def metadata(constant_offsets: list[int], image_offsets: list[int]) -> bytes:
    """The FlatBuffer, with segments at the given offsets."""
    w = Writer()
    imports = w.offsets([
        w.table(w.string("test.box"), w.string("i"), w.string("r")),
        w.table(w.string("test.unbox"), w.string("r"), w.string("i")),
        w.table(w.string("test.sum"), w.string("ri*"), w.string("ir")),
    ])  # fmt: skip
    functions = w.offsets([
        function(w, "__init", ("", ""), (1, 1), 0, len(INIT_CODE)),
        function(w, "main", ("ir", "ir"), (2, 2), len(INIT_CODE), len(MAIN_CODE)),
    ])  # fmt: skip
    inputs = w.offsets([tensor(w, "x", 1, [-1, 3], ["N", ""]), tensor(w, "scale", 1, [], [])])
    outputs = w.offsets([tensor(w, "y", 9, [2, 3, 4], [])])
    exports = w.offsets([w.table(w.string("main"), ("Uint32", 1), ("offset", inputs), ("offset", outputs))])
    code = w.scalars(INIT_CODE + MAIN_CODE, 2, "PrependUint16")
    placed = zip(constant_offsets, CONSTANTS, strict=True)
    constants = w.offsets([segment(w, at, data, zlib.crc32(data)) for at, data in placed])
    libraries = w.offsets([
        library(w, "x86-64-v3", ["avx2", "fma"], image_offsets[0], IMAGES[0]),
        library(w, "x86-64-v2", [], image_offsets[1], IMAGES[1]),
    ])  # fmt: skip
    stats = w.offsets([w.table(w.string("arena_bytes"), ("Int64", 4096)), w.table(w.string("macs"), ("Int64", -1))])
    both, second = w.scalars([0, 1], 4, "PrependUint32"), w.scalars([1], 4, "PrependUint32")
    devices = w.offsets([
        w.table(w.string("cpu"), w.string("cpu"), ("offset", both), ("Uint32", 0)),
        w.table(w.string("other"), w.string("cpu-task"), ("offset", second), ("Uint32", 2)),
    ])  # fmt: skip
    root = w.table(
        w.string("test writer"), ("offset", imports), ("offset", functions), ("offset", exports), ("offset", code),
        ("Uint32", 0), ("Uint32", 1), ("offset", constants), ("offset", libraries), ("offset", stats),
        ("offset", 0), ("offset", 0), ("offset", devices),
    )  # fmt: skip
    w.builder.Finish(root, file_identifier=b"RLM1")
    return bytes(w.builder.Output())


def align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def module() -> bytes:
    """The whole file."""
    # Offsets do not change the size of the metadata as long as none is 0, which would leave its field out.
    size = len(metadata([1] * len(CONSTANTS), [1] * len(IMAGES)))
    end = HEADER_SIZE + size
    offsets = []
    for data, alignment in [(d, 4096) for d in CONSTANTS] + [(d, 64) for d in IMAGES]:
        offsets.append(align(end, alignment))
        end = offsets[-1] + len(data)
    table = metadata(offsets[: len(CONSTANTS)], offsets[len(CONSTANTS) :])
    assert len(table) == size
    out = bytearray(end)
    out[:HEADER_SIZE] = struct.pack("<4sIII", b"RLM1", 2, size, zlib.crc32(table))
    out[HEADER_SIZE : HEADER_SIZE + size] = table
    for offset, data in zip(offsets, CONSTANTS + IMAGES, strict=True):
        out[offset : offset + len(data)] = data
    return bytes(out)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(module())
