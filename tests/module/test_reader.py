from __future__ import annotations

import numpy as np
import pytest

from rillet.errors import LoadError
from rillet.ir.image import Export, Function, Image, Import, ProgramDevice, Segment, TensorSpec
from rillet.module import CompiledLibrary, module_file, read_module, write_module
from rillet.module.reader import DeviceEntry


def test_what_was_written_is_read_back() -> None:
    spec = TensorSpec("x", 10, (-1, 3), ("N", ""))
    scalar = TensorSpec("é", 7, (), (), default=0)
    functions = (Function("__init", "", "", 0, 0, (8, 0, 0)), Function("main", "r", "rr", 7, 3, (0, 65535)))
    imports = (Import("hal.execute", "rr*", ""), Import("hal.constant", "i", "r"))
    exports = (Export("main", 1, (spec,), (spec, scalar)),)
    array = np.arange(6, dtype=np.float32)
    devices = (ProgramDevice("here", "cpu-sync"), ProgramDevice("there", "cpu-task", 1))
    segments, stats = (Segment(64, ((0, array),)),), {"macs": 1 << 40}
    image = Image(functions, imports, exports, 0, 4, segments, (("f", "g"), ("h",)), stats, devices=devices)
    libraries = [
        CompiledLibrary("x86-64-v3", "x86_64", ("avx2", "fma"), 0, b"kernels", ["f", "g"]),
        CompiledLibrary("x86-64-v2", "x86_64", (), 0, b"kernel", ["h"], 1),
        CompiledLibrary("x86-64-v2", "x86_64", (), 0, b"kerne", ["f", "g"]),
    ]
    memory = write_module(image, libraries)
    assert memory is not None
    contents = read_module(memory)
    assert contents.functions == functions
    assert contents.imports == imports
    assert contents.exports == exports
    assert (contents.int_globals, contents.ref_globals) == (0, 4)
    assert contents.stats == {"macs": 1 << 40, "code_bytes": 13}
    library, other, _ = contents.libraries
    assert other.entries == ("h",)
    assert (library.target, library.arch, library.features) == ("x86-64-v3", "x86_64", ("avx2", "fma"))
    assert library.entries == ("f", "g")
    offset = library.place.offset
    assert bytes(memory[offset : offset + library.place.length]) == b"kernels"
    assert contents.devices == (DeviceEntry("here", "cpu-sync", (0, 2), 0), DeviceEntry("there", "cpu-task", (1,), 2))
    [segment] = contents.constants
    assert segment.offset == module_file(image, libraries).pieces[-1][0]
    assert bytes(memory[segment.offset : segment.offset + array.nbytes]) == array.tobytes()


@pytest.mark.parametrize("data", [b"", b"RLM1", b"ELF!" + bytes(100)])
def test_something_else(data: bytes) -> None:
    with pytest.raises(LoadError, match="not a Rillet module file"):
        read_module(data)
