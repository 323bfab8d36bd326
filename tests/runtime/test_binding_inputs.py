"""What may be passed as an input, and what is said about what may not."""

from __future__ import annotations

from array import array
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rillet import RunError
from rillet.runtime import Module, load
from tests.support import bytecode_assembler as a


@pytest.fixture(scope="module")
def add(elf: bytes) -> Module:
    return load(a.module(a.static_add(4), a.library(elf)), threads=1)


@pytest.fixture(scope="module")
def dynamic(elf: bytes) -> Module:
    return load(a.module(a.dynamic_add(), a.library(elf)), threads=1)


X = np.arange(4, dtype=np.float32)


class Exporter:
    """What knows DLPack only."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("it needs a gradient")


@pytest.mark.parametrize(
    "value",
    [
        np.arange(8, dtype=np.float32)[::2] / 2,
        X.astype(">f4"),
        [0.0, 1.0, 2.0, 3.0],
        (0, 1, 2, 3),
        [0, 1.0, np.float32(2), 3],
        np.frombuffer(b"\0" + X.tobytes(), dtype=np.float32, offset=1),
        X[::-1][::-1],
        memoryview(X),
        np.ma.masked_array(X),
        Exporter(X),
        array("f", X),
        np.arange(3, -1, -1, dtype=np.float32)[::-1],
        np.broadcast_to(X, (2, 4))[1],
    ],
    ids=[
        "strided",
        "big-endian",
        "list",
        "integers",
        "mixed",
        "misaligned",
        "reversed twice",
        "memoryview",
        "subclass",
        "DLPack",
        "array.array",
        "negative stride",
        "broadcast",
    ],
)
def test_what_is_taken(add: Module, value: Any) -> None:
    np.testing.assert_array_equal(add(value, X), 2 * X)


def test_read_only_arrays_are_taken(add: Module) -> None:
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(add(x, x), 2 * X)


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ((X,), {}, "input 'y' is missing; the model's inputs are: x, y"),
        ((), {}, "input 'x', 'y' is missing"),
        ((X, X, X), {}, r"the model takes 2 inputs \(x, y\), got 3"),
        ((X,), {"z": X}, "the model has no input 'z'; its inputs are: x, y"),
        ((X, X), {"y": X}, "input 'y' was given both by position and by name"),
        ((X, X.astype(np.float64)), {}, r"input 'y': expected float32, got float64; .*\.astype\('float32'\)"),
        ((X, X.astype(np.int32)), {}, "input 'y': expected float32, got int32"),
        ((X, X.astype(">f8")), {}, "input 'y': expected float32, got >f8"),
        ((X, np.array(["a"] * 4)), {}, "input 'y': expected float32, got <U1"),
        ((X, [1j] * 4), {}, "input 'y': expected an array of float32, but a list of complex128 values was given"),
        ((X, ["a", "b"]), {}, "input 'y': expected an array of float32, but a list of text was given"),
        ((X, None), {}, "input 'y': expected an array of float32, but None was given"),
        ((X, "abc"), {}, "input 'y': expected an array of float32, but the str 'abc' was given"),
        ((X, [None, 1.0]), {}, "input 'y': expected an array of float32, but a list of Python objects was given"),
        ((X, [[1.0], [2.0, 3.0]]), {}, "input 'y': cannot make an array of list: its parts differ in length"),
        ((X, [1 << 70, 1, 1, 1]), {}, "float32, but a list of integers that no type holds was given"),
        ((X, [1e300, 1, 1, 1]), {}, "input 'y': the value given does not fit float32: overflow"),
        ((X, X.astype(object)), {}, "input 'y': expected float32, got object"),
        (
            (X, np.ma.masked_array(X, mask=X > 2)),
            {},
            r"input 'y': elements are masked; give .*filled\(0\)",
        ),
        ((X, Broken()), {}, "input 'y': cannot make an array of Broken: it needs a gradient"),
        ((X, Exporter(X.astype(np.float64))), {}, "input 'y': expected float32, got float64"),
        ((X, X.reshape(2, 2)), {}, r"input 'y': expected shape \(4,\), got \(2, 2\)"),
        ((X, X[:3]), {}, r"input 'y': expected shape \(4,\), got \(3,\)"),
        ((X, np.float32(1)), {}, r"input 'y': expected shape \(4,\), got \(\)"),
        ((X, np.zeros((0,), np.float32)), {}, r"input 'y': expected shape \(4,\), got \(0,\)"),
        ((X, np.zeros((1,) * 33, np.float32)), {}, "33 dimensions"),
    ],
)
def test_what_is_refused(add: Module, arrays: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        add(*arrays, **named)


def test_run_names_what_is_wrong(add: Module) -> None:
    with pytest.raises(RunError, match="input 'y' is missing"):
        add.run({"x": X})
    with pytest.raises(RunError, match="has no input 'w'"):
        add.run({"x": X, "y": X, "w": X})
    with pytest.raises(RunError, match="has no input 'w'"):
        add.run({"x": X, "w": X})
    with pytest.raises(RunError, match="takes a mapping of arrays by input name, not list"):
        add.run([X, X])  # type: ignore[arg-type]


def test_run_takes_any_mapping(add: Module) -> None:
    np.testing.assert_array_equal(add.run(MappingProxyType({"y": X, "x": X + 1}))["z"], 2 * X + 1)


def test_named_dimensions_must_agree(dynamic: Module) -> None:
    with pytest.raises(RunError, match=r"input 'y': dimension 0 \('N'\) is 3, but dimension 0 of input 'x' .* is 4"):
        dynamic(X, X[:3])
    with pytest.raises(RunError, match=r"input 'x': expected shape \(N,\), got \(2, 2\)"):
        dynamic(X.reshape(2, 2), X)


def test_python_numbers_take_the_type_of_the_input(elf: bytes) -> None:
    module = load(a.module(a.identity(a.I8), a.library(elf)))
    first, _ = module(-3)
    assert first.dtype == np.int8 and first.shape == () and first == -3
    with pytest.raises(RunError, match="input 'x': the value given does not fit int8"):
        module(300)
    with pytest.raises(RunError, match=r"input 'x': expected an array of int8, but the float 1\.5 was given"):
        module(1.5)


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        (16, ml_dtypes.bfloat16),
        (17, ml_dtypes.float8_e4m3fn),
        (19, ml_dtypes.float8_e5m2),
        (22, ml_dtypes.int4),
        (23, ml_dtypes.float4_e2m1fn),
        (10, np.float16),
        (14, np.complex64),
        (15, np.complex128),
        (9, np.bool_),
        (13, np.uint64),
    ],
)
def test_element_types(elf: bytes, code: int, dtype: Any) -> None:
    module = load(a.module(a.identity(code, "N"), a.library(elf)))
    x = np.array([0, 1, 1, 0], dtype=dtype)
    wide = np.complex128  # holds every type exactly
    assert module.inputs[0].dtype == x.dtype
    for value in (x, x[::2]):
        first, second = module(value)
        assert first.dtype == x.dtype
        np.testing.assert_array_equal(first.astype(wide), value.astype(wide))
        np.testing.assert_array_equal(second.astype(wide), value.astype(wide))
