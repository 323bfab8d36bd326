"""Chains of contractions and row-wise reductions over the same rows, in one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.knobs import Knobs
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, generic, kernel_text
from tests.support.kernel_texts import tensor

_LOOPS = "(b, h, m, n, k)"


def _fill(name: str, shape: tuple[int | str, ...], value: str, dims: str = "") -> str:
    type_ = tensor(shape)
    return (
        f"%{name}_v = arith.constant {value} : f32\n%{name}_e = tensor.empty({dims}) : {type_}\n"
        f"%{name} = linalg.fill ins(%{name}_v : f32) outs(%{name}_e : {type_}) -> {type_}\n"
    )


def _product(name: str, maps: str, iterators: str, inputs: str, init: str, result: str) -> str:
    body = "%t = arith.mulf %x, %y : f32; %u = arith.addf %c, %t : f32"
    ins = generic(maps, iterators, inputs, f"{init}:{result}", "%x: f32, %y: f32, %c: f32", body, "%u:f32")
    return f"%{name} = {ins}\n"


def _softmax(scores: str, shape: tuple[int | str, ...], dims: str, row_dims: str) -> str:
    """``%p``: the softmax of ``%scores`` over its last axis; ``dims`` and ``row_dims``: the scalars of the dynamic
    extents, of all axes and of those of the rows.
    """
    rank = len(shape)
    names = [f"d{n}" for n in range(rank)]
    whole, part = ", ".join(names), ", ".join(names[:-1])
    every, row = f"({whole}) -> ({whole})", f"({whole}) -> ({part})"
    type_, rows = tensor(shape), tensor(shape[:-1])
    parallel, reduced = "p" * rank, "p" * (rank - 1) + "r"
    two = "%x: f32, %c: f32"
    text = _fill("low", shape[:-1], "0xFF800000", row_dims) + _fill("zero_row", shape[:-1], "0.0", row_dims)
    text += f"%room = tensor.empty({dims}) : {type_}\n"

    def step(name: str, maps: str, iterators: str, inputs: str, output: str, takes: str, body: str, made: str) -> str:
        return f"%{name} = {generic(maps, iterators, inputs, output, takes, body, made)}\n"

    three, maps = "%x: f32, %y: f32, %c: f32", f"{every}|{row}|{every}"
    shifted, divided = "%t = arith.subf %x, %y : f32; %u = math.exp %t : f32", "%t = arith.divf %x, %y : f32"
    largest, added = "%t = arith.maximumf %c, %x : f32", "%t = arith.addf %c, %x : f32"
    room = f"%room:{type_}"
    text += step("max", f"{every}|{row}", reduced, f"{scores}:{type_}", f"%low:{rows}", two, largest, "%t:f32")
    text += step("exp", maps, parallel, f"{scores}, %max:{type_}, {rows}", room, three, shifted, "%u:f32")
    text += step("sum", f"{every}|{row}", reduced, f"%exp:{type_}", f"%zero_row:{rows}", two, added, "%t:f32")
    return text + step("p", maps, parallel, f"%exp, %sum:{type_}, {rows}", room, three, divided, "%t:f32")


def attention(heads: int, rows: int | str, keys: int | str, depth: int, width: int, batch: int | str = 1) -> str:
    """softmax(q k / 4 + mask) v: q [batch, rows, heads, depth], k and v [batch, keys, heads, ..], mask [batch, keys];
    the result as q is, written transposed. Dynamic extents are the scalars ``%batch``, ``%rows`` and
    ``%keys``, those that there are.
    """
    q, k, v = (tensor((batch, r, heads, d)) for r, d in ((rows, depth), (keys, depth), (keys, width)))
    mask, scores = tensor((batch, keys)), (batch, heads, rows, keys)
    scalars = [name for name, e in (("batch", batch), ("rows", rows), ("keys", keys)) if e == "?"]
    all_dims = ", ".join(f"%{name}" for name in scalars)
    dims = ", ".join(f"%{name}" for name in scalars if name != "keys")
    result, made = tensor((batch, heads, rows, width)), tensor((batch, rows, heads, width))
    s = tensor(scores)
    body = _fill("s0", scores, "0.0", all_dims) + _fill("o0", (batch, heads, rows, width), "0.0", dims)
    maps = f"{_LOOPS} -> (b, m, h, k)|{_LOOPS} -> (b, n, h, k)|{_LOOPS} -> (b, h, m, n)"
    body += _product("s1", maps, "ppppr", f"%q, %k:{q}, {k}", "%s0", s)
    same = "(b, h, m, n) -> (b, h, m, n)"
    scaled = "%t = arith.mulf %x, %quarter : f32; %u = arith.addf %t, %y : f32"
    body += "%quarter = arith.constant 2.5e-01 : f32\n%s_room = tensor.empty(" + all_dims + f") : {s}\n"
    maps = f"{same}|(b, h, m, n) -> (b, n)|{same}"
    three = "%x: f32, %y: f32, %c: f32"
    body += f"%s2 = {generic(maps, 'pppp', f'%s1, %mask:{s}, {mask}', f'%s_room:{s}', three, scaled, '%u:f32')}\n"
    body += _softmax("%s2", scores, all_dims, dims)
    maps = f"{_LOOPS} -> (b, h, m, k)|{_LOOPS} -> (b, k, h, n)|{_LOOPS} -> (b, h, m, n)"
    body += _product("o1", maps, "ppppr", f"%p, %v:{s}, {v}", "%o0", result)
    body += f"%o_room = tensor.empty({dims}) : {made}\n"
    maps = "(b, m, h, n) -> (b, h, m, n)|(b, m, h, n) -> (b, m, h, n)"
    copied = generic(maps, "pppp", f"%o1:{result}", f"%o_room:{made}", "%x: f32, %c: f32", "", "%x:f32")
    body += f"%o = {copied}\nreturn %o : {made}"

    def port(name: str, type_: str, *axes: str) -> str:
        numbers = [str(4 + scalars.index(a)) for a in axes if a in scalars]
        return f"{name}{type_}" + (f" {{flow.dims = array<i64: {', '.join(numbers)}>}}" if numbers else "")

    arguments = [
        port("%q: ", q, "batch", "rows"),
        port("%k: ", k, "batch", "keys"),
        port("%v: ", v, "batch", "keys"),
        port("%mask: ", mask, "batch", "keys"),
        *(f"%{name}: index" for name in scalars),
    ]
    return kernel_text("attention", ", ".join(arguments), port("", made, "batch", "rows"), body)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The same in float64."""
    q, k, v, mask = (a.astype(np.float64) for a in (q, k, v, mask))
    s = np.einsum("bmhk,bnhk->bhmn", q, k) / 4 + mask[:, None, None, :]
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhmn,bnhd->bmhd", p / p.sum(-1, keepdims=True), v)


def inputs(batch: int, heads: int, rows: int, keys: int, depth: int, width: int) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    shapes = ((batch, rows, heads, depth), (batch, keys, heads, depth), (batch, keys, heads, width), (batch, keys))
    return [r.standard_normal(s).astype(np.float32) for s in shapes]


@pytest.mark.parametrize(
    ("batch", "heads", "rows", "keys", "depth", "width"),
    [
        (1, 3, 70, 48, 16, 32),
        (2, 1, 5, 37, 7, 9),
        (1, 1, 2, 16, 8, 8),
        (2, 4, 12, 130, 33, 17),
        (1, 2, 200, 3, 4, 40),
        (2, 3, 160, 160, 4, 8),  # all scores would be more than L2 holds
    ],
)
@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_attention(batch: int, heads: int, rows: int, keys: int, depth: int, width: int, target: str) -> None:
    kernel = Kernel(attention(heads, rows, keys, depth, width, batch), target)
    assert kernel.compiled.strategy == "chain"
    arrays = inputs(batch, heads, rows, keys, depth, width)
    (got,) = kernel(arrays, [((batch, rows, heads, width), np.float32)])
    np.testing.assert_allclose(got, reference(*arrays), rtol=2e-5, atol=2e-6)


def test_attention_with_dynamic_batch_and_rows() -> None:
    kernel = Kernel(attention(2, "?", 40, 16, 24, "?"))
    assert kernel.compiled.strategy == "chain"
    for batch, rows in ((1, 1), (3, 64), (2, 131)):
        arrays = inputs(batch, 2, rows, 40, 16, 24)
        (got,) = kernel(arrays, [((batch, rows, 2, 24), np.float32)], [batch, rows])
        np.testing.assert_allclose(got, reference(*arrays), rtol=2e-5, atol=2e-6)


def test_attention_with_dynamic_keys() -> None:
    """Blocks have fewer rows the more keys there are, at last one."""
    kernel = Kernel(attention(2, "?", "?", 8, 16))
    assert kernel.compiled.strategy == "chain"
    room = targets.get("host").machine.l2_bytes // 2
    for rows, keys in ((1, 1), (70, 64), (131, 37), (40, 2000), (9, room // 8), (5, room // 8 + 1), (3, 131072)):
        arrays = inputs(1, 2, rows, keys, 8, 16)
        (got,) = kernel(arrays, [((1, rows, 2, 16), np.float32)], [rows, keys])
        np.testing.assert_allclose(got, reference(*arrays), rtol=2e-4, atol=2e-5)


def test_infinite_mask_and_nan() -> None:
    """A row masked whole is not a number, and so are the others' results where v is not."""
    arrays = inputs(1, 2, 20, 32, 8, 16)
    arrays[3][0, 5:] = -np.inf
    arrays[0][0, 3, 1] = np.nan
    (got,) = Kernel(attention(2, 20, 32, 8, 16))(arrays, [((1, 20, 2, 16), np.float32)])
    np.testing.assert_allclose(got, reference(*arrays), rtol=2e-5, atol=2e-6)
    assert np.isnan(got[0, 3, 1]).all()


def test_scratch_holds_a_block_of_rows_only() -> None:
    """Two tiles of a block of at most 64 rows and a contraction's own scratch, not all 1024 x 256 scores."""
    kernel = Kernel(attention(1, 1024, 256, 16, 16))
    assert 16 * 256 * 4 <= kernel.compiled.local_memory_size <= targets.get("host").machine.l2_bytes
    assert kernel.grid()[0] >= 16
    assert kernel.grid()[0] % 2 == 0  # two workers share them evenly


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(row_tiles=1),
        Knobs(row_tiles=1 << 24, stages=(Knobs(tile_rows=5, tile_vectors=1),)),
        Knobs(row_tiles=2, stages=(Knobs(rows_outer=0), Knobs(tile_rows=8, tile_vectors=2), Knobs(tile_rows=7))),
        Knobs(stages=(Knobs(unroll=5), Knobs(tile_rows=3, tile_vectors=1), Knobs(tile_vectors=1, rows_outer=1))),
        Knobs(stages=(Knobs(tile_rows=32), Knobs(), Knobs(), Knobs(tile_rows=3))),
    ],
)
def test_chains_take_any_choice(knobs: Knobs) -> None:
    kernel = Kernel(attention(3, 70, 48, 16, 33), "host", CodegenOptions(knobs=knobs))
    arrays = inputs(1, 3, 70, 48, 16, 33)
    (got,) = kernel(arrays, [((1, 70, 3, 33), np.float32)])
    np.testing.assert_allclose(got, reference(*arrays), rtol=2e-5, atol=2e-6)
    choice = kernel.compiled.choice
    assert choice is not None and choice.problem["rows"] == 70 and choice.problem["points"] == 3
    for number in range(3):
        asked, made = knobs.of_stage(number).given(), choice.knobs.of_stage(number).given()
        assert asked.items() <= made.items() and choice.stages[number].knobs.given() == made
    assert kernel.grid()[0] == -(-70 // (choice.problem["step"] * (choice.knobs.row_tiles or 0)))


def test_what_was_decided_about_a_chain_gives_the_same_kernel() -> None:
    first = Kernel(attention(2, 120, 48, 16, 32), "x86-64-v3").compiled
    assert first.choice is not None and len(first.choice.stages) == 3
    again = Kernel(attention(2, 120, 48, 16, 32), "x86-64-v3", CodegenOptions(knobs=first.choice.knobs)).compiled
    assert again.object == first.object


def test_chains_of_unknown_sizes_take_any_choice() -> None:
    knobs = Knobs(row_tiles=3, stages=(Knobs(tile_rows=5), Knobs(tile_rows=8), Knobs(tile_rows=3, tile_vectors=1)))
    kernel = Kernel(attention(2, "?", "?", 8, 16), "host", CodegenOptions(knobs=knobs))
    for rows, keys in ((1, 1), (70, 64), (131, 37)):
        arrays = inputs(1, 2, rows, keys, 8, 16)
        (got,) = kernel(arrays, [((1, rows, 2, 16), np.float32)], [rows, keys])
        np.testing.assert_allclose(got, reference(*arrays), rtol=2e-4, atol=2e-5)
