from __future__ import annotations

import dataclasses
import io
import struct
import zlib

import numpy as np
import pytest

from rillet.errors import CompileError, LoadError
from rillet.ir.image import Export, Function, Image, Import, Segment, TensorSpec
from rillet.module import CompiledLibrary, module_file, write_module
from rillet.runtime import load

SPEC = TensorSpec("x", 1, (-1, 3), ("N", ""))
MAIN = Function("main", "r", "r", 0, 1, (8, 0, 1, 0))


def image(*segments: Segment) -> Image:
    export = Export("main", 0, (SPEC,), (SPEC,))
    imports = (Import("hal.execute", "rr*", ""),)
    return Image((MAIN,), imports, (export,), 0, 0, segments, (("f",),), {"dispatch_count": 1})


def library(data: bytes = b"kernels", entries: tuple[str, ...] = ("f",)) -> CompiledLibrary:
    return CompiledLibrary("x86-64-v3", "x86_64", ("avx2",), 0, data, list(entries))


def written(*args: object) -> bytes:
    sink = io.BytesIO()
    write_module(*args, sink)  # type: ignore[arg-type]
    return sink.getvalue()


@pytest.mark.parametrize(
    ("dims", "default", "message"), [((3,), 1, "no such default"), ((-1,), 0, "a default of unknown shape")]
)
def test_a_default_that_cannot_be_is_refused_when_loaded(dims: tuple[int, ...], default: int, message: str) -> None:
    spec = TensorSpec("x", 1, dims, ("",), default)
    segments = (Segment(12, ((0, np.zeros(3, np.float32)),)),)
    broken = dataclasses.replace(image(*segments), exports=(Export("main", 0, (spec,), (SPEC,)),))
    with pytest.raises(LoadError, match=rf"the file is corrupt: {message} \(x\)"):
        load(written(broken, [library()]))


def test_header_and_checksums() -> None:
    data = written(image(), [library()])
    magic, version, size, checksum = struct.unpack_from("<4sIII", data)
    table = data[16 : 16 + size]
    assert (magic, version, checksum) == (b"RLM1", 2, zlib.crc32(table))
    assert table[4:8] == b"RLM1"
    assert struct.pack("<I", zlib.crc32(b"kernels")) in table


def test_segments_are_aligned_and_complete() -> None:
    a = np.arange(5, dtype=np.float32)
    b = np.arange(12, dtype=np.int64).reshape(3, 4).T  # not contiguous
    segment = Segment(64 + 128, ((0, a), (64, b)))
    data = written(image(segment, Segment(64, ((0, a),))), [library(b"k" * 100)])
    file = module_file(image(segment, Segment(64, ((0, a),))), [library(b"k" * 100)])
    assert len(data) == file.size
    (code, _), (first, _), (second, _), (third, _) = file.pieces
    assert code % 64 == 0
    assert data[code : code + 100] == b"k" * 100
    assert first % 4096 == 0
    assert third % 4096 == 0
    assert data[first : first + 20] == a.tobytes()
    assert data[first + 20 : first + 64] == bytes(44)
    assert second == first + 64
    assert data[second : second + 96] == np.ascontiguousarray(b).tobytes()
    assert data[-64:] == a.tobytes() + bytes(44)


def test_memory_and_file_are_the_same() -> None:
    contents = image(Segment(64, ((0, np.ones(16, np.float32)),)))
    memory = write_module(contents, [library()])
    assert memory is not None
    assert bytes(memory) == written(contents, [library()])


def test_constants_are_not_copied() -> None:
    array = np.ones(1 << 20, np.float32)
    sizes = []

    class Sink:
        def write(self, data: bytes | memoryview, /) -> None:
            if isinstance(data, memoryview):
                sizes.append(len(data))
                assert np.shares_memory(np.frombuffer(data, np.uint8), array)

    write_module(image(Segment(array.nbytes, ((0, array),))), [library()], Sink())
    assert sizes == [array.nbytes]


def test_big_endian_arrays_and_empty_ones() -> None:
    segment = Segment(128, ((0, np.array([1], ">i4")), (64, np.empty((0, 3), np.float32))))
    data = written(image(segment), [library()])
    assert data[-128:-124] == struct.pack("<i", 1)


def test_a_library_with_other_entries() -> None:
    with pytest.raises(CompileError, match="library for 'x86-64-v3' does not have the program's entries"):
        module_file(image(), [library(entries=("g",))])
