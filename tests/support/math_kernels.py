"""Kernels of one elementwise operation, references, and errors in units of the last place."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.support.kernel_harness import Kernel, generic, kernel_text

NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0]


def text_of(op: str, size: int, count: int, source: str, result: str, signature: str = "", attributes: str = "") -> str:
    """The kernel that applies ``op`` to the elements of ``count`` tensors of MLIR type ``source``."""
    types = [f"tensor<{size}x{source}>"] * count
    names = [f"%a{i}" for i in range(count)]
    maps = "|".join(["(d0)->(d0)"] * (count + 1))
    arguments = ",".join([*(f"%x{i}:{source}" for i in range(count)), f"%o:{result}"])
    body = f"%s = {op} {', '.join(f'%x{i}' for i in range(count))} {attributes} : {signature or source}"
    inputs = f"{','.join(names)}:{','.join(types)}"
    made = generic(maps, "p", inputs, f"%e:tensor<{size}x{result}>", arguments, body, f"%s:{result}")
    return kernel_text(
        "f",
        ", ".join(f"{v}: {t}" for v, t in zip(names, types, strict=True)),
        f"tensor<{size}x{result}>",
        f"%e = tensor.empty() : tensor<{size}x{result}>\n%r = {made}\nreturn %r : tensor<{size}x{result}>",
    )


def apply(
    op: str,
    arrays: list[np.ndarray],
    source: str,
    target: str,
    result: str = "",
    signature: str = "",
    attributes: str = "",
) -> np.ndarray:
    """Run ``op`` elementwise on arrays of MLIR type ``source``; the result has type ``result``."""
    n = arrays[0].size
    text = text_of(op, n, len(arrays), source, result or source, signature, attributes)
    (out,) = Kernel(text, target)(arrays, [((n,), DTYPES.get(result or source, arrays[0].dtype.type))])
    return out


DTYPES = {
    **NUMPY,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}


FUNCTIONS = {
    "exp": (np.exp, (-104, 88.7), (-745, 709), 1.0),
    "exp2": (np.exp2, (-150, 127.9), (-1075, 1023), 1.0),
    "expm1": (np.expm1, (-20, 88), (-40, 709), 2.0),
    "tanh": (np.tanh, (-12, 12), (-22, 22), 2.0),
    "sinh": (np.sinh, (-89, 89), (-710, 710), 2.5),
    "cosh": (np.cosh, (-89, 89), (-710, 710), 2.5),
    "log": (np.log, (1e-3, 50), (1e-3, 50), 1.0),
    "log2": (np.log2, (1e-3, 50), (1e-3, 50), 2.0),
    "log10": (np.log10, (1e-3, 50), (1e-3, 50), 2.0),
    "log1p": (np.log1p, (-0.99, 5), (-0.99, 5), 2.0),
    "sin": (np.sin, (-1000, 1000), (-1000, 1000), 2.0),
    "cos": (np.cos, (-1000, 1000), (-1000, 1000), 2.0),
    "tan": (np.tan, (-100, 100), (-100, 100), 3.0),
    "asin": (np.arcsin, (-1, 1), (-1, 1), 2.0),
    "acos": (np.arccos, (-1, 1), (-1, 1), 2.0),
    "atan": (np.arctan, (-10, 10), (-10, 10), 2.0),
    "asinh": (np.arcsinh, (-100, 100), (-100, 100), 2.0),
    "acosh": (np.arccosh, (1, 100), (1, 100), 2.0),
    "atanh": (np.arctanh, (-1, 1), (-1, 1), 2.0),
    "cbrt": (np.cbrt, (-100, 100), (-100, 100), 1.0),
    "sqrt": (np.sqrt, (0, 100), (0, 100), 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-3, 100), (1e-3, 100), 1.5),
    "floor": (np.floor, (-9, 9), (-9, 9), 0),
    "ceil": (np.ceil, (-9, 9), (-9, 9), 0),
    "trunc": (np.trunc, (-9, 9), (-9, 9), 0),
    "roundeven": (np.rint, (-9, 9), (-9, 9), 0),
    "absf": (np.abs, (-9, 9), (-9, 9), 0),
}


def ulps(actual: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the rounded exact value, where that is finite."""
    rounded = exact.astype(actual.dtype)
    finite = np.isfinite(rounded)
    assert (np.isnan(actual) == np.isnan(rounded)).all()
    assert (actual[~finite & ~np.isnan(rounded)] == rounded[~finite & ~np.isnan(rounded)]).all()
    error = np.abs(actual[finite].astype(np.longdouble) - exact[finite])
    return float((error / np.spacing(np.abs(rounded[finite])).astype(np.longdouble)).max(initial=0))


GELUS = {  # a (1 + erf(z)) / 2 as models write it; z: the f32 whose erf that is
    "product": "%z = arith.mulf %x, %r : f32;%e = math.erf %z : f32;%t = arith.addf %e, %one : f32"
    ";%p = arith.mulf %x, %t : f32;%s = arith.mulf %p, %half : f32",
    "quotient": "%z = arith.divf %x, %q : f32;%e = math.erf %z : f32;%t = arith.addf %one, %e : f32"
    ";%p = arith.mulf %t, %x : f32;%s = arith.mulf %half, %p : f32",
    "half first": "%h = arith.mulf %x, %half : f32;%z = arith.mulf %r, %x : f32;%e = math.erf %z : f32"
    ";%t = arith.addf %e, %one : f32;%s = arith.mulf %h, %t : f32",
    "twice": "%z = arith.mulf %x, %r : f32;%e = math.erf %z : f32;%t = arith.addf %e, %one : f32"
    ";%s = arith.mulf %x, %t : f32",
    "as it is": "%e = math.erf %x : f32;%t = arith.addf %e, %one : f32;%s = arith.mulf %x, %t : f32",
}


def gelu_kernel(form: str, n: int) -> str:
    t = f"tensor<{n}xf32>"
    constants = "%one = arith.constant 1.0 : f32\n%half = arith.constant 0.5 : f32"
    constants += "\n%r = arith.constant 0.70710678 : f32\n%q = arith.constant 1.41421356 : f32"
    body = generic("(d0)->(d0)|(d0)->(d0)", "p", f"%a:{t}", f"%i:{t}", "%x:f32,%o:f32", GELUS[form], "%s:f32")
    return kernel_text("f", f"%a: {t}", t, f"{constants}\n%i = tensor.empty() : {t}\n%g = {body}\nreturn %g : {t}")
