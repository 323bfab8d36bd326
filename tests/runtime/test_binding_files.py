"""Loading and saving module files: paths, memory, damage, other machines, full disks."""

from __future__ import annotations

import copy
import io
import mmap
import os
import pickle
import platform
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rillet import LoadError, SaveError
from rillet.runtime import load, read_facts
from rillet.support import files
from tests.support import bytecode_assembler as a

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def blob(elf: bytes) -> bytes:
    return a.module(a.static_add(4), a.library(elf))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_load_from_a_path_and_from_memory(blob: bytes, tmp_path: Path) -> None:
    path = tmp_path / "add.rlm"
    path.write_bytes(blob)
    memory = mmap.mmap(-1, len(blob))
    memory.write(blob)
    for source in (path, str(path), blob, bytearray(blob), memoryview(memory), memoryview(blob)[:]):
        np.testing.assert_array_equal(load(source)(X, X), 2 * X)


def test_a_loaded_file_may_be_replaced(blob: bytes, tmp_path: Path) -> None:
    path = tmp_path / "add.rlm"
    load(blob).save(path)
    module = load(path)
    load(blob).save(path)
    path.unlink()
    np.testing.assert_array_equal(module(X, X), 2 * X)


@pytest.mark.parametrize("source", [3, None, ["a"]])
def test_other_sources(source: object) -> None:
    with pytest.raises(LoadError, match=r"cannot load a module from .*: pass a path or the file's bytes"):
        load(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, True, "2"])
def test_thread_counts(blob: bytes, threads: object) -> None:
    with pytest.raises(LoadError, match="threads must be a number from 1 to 1024"):
        load(blob, threads=threads)  # type: ignore[arg-type]


def test_thread_counts_of_numpy(blob: bytes) -> None:
    np.testing.assert_array_equal(load(blob, threads=np.int64(2))(X, X), 2 * X)  # type: ignore[arg-type]


def test_memory_with_gaps(blob: bytes) -> None:
    with pytest.raises(LoadError, match="a memoryview with gaps: pass contiguous bytes"):
        load(memoryview(blob + blob)[::2])


def test_a_path_of_bytes(blob: bytes, tmp_path: Path) -> None:
    class Entry:
        def __fspath__(self) -> bytes:
            return os.fsencode(tmp_path / "m.rlm")

    load(blob).save(Entry())  # type: ignore[arg-type]
    np.testing.assert_array_equal(load(Entry())(X, X), 2 * X)  # type: ignore[arg-type]


def test_copies_and_pickles(blob: bytes) -> None:
    module = load(blob, threads=2)
    assert copy.copy(module) is module and copy.deepcopy([module])[0] is module
    other = pickle.loads(pickle.dumps(module))
    np.testing.assert_array_equal(other(X, X), 2 * X)
    assert other.inputs == module.inputs and bytes(other.to_bytes()) == blob
    watched = pickle.loads(pickle.dumps(load(blob, profile=True)))
    watched(X, X)
    assert watched.take_profile()


def test_paths_that_do_not_work(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"missing\.rlm': No such file"):
        load(tmp_path / "missing.rlm")
    with pytest.raises(LoadError, match="not a file"):
        load(tmp_path)
    with pytest.raises(LoadError, match="cannot load '': the path is empty"):
        load("")
    with pytest.raises(LoadError, match="cannot read: int is no path; pass a str"):
        read_facts(5)  # type: ignore[arg-type]
    (tmp_path / "empty.rlm").write_bytes(b"")
    with pytest.raises(LoadError, match="the file is empty"):
        load(tmp_path / "empty.rlm")
    (tmp_path / "text.rlm").write_bytes(b"This is not a module, but it is long enough to be one.")
    with pytest.raises(LoadError, match="not a Rillet module"):
        load(tmp_path / "text.rlm")


def test_truncated_files(blob: bytes, tmp_path: Path) -> None:
    for length in [*range(1, 64), *range(64, len(blob), 61)]:
        with pytest.raises(LoadError):
            load(blob[:length])


def test_damaged_kernels_are_found(elf: bytes, blob: bytes) -> None:
    at = blob.index(elf)
    generator = random.Random(7)
    for _ in range(200):
        damaged = bytearray(blob)
        damaged[at + generator.randrange(len(elf))] ^= 1 << generator.randrange(8)
        with pytest.raises(LoadError, match="checksum"):
            load(damaged)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="feature names are per architecture")
def test_the_best_variant_that_fits_is_chosen(elf: bytes) -> None:
    variants = [
        a.library(elf, target="x86-64-v9", features=("avx2", "no-such-feature")),
        a.library(elf, target="x86-64-v2", features=("sse2", "sse4.2", "popcnt")),
        a.library(elf, target="x86-64", features=("sse2",)),
    ]
    module = load(a.module(a.static_add(4), *variants))
    assert [e["selected"] for e in module.libraries] == [False, True, False]


def test_a_file_for_another_cpu(elf: bytes) -> None:
    libraries = [
        a.library(elf, target="x86-64-v4", features=("no-such-feature",)),
        a.library(elf, target="cortex-a999", arch="arm999"),
    ]
    with pytest.raises(LoadError) as caught:
        load(a.module(a.static_add(4), *libraries))
    message = str(caught.value)
    assert "compiled for x86-64-v4; this CPU lacks no-such-feature" in message
    assert f"compiled for cortex-a999 (arm999); this CPU is {platform.machine()}" in message
    assert 'compile the model again for this CPU (target="host")' in message


def test_a_program_the_runtime_cannot_bind(elf: bytes) -> None:
    image = a.static_add(4)
    for kind in (1, 9):
        library = a.library(elf, kind=kind)
        if kind == 1:
            np.testing.assert_array_equal(load(a.module(image, library))(X, X), 2 * X)
            continue
        with pytest.raises(LoadError):
            load(a.module(image, library))


def test_saving_is_exact(blob: bytes, tmp_path: Path) -> None:
    path = tmp_path / "saved.rlm"
    load(blob).save(path)
    assert path.read_bytes() == blob
    assert list(tmp_path.iterdir()) == [path]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_saving_follows_links(blob: bytes, tmp_path: Path) -> None:
    (tmp_path / "link.rlm").symlink_to(tmp_path / "real.rlm")
    load(blob).save(tmp_path / "link.rlm")
    assert (tmp_path / "real.rlm").read_bytes() == blob and (tmp_path / "link.rlm").is_symlink()


def test_a_full_disk_leaves_no_half_file(blob: bytes, tmp_path: Path) -> None:
    """A limit on file sizes makes the system refuse the same call as a full disk."""
    path = tmp_path / "saved.rlm"
    path.write_bytes(b"before")
    module = load(blob)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SaveError, match=r"cannot write .*saved\.rlm: File too large"):
            module.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_a_failing_write_leaves_no_half_file(blob: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(SaveError, match="No space left"):
        load(blob).save(tmp_path / "saved.rlm")
    assert not list(tmp_path.iterdir())


def test_a_table_that_is_hardly_read_is_hardly_resident(tmp_path: Path) -> None:
    """Reading a few rows of a mapped file must not bring in all of it, as it does when large writes made it."""
    path = tmp_path / "table"
    size = 64 << 20
    files.write_atomically(path, memoryview(b"x" * size))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as table:
        before = _resident_bytes()
        for row in random.Random(0).sample(range(size), 64):
            assert table[row] == ord("x")
        assert _resident_bytes() - before < size // 4


def test_saving_where_it_cannot(blob: bytes, tmp_path: Path) -> None:
    module = load(blob)
    with pytest.raises(SaveError, match=r"cannot write .*folder\.rlm: there is no folder .*such; create it first"):
        module.save(tmp_path / "no" / "such" / "folder.rlm")
    with pytest.raises(SaveError, match=r"cannot write .*: it is a folder"):
        module.save(tmp_path)
    with pytest.raises(SaveError, match=r"cannot write .*: File name too long"):
        module.save(tmp_path / ("n" * 300))
    with pytest.raises(SaveError, match=r"cannot write 'a\\x00b': it is no path, as it has a zero character"):
        module.save("a\0b")
    with pytest.raises(SaveError, match="cannot write '': the path is empty"):
        module.save("")
    with pytest.raises(SaveError, match=r"cannot write .*/sub/: it names a folder"):
        module.save(f"{tmp_path}/sub/")
    for bad in (5, None, True, io.BytesIO()):
        with pytest.raises(
            SaveError, match=f"cannot write: {type(bad).__name__} is no path; pass a str or an os.PathL"
        ):
            module.save(bad)  # type: ignore[arg-type]
    if os.path.isdir("/proc"):
        with pytest.raises(
            SaveError, match=r"cannot write /proc/b\.rlm: (its folder takes no files|Permission denied)"
        ):
            module.save("/proc/b.rlm")
    assert not list(tmp_path.iterdir())
    module.save(tmp_path / ("n" * 255))
    name = os.fsdecode(b"\xff\xfe.rlm")
    module.save(tmp_path / name)
    np.testing.assert_array_equal(load(tmp_path / name)(X, X), 2 * X)
    with pytest.raises(SaveError) as caught:
        module.save(tmp_path / "none" / name)
    assert str(caught.value).encode()  # a name that is no UTF-8 can be printed


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    files.write_folder(folder, {"a": b"1", "sub/b": b"2"})
    assert (folder / "a").read_bytes() == b"1" and (folder / "sub" / "b").read_bytes() == b"2"
    with pytest.raises(SaveError, match=r"cannot write .*/a/x: "):
        files.write_folder(folder / "a", {"x": b"3"})
    (folder / "c").mkdir()
    with pytest.raises(SaveError, match=r"cannot write .*c: it is a folder"):
        files.write_folder(folder, {"a": b"3", "new/d": b"4", "c": b"5"})
    assert sorted(p.name for p in folder.iterdir()) == ["a", "c", "sub"] and (folder / "a").read_bytes() == b"1"
    monkeypatch.setattr(files.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(SaveError, match="No space left"):
        files.write_folder(tmp_path / "other" / "deep", {"a": b"3"})
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_compiler_is_not_imported(blob: bytes, tmp_path: Path) -> None:
    path = tmp_path / "add.rlm"
    path.write_bytes(blob)
    script = f"""
import sys, numpy as np, rillet
module = rillet.load({str(path)!r})
x = np.ones(4, np.float32)
assert (module(x, x) == 2).all()
heavy = [m for m in ("torch_mlir", "llvmlite", "onnx", "flatbuffers", "ml_dtypes", "ziglang") if m in sys.modules]
assert not heavy, heavy
rooms = {{m.split(".")[1] for m in sys.modules if m.startswith("rillet.")}}
assert rooms == {{"errors", "runtime", "support"}}, rooms
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_forked_child_can_call_and_exit(elf: bytes, tmp_path: Path) -> None:
    path = tmp_path / "add.rlm"
    path.write_bytes(a.module(a.static_add(100_000), a.library(elf)))
    script = f"""
import os, numpy as np, rillet
module = rillet.load({str(path)!r}, threads=2)
x = np.ones(100_000, np.float32)
assert (module(x, x) == 2).all()
child = os.fork()
assert (module(x, x) == 2).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
