"""Attention as one kernel: its text, its inputs, and the same in float64."""

from __future__ import annotations

import numpy as np

from tests.support.kernel_harness import generic, kernel_text
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


def attention_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The same in float64."""
    q, k, v, mask = (a.astype(np.float64) for a in (q, k, v, mask))
    s = np.einsum("bmhk,bnhk->bhmn", q, k) / 4 + mask[:, None, None, :]
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhmn,bnhd->bmhd", p / p.sum(-1, keepdims=True), v)


def attention_inputs(batch: int, heads: int, rows: int, keys: int, depth: int, width: int) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    shapes = ((batch, rows, heads, depth), (batch, keys, heads, depth), (batch, keys, heads, width), (batch, keys))
    return [r.standard_normal(s).astype(np.float32) for s in shapes]
