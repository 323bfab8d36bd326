"""Texts of kernels around one root, and their references, for the tests of the fast kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.kernel_harness import kernel_text

PACK = 16


def pack(weights: np.ndarray, kept: int = 0) -> np.ndarray:
    """``[kept.., K.., N]`` -> ``[kept.., N ceildiv 16, K.., 16]``, zero padded."""
    n = weights.shape[-1]
    panels = -(-n // PACK)
    padded = np.zeros((*weights.shape[:-1], panels * PACK), weights.dtype)
    padded[..., :n] = weights
    split = padded.reshape(*weights.shape[:-1], panels, PACK)
    return np.ascontiguousarray(np.moveaxis(split, -2, kept))


def tensor(shape: Sequence[int | str], element: str = "f32") -> str:
    """The tensor type's text; ``"?"`` for a dynamic extent."""
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def reduction(
    result: str, left: str, right: str, loops: str, maps: Sequence[str], iterators: str, element: str = "f32"
) -> str:
    """``%0`` = sum of products of ``%a`` and ``%b`` into ``%init``; ``maps``: results of the three indexing maps."""
    kinds = ", ".join('"parallel"' if c == "p" else '"reduction"' for c in iterators)
    affine = ", ".join(f"affine_map<({loops})->({m})>" for m in maps)
    return f"""
%0 = linalg.generic {{indexing_maps=[{affine}], iterator_types=[{kinds}]}}
    ins(%a, %b : {left}, {right}) outs(%init : {result}) {{
^bb0(%x: {element}, %y: {element}, %c: {element}):
  %p = arith.mulf %x, %y : {element}
  %s = arith.addf %c, %p : {element}
  linalg.yield %s : {element}
}} -> {result}"""


def narrow_product(m: int, n: int, blocks: int, block: int) -> str:
    """``x`` @ ``(q - z) * s`` of unsigned integers of 4 bits, two a byte, with a float ``s`` and an integer ``z`` for
    each block of the sum: arguments ``[m, blocks, block]``, ``[n / 16, blocks, block, 8]``, ``[n / 16, blocks, 16]``
    twice.
    """
    result, left = tensor([m, n]), tensor([m, blocks, block])
    words, scales = tensor([n // PACK, blocks, block, PACK // 2], "i8"), tensor([n // PACK, blocks, PACK])
    zeros = tensor([n // PACK, blocks, PACK], "i8")
    maps = ["m, b, k", "n floordiv 16, b, k, (n mod 16) floordiv 2", *["n floordiv 16, b, n mod 16"] * 2, "m, n"]
    affine = ", ".join(f"affine_map<(m, n, b, k)->({e})>" for e in maps)
    body = f"""{zero_init(result)}
%c2 = arith.constant 2 : index
%c4 = arith.constant 4 : index
%0 = linalg.generic {{indexing_maps=[{affine}],
    iterator_types=["parallel", "parallel", "reduction", "reduction"]}}
    ins(%a, %q, %s, %z : {left}, {words}, {scales}, {zeros}) outs(%init : {result}) {{
^bb0(%x: f32, %byte: i8, %scale: f32, %zero_point: i8, %c: f32):
  %column = linalg.index 1 : index
  %place = arith.remui %column, %c2 : index
  %distance = arith.muli %place, %c4 : index
  %shift = arith.index_cast %distance : index to i8
  %moved = arith.shrui %byte, %shift : i8
  %narrow = arith.trunci %moved : i8 to i4
  %wide = arith.extui %narrow : i4 to i32
  %lower = arith.extui %zero_point : i8 to i32
  %difference = arith.subi %wide, %lower : i32
  %number = arith.sitofp %difference : i32 to f32
  %weight = arith.mulf %number, %scale : f32
  %product = arith.mulf %x, %weight : f32
  %sum = arith.addf %c, %product : f32
  linalg.yield %sum : f32
}} -> {result}
return %0 : {result}"""
    arguments = f"%a: {left}, %q: {words}, %s: {scales}, %z: {zeros}"
    return kernel_text("narrow", arguments, result, body)


def zero_init(result: str, element: str = "f32", dynamic: str = "") -> str:
    """``%init``: a tensor of zeros; ``dynamic`` lists the scalars of its dynamic extents."""
    return f"""
%zero = arith.constant 0.0 : {element}
%e = tensor.empty({dynamic}) : {result}
%init = linalg.fill ins(%zero : {element}) outs(%e : {result}) -> {result}"""


def bias_relu(result: str, rank: int, bias: str) -> str:
    """``%1`` = max(``%0`` + ``%bias`` along the last axis, 0)."""
    loops = ", ".join(f"d{i}" for i in range(rank))
    kinds = ", ".join(['"parallel"'] * rank)
    same = f"affine_map<({loops})->({loops})>"
    return f"""
%1 = linalg.generic {{indexing_maps=[{same}, affine_map<({loops})->(d{rank - 1})>, {same}], iterator_types=[{kinds}]}}
    ins(%0, %bias : {result}, {bias}) outs(%e : {result}) {{
^bb0(%x: f32, %y: f32, %c: f32):
  %s = arith.addf %x, %y : f32
  %t = arith.maximumf %s, %zero : f32
  linalg.yield %t : f32
}} -> {result}"""


def matmul(m: int, n: int, k: int) -> str:
    """relu(A[m, k] B[k, n] + bias), B packed."""
    result, left, bias = tensor((m, n)), tensor((m, k)), tensor((n,))
    right = tensor((-(-n // PACK), k, PACK))
    maps = ("m, k", f"n floordiv {PACK}, k, n mod {PACK}", "m, n")
    body = zero_init(result) + reduction(result, left, right, "m, n, k", maps, "ppr") + bias_relu(result, 2, bias)
    return kernel_text("matmul", f"%a: {left}, %b: {right}, %bias: {bias}", result, f"{body}\nreturn %1 : {result}")


def batched(shapes: tuple[str, str, str], maps: tuple[str, str, str], dims: str = "", extents: str = "") -> str:
    """A batched product with loops (b, m, n, k); ``dims`` are the ``flow.dims`` of a, b and the result."""
    left, right, result = (f"tensor<{s}xf32>" for s in shapes)
    attributes = [f" {{flow.dims = array<i64: {d}>}}" if d else "" for d in (dims.split("|") if dims else [""] * 3)]
    scalars = "".join(f", %{name}: index" for name in extents.split())
    dynamic = ", ".join(f"%{extents.split()[int(d) - 2]}" for d in dims.split("|")[2].split(",")) if dims else ""
    body = zero_init(result, dynamic=dynamic)
    body += reduction(result, left, right, "b, m, n, k", maps, "pppr")
    arguments = f"%a: {left}{attributes[0]}, %b: {right}{attributes[1]}{scalars}"
    return kernel_text("batched", arguments, f"{result}{attributes[2]}", f"{body}\nreturn %0 : {result}")


def conv2d(
    batch: int,
    size: tuple[int, int],
    ic: int,
    oc: int,
    kernel: tuple[int, int],
    stride: int = 1,
    dilation: int = 1,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> tuple[str, tuple[int, ...]]:
    """relu(convolution + bias) of a channels-last input; weights packed. Also the result's shape. The kernel pads
    (top, left, bottom, right) by zeros that add nothing, where ``pads`` are not zero.
    """
    big = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
    oh, ow = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(big, kernel, strict=True))
    shape = (batch, oh, ow, oc)
    argument, left = tensor((batch, *size, ic)), tensor((batch, *big, ic))
    result, bias = tensor(shape), tensor((oc,))
    right = tensor((-(-oc // PACK), *kernel, ic, PACK))
    maps = (
        f"n, h * {stride} + i * {dilation}, w * {stride} + j * {dilation}, c",
        f"o floordiv {PACK}, i, j, c, o mod {PACK}",
        "n, h, w, o",
    )
    body = zero_init(result) + reduction(result, left, right, "n, h, w, o, i, j, c", maps, "pppprrr")
    if any(pads):
        padding = f"low[0, {pads[0]}, {pads[1]}, 0] high[0, {pads[2]}, {pads[3]}, 0]"
        body = f"""%nothing = arith.constant 0.0 : f32
%padded = tensor.pad %a {padding} {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  tensor.yield %nothing : f32
}} {{flow.adds_nothing}} : {argument} to {left}
{body.replace("%a", "%padded")}"""
    body += bias_relu(result, 4, bias)
    text = kernel_text("conv", f"%a: {argument}, %b: {right}, %bias: {bias}", result, f"{body}\nreturn %1 : {result}")
    return text, shape


def conv2d_reference(x: np.ndarray, w: np.ndarray, stride: int = 1, dilation: int = 1) -> np.ndarray:
    """Convolution in float64: ``x`` [n, h, w, ic] (padded already), ``w`` [kh, kw, ic, oc]."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    kh, kw = w.shape[:2]
    oh, ow = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(x.shape[1:3], (kh, kw), strict=True))
    total = np.zeros((x.shape[0], oh, ow, w.shape[3]))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation, i * dilation + (oh - 1) * stride + 1, stride)
            columns = slice(j * dilation, j * dilation + (ow - 1) * stride + 1, stride)
            total += x[:, rows, columns, :] @ w[i, j]
    return total


def depthwise(
    batch: int, size: tuple[int, int], channels: int, kernel: tuple[int, int], stride: int, dilation: int
) -> tuple[str, tuple[int, ...]]:
    """relu(depthwise convolution + bias) of an already padded channels-last input. Also the result's shape."""
    oh, ow = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(size, kernel, strict=True))
    shape = (batch, oh, ow, channels)
    result, left = tensor(shape), tensor((batch, *size, channels))
    right, bias = tensor((*kernel, channels)), tensor((channels,))
    maps = (f"n, h * {stride} + i * {dilation}, w * {stride} + j * {dilation}, c", "i, j, c", "n, h, w, c")
    body = zero_init(result) + reduction(result, left, right, "n, h, w, c, i, j", maps, "pppprr")
    body += bias_relu(result, 4, bias) + f"\nreturn %1 : {result}"
    return kernel_text("depthwise", f"%a: {left}, %b: {right}, %bias: {bias}", result, body), shape


def depthwise_reference(x: np.ndarray, w: np.ndarray, stride: int, dilation: int) -> np.ndarray:
    """The depthwise convolution alone, in float64."""
    kh, kw, _ = w.shape
    oh, ow = ((s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(x.shape[1:3], (kh, kw), strict=True))
    total = np.zeros((x.shape[0], oh, ow, x.shape[3]))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation, i * dilation + (oh - 1) * stride + 1, stride)
            columns = slice(j * dilation, j * dilation + (ow - 1) * stride + 1, stride)
            total += x[:, rows, columns].astype(np.float64) * w[i, j]
    return total


def assert_close(actual: np.ndarray, expected: np.ndarray, relative: float = 1e-5) -> None:
    """Largest error relative to the largest expected magnitude."""
    scale = float(np.abs(expected).max()) or 1.0
    assert np.abs(actual.astype(np.float64) - expected).max() <= relative * scale
