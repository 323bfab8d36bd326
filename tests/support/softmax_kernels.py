"""Softmax of a matrix as one kernel, and in numpy."""

from __future__ import annotations

import numpy as np

from tests.support.kernel_harness import generic, kernel_text

ID = "(d0,d1)->(d0,d1)"


def softmax(n: int | str, m: int | str, axis: int, attributes: str = "") -> str:
    """Softmax of an n x m matrix; ``"?"`` makes an extent dynamic."""
    t, kept = f"tensor<{n}x{m}xf32>", "(d0,d1)->(d0)" if axis == 1 else "(d0,d1)->(d1)"
    r = f"tensor<{n if axis == 1 else m}xf32>"
    kinds = "pr" if axis == 1 else "rp"
    sizes = ", ".join(s for s, e in (("%n", n), ("%m", m)) if e == "?")
    row = ("%n" if n == "?" else "") if axis == 1 else ("%m" if m == "?" else "")
    dims = [str(1 + i) for i, e in enumerate((n, m)) if e == "?"]
    note = f" {{flow.dims = array<i64: {', '.join(dims)}>}}" if dims else ""
    scalars = "".join(f", {s}: index" for s, e in (("%n", n), ("%m", m)) if e == "?")
    body = f"""
    %ninf = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty({sizes}) : {t}
    %re = tensor.empty({row}) : {r}
    %i0 = linalg.fill ins(%ninf : f32) outs(%re : {r}) -> {r}
    %i1 = linalg.fill ins(%zero : f32) outs(%re : {r}) -> {r}
    %max = {
        generic(
            f"{ID}|{kept}", kinds, f"%a:{t}", f"%i0:{r}", "%x:f32,%o:f32", "%s = arith.maximumf %x, %o : f32", "%s:f32"
        )
    }
    %exp = {
        generic(
            f"{ID}|{kept}|{ID}",
            "pp",
            f"%a,%max:{t},{r}",
            f"%e:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%d = arith.subf %x, %y : f32;%s = math.exp %d : f32",
            "%s:f32",
        )
    }
    %sum = {
        generic(
            f"{ID}|{kept}", kinds, f"%exp:{t}", f"%i1:{r}", "%x:f32,%o:f32", "%s = arith.addf %x, %o : f32", "%s:f32"
        )
    }
    %r = {
        generic(
            f"{ID}|{kept}|{ID}",
            "pp",
            f"%exp,%sum:{t},{r}",
            f"%e:{t}",
            "%x:f32,%y:f32,%o:f32",
            "%s = arith.divf %x, %y : f32",
            "%s:f32",
        )
    }
    return %r : {t}"""
    return kernel_text("softmax", f"%a: {t}{note}{scalars}", f"{t}{note}", body, attributes)


def numpy_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)
