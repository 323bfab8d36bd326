"""Calls through the binding: results, ownership of memory, threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rillet
from rillet.ir.image import Segment
from rillet.runtime import Module, load
from tests.support import bytecode_assembler as a
from tests.support.call_counts import called


@pytest.fixture(params=[1, 2], ids=["sync", "task"])
def add(request: pytest.FixtureRequest, elf: bytes) -> Module:
    return load(a.module(a.static_add(1000), a.library(elf)), threads=request.param)


def test_call_by_position_and_by_name(add: Module) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 2, np.float32)
    np.testing.assert_array_equal(add(x, y), x + y)
    np.testing.assert_array_equal(add(x, y=y), x + y)
    np.testing.assert_array_equal(add(y=y, x=x), x + y)
    (result,) = add.run({"x": x, "y": y}).items()
    assert result[0] == "z"
    np.testing.assert_array_equal(result[1], x + y)


def test_a_call_makes_few_calls_in_python(add: Module) -> None:
    """A small model takes a few microseconds, of which each call in Python would be a share."""
    x = np.zeros(1000, np.float32)
    feeds = {"x": x, "y": x}
    assert called(lambda: add(x, x)) <= 6
    assert called(lambda: add.run(feeds)) <= 8


def test_declarations(add: Module) -> None:
    assert [s.name for s in add.inputs] == ["x", "y"]
    assert add.inputs[0].dtype == np.float32 and add.inputs[0].shape == (1000,)
    assert add.outputs[0].name == "z"
    assert add.stats["macs"] == 12
    assert add.targets == ["test"] and add.libraries[0]["selected"]
    assert repr(add) == "<rillet.Module (x: float32[1000], y: float32[1000]) -> (z: float32[1000])>"


def test_results_belong_to_the_caller(add: Module) -> None:
    x = np.ones(1000, np.float32)
    first, second = add(x, x), add(x, x)
    assert isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    first[:] = 7
    assert (second == 2).all()
    del add, x
    gc.collect()
    assert (first == 7).all() and (second == 2).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_dynamic_shapes(elf: bytes, threads: int) -> None:
    module = load(a.module(a.dynamic_add(), a.library(elf)), threads=threads)
    assert module.inputs[0].shape == ("N",)
    for n in (3, 0, 1, 256, 257, 100_000):
        x = np.random.default_rng(n).standard_normal(n, np.float32)
        result = module(x, x)
        assert isinstance(result, np.ndarray) and result.shape == (n,)
        np.testing.assert_array_equal(result, x + x)


def test_grid_with_local_memory(elf: bytes) -> None:
    image = a.one_dispatch(a.GRID, [], [], a.spec("out", a.I32, 7, 5, 3), 7 * 5 * 3 * 4)
    z, y, x = np.indices((7, 5, 3), dtype=np.int32)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(load(a.module(image, a.library(elf)), threads=threads)(), 100 * z + 10 * y + x)


def test_results_never_share_memory_with_inputs(elf: bytes) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first, second = load(a.module(a.identity(a.F32, 2, "N"), a.library(elf)))(x)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, x)
    assert not np.shares_memory(first, x) and not np.shares_memory(second, x) and not np.shares_memory(first, second)


def test_results_never_show_the_constants(elf: bytes) -> None:
    values = np.arange(5, dtype=np.int64)
    image = a.returned_constant(Segment(40, ((0, values),)), a.I64, 5)
    module = load(a.module(image, a.library(elf)))
    result = module()
    assert isinstance(result, np.ndarray)
    result[:] = 0
    np.testing.assert_array_equal(module(), values)


def test_kernels_cannot_write_to_inputs(elf: bytes) -> None:
    x = a.spec("x", a.I8, 4)
    image = a.one_dispatch(a.NEGATE, [4], [], a.spec("y", a.I8, 4), 4)
    assert load(a.module(image, a.library(elf)))() is not None
    p = a.Program()
    main = p.function(
        "main",
        "r",
        "r",
        [
            a.const(a.DEVICE, 0),
            a.const(0, 1),
            p.call("hal.cmd.create", [a.DEVICE, 0], (), (), [1]),
            a.const(1, 4),
            p.call("hal.cmd.constants", [1], [1]),
            *(a.const(20 + i, v) for i, v in enumerate((0, 0, 0, 4, a.READ_WRITE))),
            p.call("hal.cmd.bind", range(20, 25), [1]),
            a.const(2, a.NEGATE),
            p.call("hal.cmd.dispatch", [2], [1]),
            p.call("hal.cmd.end", (), [1]),
            p.call("hal.view.buffer", (), [0], (), [2]),
            p.call("hal.execute", (), [1, 2]),
            a.ret(0),
        ],
    )
    module = load(a.module(p.image(main, [x], [x]), a.library(elf)))
    with pytest.raises(rillet.RunError, match="write to slot 0, but its buffer is read-only"):
        module(np.ones(4, np.int8))


def test_errors_in_the_data_are_run_errors(elf: bytes) -> None:
    inputs = [(a.spec("table", a.F32, 4), 16, a.READ), (a.spec("indices", a.I64, 2), 16, a.READ)]
    image = a.one_dispatch(a.GATHER, [4, 2], inputs, a.spec("out", a.F32, 2), 8)
    for threads in (1, 2):
        module = load(a.module(image, a.library(elf)), threads=threads)
        table = np.arange(4, dtype=np.float32)
        np.testing.assert_array_equal(module(table, np.array([3, 0])), [3, 0])
        with pytest.raises(
            rillet.RunError, match=r"an index in the data is out of bounds \(in kernel 'gather'\)"
        ) as error:
            module(table, np.array([0, 4]))
        assert error.value.entry == a.GATHER
        with pytest.raises(rillet.RunError, match="input 'indices'") as error:
            module(table, np.zeros(3, np.int64))
        assert error.value.entry is None
        np.testing.assert_array_equal(module(table, np.array([1, 1])), [1, 1])


@pytest.mark.parametrize("threads", [1, 2])
def test_many_threads_call_one_module(elf: bytes, threads: int) -> None:
    module = load(a.module(a.static_add(5000), a.library(elf)), threads=threads)
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.full(5000, seed, np.float32)
        for i in range(300):
            if not (module(x, np.full(5000, i, np.float32)) == seed + i).all():
                failures.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


_SHARING = """
import gc, os, sys
import numpy as np
import rillet
from rillet.runtime import module
module.available_cores = lambda: 3
threads = lambda: len(os.listdir("/proc/self/task"))
idle, x = threads(), np.ones(50_000, np.float32)
modules = [rillet.load(sys.argv[1]) for _ in range(4)]
assert threads() == idle + 2, threads()
own = rillet.load(sys.argv[1], threads=2)
assert threads() == idle + 3
assert all((m(x, x) == 2).all() for m in [*modules, own])
child = os.fork()
if not child:
    # The parent's threads are not here: what was loaded goes on alone, what is loaded now has new ones.
    born = rillet.load(sys.argv[1])
    assert threads() == 3 and all((m(x, x) == 2).all() for m in [*modules, born])
    del modules
    gc.collect()
    assert (born(x, x) == 2).all() and threads() == 3
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
del modules, own
gc.collect()
assert threads() == idle, threads()
assert (rillet.load(sys.argv[1])(x, x) == 2).all()
"""


def test_modules_share_the_threads_of_all_cores(elf: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.rlm"
    path.write_bytes(a.module(a.static_add(50_000), a.library(elf)))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # its threads would be counted, and forking ends them
    subprocess.run([sys.executable, "-c", _SHARING, str(path)], check=True, timeout=60, env=environment)


@pytest.mark.parametrize("threads", [1, None])
def test_modules_on_one_device_are_called_at_the_same_time(elf: bytes, threads: int | None) -> None:
    blob = a.module(a.static_add(5000), a.library(elf))
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.full(5000, seed, np.float32)
        for i in range(100):
            module = load(blob, threads=threads)
            if not all((module(x, np.full(5000, i, np.float32)) == seed + i).all() for _ in range(3)):
                failures.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_nothing_leaks(elf: bytes) -> None:
    module = load(a.module(a.static_add(64), a.library(elf)), threads=1)
    x = np.ones(64, np.float32)
    bad = np.ones(65, np.float32)
    before = sys.getrefcount(x), sys.getrefcount(bad), sys.getrefcount(x.dtype)
    for _ in range(100):
        module(x, x)
        with pytest.raises(rillet.RunError):
            module(x, bad)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(bad)) == before[:2]
    assert abs(sys.getrefcount(x.dtype) - before[2]) < 20
