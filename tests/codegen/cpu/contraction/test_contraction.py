from __future__ import annotations

import re

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu import cost_model
from rillet.codegen.knobs import Knobs
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel
from tests.support.kernel_texts import PACK, assert_close, batched, matmul, pack


def _check(m: int, n: int, k: int, target: str, options: CodegenOptions | None = None) -> Kernel:
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    bias = rng.standard_normal(n, np.float32)
    kernel = Kernel(matmul(m, n, k), target, options)
    assert kernel.compiled.strategy == "contraction"
    [y] = kernel([a, pack(b), bias], [((m, n), np.float32)])
    assert_close(y, np.maximum(a.astype(np.float64) @ b + bias, 0))
    return kernel


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (1, 7, 17),
        (7, 17, 33),
        (33, 1, 7),
        (17, 33, 1),
        (6, 16, 64),
        (49, 24, 37),
        (1, 1000, 40),
        (101, 40, 9),
    ],
)
def test_odd_sizes(m: int, n: int, k: int) -> None:
    _check(m, n, k, "host")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 17, 33), (26, 31, 12)])
def test_targets(target: str, m: int, n: int, k: int) -> None:
    _check(m, n, k, target)


@pytest.mark.parametrize(("m", "n", "k"), [(4, 32, 1), (9, 40, 37), (31, 45, 600), (70, 300, 256)])
def test_left_hand_elements_are_spread_where_loads_do_not_broadcast(m: int, n: int, k: int) -> None:
    """One part of the reduction, and several; a last tile of fewer rows and of fewer columns."""
    kernel = _check(m, n, k, "x86-64-v2")
    assert kernel.compiled.local_memory_size >= 4 * 4 * min(m, 4) * min(k, 200)


@pytest.mark.parametrize("m", [1, 4, 7, 33])
def test_spread_rows_of_unknown_number(m: int) -> None:
    rng = np.random.default_rng(m)
    x, y = rng.standard_normal((1, m, 300), np.float32), rng.standard_normal((1, 300, 40), np.float32)
    text = batched(("1x?x300", "1x300x40", "1x?x40"), ("b, m, k", "b, k, n", "b, m, n"), "2||2", "nm")
    [z] = Kernel(text, "x86-64-v2")([x, y], [((1, m, 40), np.float32)], [m])
    assert_close(z, x.astype(np.float64) @ y)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("n", [40, 300])
def test_rows_of_unknown_number_may_be_one(target: str, n: int) -> None:
    """A single row goes by wide tiles of its own."""
    shapes = ("1x?x70", f"{-(-n // PACK)}x70x{PACK}", f"1x?x{n}")
    maps = ("b, m, k", f"n floordiv {PACK}, k, n mod {PACK}", "b, m, n")
    kernel = Kernel(batched(shapes, maps, "2||2", "nm"), target)
    rng = np.random.default_rng(0)
    b = rng.standard_normal((70, n), np.float32)
    for m in (1, 2, 9):
        a = rng.standard_normal((1, m, 70), np.float32)
        [y] = kernel([a, pack(b)], [((1, m, n), np.float32)], [m])
        assert_close(y, a.astype(np.float64) @ b)


@pytest.mark.parametrize(("m", "n", "k"), [(31, 45, 50), (64, 70, 129)])
def test_reductions_with_spread_rows_are_done_in_parts(m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Kernel(matmul(m, n, k), "x86-64-v2").compiled.local_memory_size
    monkeypatch.setattr(cost_model, "SPREAD_STEPS", 16)
    assert _check(m, n, k, "x86-64-v2").compiled.local_memory_size > whole


@pytest.mark.parametrize(("m", "n", "k"), [(31, 45, 50), (64, 70, 129)])
def test_reductions_are_done_in_parts_on_demand(m: int, n: int, k: int) -> None:
    whole = Kernel(matmul(m, n, k), "host").compiled.local_memory_size
    kernel = _check(m, n, k, "host", CodegenOptions(knobs=Knobs(reduction_block=16)))
    assert kernel.compiled.local_memory_size > whole


@pytest.mark.parametrize(("m", "n", "k"), [(13, 300, 257), (70, 136, 600)])
def test_weights_that_are_fetched_ahead(m: int, n: int, k: int) -> None:
    """The last column tile of all fetches from beyond the weights, and row tiles are no power of two."""
    assert cost_model.prefetches(targets.get("x86-64-v3"), 4 * n * k)
    _check(m, n, k, "x86-64-v3")


@pytest.mark.parametrize(("m", "fetched"), [(7, False), (26, True)])
def test_weights_that_few_row_tiles_use_are_not_fetched_ahead(m: int, fetched: bool) -> None:
    kernel = _check(m, 300, 257, "x86-64-v3", CodegenOptions(keep_intermediates=True))
    assert ("prefetch" in kernel.compiled.assembly) == fetched


@pytest.mark.parametrize("target", ["host", "x86-64-v2", "x86-64-v3"])
def test_a_long_product_is_split_into_workgroups(target: str) -> None:
    assert np.prod(_check(300, 260, 400, target).grid()) >= 2


def test_a_short_product_is_one_workgroup() -> None:
    assert _check(16, 64, 64, "host").grid() == (1, 1, 1)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (3, 7, 17, 5), (2, 33, 64, 32), (4, 12, 10, 40)])
@pytest.mark.parametrize("transposed", [False, True])
def test_unpacked_right_hand_side(target: str, size: tuple[int, int, int, int], transposed: bool) -> None:
    b, m, n, k = size
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((b, m, k), np.float32), rng.standard_normal((b, k, n), np.float32)
    right = f"{b}x{n}x{k}" if transposed else f"{b}x{k}x{n}"
    text = batched(
        (f"{b}x{m}x{k}", right, f"{b}x{m}x{n}"), ("b, m, k", "b, n, k" if transposed else "b, k, n", "b, m, n")
    )
    kernel = Kernel(text, target)
    assert kernel.compiled.strategy == "contraction"
    [z] = kernel([x, y.transpose(0, 2, 1) if transposed else y], [((b, m, n), np.float32)])
    assert_close(z, x.astype(np.float64) @ y)


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (2, 7, 17, 33), (3, 20, 5, 32), (1, 65, 48, 16)])
@pytest.mark.parametrize("transposed", [False, True])
def test_dynamic_extents(target: str, size: tuple[int, int, int, int], transposed: bool) -> None:
    b, m, n, k = size
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((b, m, k), np.float32), rng.standard_normal((b, k, n), np.float32)
    maps = ("b, m, k", "b, n, k" if transposed else "b, k, n", "b, m, n")
    dims = f"2,3,5|2,{'4,5' if transposed else '5,4'}|2,3,4"
    kernel = Kernel(batched(("?x?x?", "?x?x?", "?x?x?"), maps, dims, "nb nm nn nk"), target)
    assert kernel.compiled.strategy == "contraction"
    [z] = kernel([x, y.transpose(0, 2, 1) if transposed else y], [((b, m, n), np.float32)], [b, m, n, k])
    assert_close(z, x.astype(np.float64) @ y)


def test_heads_stay_interleaved_in_memory() -> None:
    """Attention scores from [sequence, head, feature] operands: the batch loop is neither operand's outermost axis."""
    s, h, d = 21, 3, 16
    rng = np.random.default_rng(3)
    q, v = rng.standard_normal((s, h, d), np.float32), rng.standard_normal((s, h, d), np.float32)
    text = batched((f"{s}x{h}x{d}",) * 2 + (f"{h}x{s}x{s}",), ("m, b, k", "n, b, k", "b, m, n"))
    kernel = Kernel(text)
    assert kernel.compiled.strategy == "contraction"
    [z] = kernel([q, v], [((h, s, s), np.float32)])
    assert_close(z, np.einsum("mhd,nhd->hmn", q.astype(np.float64), v))


@pytest.mark.parametrize(
    ("target", "multiply_add", "sums", "broadcast"),
    [
        ("x86-64-v3", "vfmadd", 12, "vbroadcastss"),
        ("x86-64-v4", "vfmadd", 24, "vbroadcastss"),
        ("aarch64", "fmla", 24, ""),
    ],
)
def test_the_inner_loop_keeps_its_sums_in_registers(target: str, multiply_add: str, sums: int, broadcast: str) -> None:
    """The loop with the multiply-adds touches no stack; on AArch64 it multiplies by an element."""
    from rillet import targets
    from rillet.codegen.cpu.compile import compile_kernel
    from rillet.codegen.result import CodegenOptions

    text = matmul(84, 96, 384)
    assembly = compile_kernel(text, targets.get(target), CodegenOptions(keep_intermediates=True)).assembly
    loops = re.findall(r"^(\.LBB\d+_\d+):((?:(?!^\.LBB).)*?)\n\s+(?:j\w+|b\.\w+)\s+\1$", assembly, re.M | re.S)
    loop = max((body for _, body in loops), key=lambda body: body.count(multiply_add))
    assert loop.count(multiply_add) >= sums
    assert "(%rsp" not in loop and "[sp" not in loop
    if target == "aarch64":
        assert re.search(r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[", loop)
    else:
        assert loop.count(broadcast) * 2 <= loop.count(multiply_add)
