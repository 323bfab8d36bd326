"""Kernels that move elements: permutations, pads, concatenations, slices, interleaved planes, insertions."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel, generic, kernel_text

TARGETS = ["x86-64-v2", "x86-64-v3", "host"]
F32 = np.float32


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


@pytest.mark.parametrize("perm", [(0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("shape", [(3, 5, 7), (8, 16, 24), (2, 33, 17)])
def test_permutation(perm: tuple[int, ...], shape: tuple[int, ...]) -> None:
    out = tuple(shape[p] for p in perm)
    # Loop i is result axis i; input axis perm[i] is loop i.
    source = ["", "", ""]
    for loop, axis in enumerate(perm):
        source[axis] = f"d{loop}"
    t, o = "x".join(map(str, shape)), "x".join(map(str, out))
    body = f"""
    %e = tensor.empty() : tensor<{o}xf32>
    %r = {
        generic(
            f"(d0,d1,d2)->({','.join(source)})|(d0,d1,d2)->(d0,d1,d2)",
            "ppp",
            f"%a:tensor<{t}xf32>",
            f"%e:tensor<{o}xf32>",
            "%x:f32,%o:f32",
            "",
            "%x:f32",
        )
    }
    return %r : tensor<{o}xf32>"""
    kernel = Kernel(kernel_text("permute", f"%a: tensor<{t}xf32>", f"tensor<{o}xf32>", body))
    a = random(*shape)
    (r,) = kernel([a], [(out, F32)])
    np.testing.assert_array_equal(r, a.transpose(perm))


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize("shape", [(64, 64), (33, 70), (7, 130), (100, 9)])
@pytest.mark.parametrize("dtype", ["f32", "i8", "f64", "i16"])
def test_transpose_fused_with_add(target: str, shape: tuple[int, int], dtype: str) -> None:
    n, m = shape
    numpy_type = {"f32": np.float32, "i8": np.int8, "f64": np.float64, "i16": np.int16}[dtype]
    add = "arith.addf" if dtype.startswith("f") else "arith.addi"
    maps = "(d0,d1)->(d1,d0)|(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)"
    body = f"""
    %e = tensor.empty() : tensor<{m}x{n}x{dtype}>
    %r = {
        generic(
            maps,
            "pp",
            f"%a,%b:tensor<{n}x{m}x{dtype}>,tensor<{m}x{n}x{dtype}>",
            f"%e:tensor<{m}x{n}x{dtype}>",
            f"%x:{dtype},%y:{dtype},%o:{dtype}",
            f"%s = {add} %x, %y : {dtype}",
            f"%s:{dtype}",
        )
    }
    return %r : tensor<{m}x{n}x{dtype}>"""
    arguments = f"%a: tensor<{n}x{m}x{dtype}>, %b: tensor<{m}x{n}x{dtype}>"
    kernel = Kernel(kernel_text("transpose", arguments, f"tensor<{m}x{n}x{dtype}>", body), target)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-50, 50, s).astype(numpy_type) for s in (shape, shape[::-1]))
    (r,) = kernel([a, b], [((m, n), numpy_type)])
    np.testing.assert_array_equal(r, a.T + b)


@pytest.mark.parametrize("pads", [((1, 2), (0, 0)), ((0, 0), (3, 1)), ((1, 1), (1, 1))])
def test_pad_of_a_computed_value(pads: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (t, b), (lo, hi) = pads
    out = (9 + t + b, 21 + lo + hi)
    body = f"""
    %c = arith.constant 7.0 : f32
    %e = tensor.empty() : tensor<9x21xf32>
    %d = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)",
            "pp",
            "%a:tensor<9x21xf32>",
            "%e:tensor<9x21xf32>",
            "%x:f32,%o:f32",
            "%s = arith.negf %x : f32",
            "%s:f32",
        )
    }
    %r = tensor.pad %d low[{t},{lo}] high[{b},{hi}] {{
    ^bb0(%i:index,%j:index):
      tensor.yield %c : f32 }} : tensor<9x21xf32> to tensor<{out[0]}x{out[1]}xf32>
    return %r : tensor<{out[0]}x{out[1]}xf32>"""
    kernel = Kernel(kernel_text("pad", "%a: tensor<9x21xf32>", f"tensor<{out[0]}x{out[1]}xf32>", body))
    a = random(9, 21)
    (r,) = kernel([a], [(out, F32)])
    np.testing.assert_array_equal(r, np.pad(-a, pads, constant_values=7))


@pytest.mark.parametrize("axis", [0, 1])
def test_concat(axis: int) -> None:
    shapes = [(4, 11), (4, 5), (4, 20)] if axis else [(4, 11), (1, 11), (3, 11)]
    types = [f"tensor<{n}x{m}xf32>" for n, m in shapes]
    out = (4, 36) if axis else (8, 11)
    body = f"""
    %r = tensor.concat dim({axis}) %a, %b, %c : ({", ".join(types)}) -> tensor<{out[0]}x{out[1]}xf32>
    return %r : tensor<{out[0]}x{out[1]}xf32>"""
    arguments = f"%a: {types[0]}, %b: {types[1]}, %c: {types[2]}"
    kernel = Kernel(kernel_text("concat", arguments, f"tensor<{out[0]}x{out[1]}xf32>", body))
    parts = [random(*s, seed=n) for n, s in enumerate(shapes)]
    (r,) = kernel(parts, [(out, F32)])
    np.testing.assert_array_equal(r, np.concatenate(parts, axis))


def test_strided_slice_and_reshape() -> None:
    body = """
    %s = tensor.extract_slice %a[1, 2, 3] [2, 1, 4] [2, 1, 3] : tensor<5x6x20xf32> to tensor<2x4xf32>
    %r = tensor.collapse_shape %s [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
    return %r : tensor<8xf32>"""
    kernel = Kernel(kernel_text("slice", "%a: tensor<5x6x20xf32>", "tensor<8xf32>", body))
    a = random(5, 6, 20)
    (r,) = kernel([a], [((8,), F32)])
    np.testing.assert_array_equal(r, a[1:5:2, 2, 3:15:3].reshape(8))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planes", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f32", "i8", "i1"])
def test_interleaving_a_few_planes(planes: int, dtype: str, target: str) -> None:
    numpy_type = {"f32": np.float32, "i8": np.int8, "i1": np.bool_}[dtype]
    body = f"""
    %e = tensor.empty() : tensor<2x37x{planes}x{dtype}>
    %r = {
        generic(
            "(d0,d1,d2)->(d0,d2,d1)|(d0,d1,d2)->(d0,d1,d2)",
            "ppp",
            f"%a:tensor<2x{planes}x37x{dtype}>",
            f"%e:tensor<2x37x{planes}x{dtype}>",
            f"%x:{dtype},%o:{dtype}",
            "",
            f"%x:{dtype}",
        )
    }
    return %r : tensor<2x37x{planes}x{dtype}>"""
    kernel = Kernel(
        kernel_text("planes", f"%a: tensor<2x{planes}x37x{dtype}>", f"tensor<2x37x{planes}x{dtype}>", body), target
    )
    a = np.random.default_rng(0).integers(0, 2, (2, planes, 37)).astype(numpy_type)
    (r,) = kernel([a], [((2, 37, planes), numpy_type)])
    np.testing.assert_array_equal(r, a.transpose(0, 2, 1))


PADS = [((1, 1), (1, 1)), ((0, 2), (3, 0)), ((2, 0), (0, 5))]  # above and below, left and right
IMAGE = (5, 21)


def padded_image(planes: int, pads: tuple[tuple[int, int], tuple[int, int]]) -> str:
    """Two images, planes first, become the padded input, channels last, of a convolution."""
    (top, bottom), (left, right) = pads
    h, w = IMAGE
    source, inner = f"tensor<2x{planes}x{h}x{w}xf32>", f"tensor<2x{h}x{w}x{planes}xf32>"
    padded = f"tensor<2x{top + h + bottom}x{left + w + right}x{planes}xf32>"
    maps = "(n,y,x,c)->(n,c,y,x)|(n,y,x,c)->(n,y,x,c)"
    moved = generic(maps, "pppp", f"%a:{source}", f"%e:{inner}", "%v:f32,%o:f32", "", "%v:f32")
    body = f"""
    %c = arith.constant 2.5 : f32
    %e = tensor.empty() : {inner}
    %t = {moved}
    %r = tensor.pad %t low[0, {top}, {left}, 0] high[0, {bottom}, {right}, 0] {{
    ^bb0(%n: index, %y: index, %x: index, %k: index):
      tensor.yield %c : f32
    }} : {inner} to {padded}
    return %r : {padded}"""
    return kernel_text("image", f"%a: {source}", padded, body)


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize("planes", [2, 3])
@pytest.mark.parametrize("pads", PADS)
def test_planes_interleaved_into_a_padded_result(
    pads: tuple[tuple[int, int], tuple[int, int]], planes: int, target: str
) -> None:
    a = random(2, planes, *IMAGE)
    want = np.pad(a.transpose(0, 2, 3, 1), ((0, 0), *pads, (0, 0)), constant_values=2.5)
    (r,) = Kernel(padded_image(planes, pads), target)([a], [(want.shape, F32)])
    np.testing.assert_array_equal(r, want)


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("planes", [2, 3])
@pytest.mark.parametrize("pads", PADS)
def test_planes_are_interleaved_by_vectors(
    pads: tuple[tuple[int, int], tuple[int, int]], planes: int, name: str
) -> None:
    """The interior: a whole vector of each plane is read, as many are written."""
    target = targets.get(name)
    code = compile_kernel(padded_image(planes, pads), target, CodegenOptions(keep_intermediates=True)).llvm_ir
    vector = f"<{target.machine.lanes(32)} x float>"
    assert code.count(f"load {vector}") == code.count(f"store {vector}") == planes
    assert "shufflevector" in code


@pytest.mark.parametrize("target", ["x86-64-v2", "host"])
@pytest.mark.parametrize("sizes", [(24, 24, 96), (3, 70, 9), (1, 1, 1)])
def test_concat_and_pad_along_a_vectorized_axis_of_computed_values(sizes: tuple[int, int, int], target: str) -> None:
    total = sum(sizes)
    types = [f"tensor<6x{n}xf32>" for n in sizes]
    body = f"""
    %c = arith.constant 2.5 : f32
    %j = tensor.concat dim(1) %a, %b, %d : ({", ".join(types)}) -> tensor<6x{total}xf32>
    %e = tensor.empty() : tensor<6x{total}xf32>
    %n = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d0,d1)",
            "pp",
            f"%j:tensor<6x{total}xf32>",
            f"%e:tensor<6x{total}xf32>",
            "%x:f32,%o:f32",
            "%s = arith.negf %x : f32",
            "%s:f32",
        )
    }
    %r = tensor.pad %n low[1, 0] high[0, 0] {{
    ^bb0(%p:index,%q:index):
      tensor.yield %c : f32 }} : tensor<6x{total}xf32> to tensor<7x{total}xf32>
    %s = tensor.pad %a low[0, 5] high[0, 40] {{
    ^bb0(%p:index,%q:index):
      tensor.yield %c : f32 }} : {types[0]} to tensor<6x{sizes[0] + 45}xf32>
    return %r, %s : tensor<7x{total}xf32>, tensor<6x{sizes[0] + 45}xf32>"""
    arguments = f"%a: {types[0]}, %b: {types[1]}, %d: {types[2]}"
    text = kernel_text("join", arguments, f"tensor<7x{total}xf32>, tensor<6x{sizes[0] + 45}xf32>", body)
    values = [random(6, n, seed=n + i) for i, n in enumerate(sizes)]
    r, s = Kernel(text, target)(values, [((7, total), F32), ((6, sizes[0] + 45), F32)])
    np.testing.assert_array_equal(r, np.pad(-np.concatenate(values, 1), ((1, 0), (0, 0)), constant_values=2.5))
    np.testing.assert_array_equal(s, np.pad(values[0], ((0, 0), (5, 40)), constant_values=2.5))


def test_padded_value_read_at_two_offsets() -> None:
    body = f"""
    %c = arith.constant 9.0 : f32
    %p = tensor.pad %a low[1] high[1] {{
    ^bb0(%i:index):
      tensor.yield %c : f32 }} : tensor<30xf32> to tensor<32xf32>
    %e = tensor.empty() : tensor<30xf32>
    %x = tensor.extract_slice %p[0] [30] [1] : tensor<32xf32> to tensor<30xf32>
    %y = tensor.extract_slice %p[2] [30] [1] : tensor<32xf32> to tensor<30xf32>
    %r = {
        generic(
            "(d0)->(d0)|(d0)->(d0)|(d0)->(d0)",
            "p",
            "%x,%y:tensor<30xf32>,tensor<30xf32>",
            "%e:tensor<30xf32>",
            "%u:f32,%v:f32,%o:f32",
            "%s = arith.subf %u, %v : f32",
            "%s:f32",
        )
    }
    return %r : tensor<30xf32>"""
    a = random(30)
    (r,) = Kernel(kernel_text("stencil", "%a: tensor<30xf32>", "tensor<30xf32>", body))([a], [((30,), F32)])
    padded = np.pad(a, 1, constant_values=9)
    np.testing.assert_array_equal(r, padded[:30] - padded[2:])


def test_matrix_plus_its_transpose() -> None:
    body = f"""
    %e = tensor.empty() : tensor<19x19xf32>
    %r = {
        generic(
            "(d0,d1)->(d0,d1)|(d0,d1)->(d1,d0)|(d0,d1)->(d0,d1)",
            "pp",
            "%a,%a:tensor<19x19xf32>,tensor<19x19xf32>",
            "%e:tensor<19x19xf32>",
            "%u:f32,%v:f32,%o:f32",
            "%s = arith.subf %u, %v : f32",
            "%s:f32",
        )
    }
    return %r : tensor<19x19xf32>"""
    a = random(19, 19)
    (r,) = Kernel(kernel_text("skew", "%a: tensor<19x19xf32>", "tensor<19x19xf32>", body))([a], [((19, 19), F32)])
    np.testing.assert_array_equal(r, a - a.T)


def test_a_concatenation_and_its_transposition() -> None:
    """Results of one shape, of which only one is put together along its last axis."""
    whole = "tensor<2x24x24xf32>"
    body = f"""
    %j = tensor.concat dim(2) %a, %b : (tensor<2x24x21xf32>, tensor<2x24x3xf32>) -> {whole}
    %e = tensor.empty() : {whole}
    %t = {
        generic(
            "(d0,d1,d2)->(d0,d2,d1)|(d0,d1,d2)->(d0,d1,d2)",
            "ppp",
            f"%j:{whole}",
            f"%e:{whole}",
            "%x:f32,%o:f32",
            "",
            "%x:f32",
        )
    }
    return %j, %t : {whole}, {whole}"""
    a, b = random(2, 24, 21), random(2, 24, 3, seed=1)
    text = kernel_text("both", "%a: tensor<2x24x21xf32>, %b: tensor<2x24x3xf32>", f"{whole}, {whole}", body)
    joined, turned = Kernel(text)([a, b], [((2, 24, 24), F32)] * 2)
    np.testing.assert_array_equal(joined, np.concatenate([a, b], 2))
    np.testing.assert_array_equal(turned, joined.transpose(0, 2, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1, 3, 8, 40])
def test_an_insertion_writes_its_part_only(columns: int, target: str) -> None:
    part, whole = f"tensor<3x5x{columns}xf32>", "tensor<3x7x50xf32>"
    body = f"""
    %e = tensor.empty() : {part}
    %n = {
        generic(
            "(d0,d1,d2)->(d0,d1,d2)|(d0,d1,d2)->(d0,d1,d2)",
            "ppp",
            f"%a:{part}",
            f"%e:{part}",
            "%x:f32,%o:f32",
            "%s = arith.negf %x : f32",
            "%s:f32",
        )
    }
    %r = tensor.insert_slice %n into %all[0, 1, %at] [3, 5, {columns}] [1, 1, 1] : {part} into {whole}
    return %r, %n : {whole}, {part}"""
    attributes = "attributes {flow.tied = array<i64: 0, 1>}"
    kernel = Kernel(
        kernel_text("insert", f"%a: {part}, %all: {whole}, %at: index", f"{whole}, {part}", body, attributes), target
    )
    a, all_, negated = random(3, 5, columns), random(3, 7, 50, seed=1), np.empty((3, 5, columns), F32)
    expected = all_.copy()
    expected[:, 1:6, 9 : 9 + columns] = -a
    assert kernel.run([a, all_, all_, negated], [9]) == 0
    np.testing.assert_array_equal(all_, expected)
    np.testing.assert_array_equal(negated, -a)
