"""Products of matrices of 8-bit integers as one kernel, and the layouts of their right-hand sides."""

from __future__ import annotations

import numpy as np

from tests.support.kernel_harness import kernel_text
from tests.support.kernel_texts import PACK, pack, tensor


def factors(left: str, right: str, left_zero: int, right_zero: int) -> str:
    """The body of a contraction of ``%x`` and ``%y`` into ``%c``."""
    return f"""
  %p = {left} %x : i8 to i32
  %q = {right} %y : i8 to i32
  %pz = arith.constant {left_zero} : i32
  %qz = arith.constant {right_zero} : i32
  %f = arith.subi %p, %pz : i32
  %g = arith.subi %q, %qz : i32
  %m = arith.muli %f, %g : i32
  %s = arith.addi %c, %m : i32
  linalg.yield %s : i32"""


def pack_pairs(right: np.ndarray) -> np.ndarray:
    """``[K.., N]`` as ``[N ceildiv PACK, K.. ceildiv 2, PACK, 2]``, zero padded."""
    panels = pack(right)
    *lead, steps, _ = panels.shape
    whole = np.pad(panels, [*((0, 0) for _ in lead), (0, steps % 2), (0, 0)])
    return np.ascontiguousarray(whole.reshape(*lead, -1, 2, PACK).swapaxes(-1, -2))


LAYOUTS = {  # of the right-hand side: how it is made, its shape, how it is read
    "rows": (lambda b: b, lambda k, n: (k, n), "k, n"),
    "panels": (pack, lambda k, n: (-(-n // PACK), k, PACK), f"n floordiv {PACK}, k, n mod {PACK}"),
    "pairs": (
        pack_pairs,
        lambda k, n: (-(-n // PACK), -(-k // 2), PACK, 2),
        f"n floordiv {PACK}, k floordiv 2, n mod {PACK}, k mod 2",
    ),
}


def product(m: int | str, n: int, k: int, body: str, layout: str = "pairs") -> str:
    """``%a[m, k] %b[k, n]``."""
    result, left = tensor((m, n), "i32"), tensor((m, k), "i8")
    _, shape, axes = LAYOUTS[layout]
    right = tensor(shape(k, n), "i8")
    maps = ("m, k", axes, "m, n")
    dims = " {flow.dims = array<i64: 2>}" if m == "?" else ""
    text = f"""
%zero = arith.constant 0 : i32
%e = tensor.empty({"%d" if dims else ""}) : {result}
%init = linalg.fill ins(%zero : i32) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[{", ".join(f"affine_map<(m, n, k)->({x})>" for x in maps)}],
    iterator_types=["parallel", "parallel", "reduction"]}}
    ins(%a, %b : {left}, {right}) outs(%init : {result}) {{
^bb0(%x: i8, %y: i8, %c: i32):{body}
}} -> {result}
return %0 : {result}"""
    arguments = f"%a: {left}{dims}, %b: {right}" + (", %d: index" if dims else "")
    return kernel_text("pairs", arguments, result + dims, text)
