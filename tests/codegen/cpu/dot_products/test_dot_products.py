"""Products of 8-bit integers by instructions that take a group of steps of the reduction at once.

AArch64 runs under QEMU's user emulation here; what microcontrollers compute is tested with whole networks
(tests/export/test_quantized_firmware.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.cpu.compile import compile_kernel
from rillet.codegen.result import CodegenOptions
from rillet.dispatch.packing.pack_rhs import gather_steps, pack
from rillet.targets import Target
from tests.support.assembly import InnerLoop, inner_loops
from tests.support.emulated import Emulator
from tests.support.kernel_harness import kernel_text
from tests.support.kernel_texts import tensor

_KEEP = CodegenOptions(keep_intermediates=True)
SIGNS = {"arith.extsi": np.int8, "arith.extui": np.uint8}
BOTH = [(a, b) for a in SIGNS for b in SIGNS]


def packed(right: np.ndarray, target: Target) -> np.ndarray:
    """``[K.., N]`` as the target's kernels read it."""
    return gather_steps(pack(right, 0, target.packing.columns), target.packing.steps, target.packing.ways)


def place(loop: str, target: Target) -> str:
    """Where in a group a step lies."""
    ways, length = target.packing.ways, target.packing.steps // target.packing.ways
    turned = f"({loop} mod {ways}) * {length} + ({loop} floordiv {ways}) mod {length}"
    return f"{loop} mod {target.packing.steps}" if ways == 1 else turned


def body(left: str, right: str, zero: int) -> str:
    return f"""
  %p = {left} %x : i8 to i32
  %q = {right} %y : i8 to i32
  %z = arith.constant {zero} : i32
  %f = arith.subi %p, %z : i32
  %m = arith.muli %f, %q : i32
  %s = arith.addi %c, %m : i32
  linalg.yield %s : i32"""


def convolution(
    target: Target,
    image: tuple[int, int, int, int],
    outputs: int,
    kernel: int,
    padding: int,
    signs: tuple[str, str] = ("arith.extsi", "arith.extsi"),
    zero: int = 0,
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """A kernel, the shape of its packed weights and that of its result; beside the image lie zero points."""
    n, h, w, c = image
    big = (n, h + 2 * padding, w + 2 * padding, c)
    out = (n, big[1] - kernel + 1, big[2] - kernel + 1, outputs)
    panels, groups = -(-outputs // target.packing.columns), -(-c // target.packing.steps)
    weights = (panels, kernel, kernel, groups, target.packing.columns, target.packing.steps)
    value = zero - 256 if zero > 127 else zero
    result = tensor(out, "i32")
    pad = f"""
%padded = tensor.pad %a low[0, {padding}, {padding}, 0] high[0, {padding}, {padding}, 0] {{
^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
  %value = arith.constant {value} : i8
  tensor.yield %value : i8
}} : {tensor(image, "i8")} to {tensor(big, "i8")}"""
    text = f"""{pad if padding else ""}
%zero = arith.constant 0 : i32
%e = tensor.empty() : {result}
%init = linalg.fill ins(%zero : i32) outs(%e : {result}) -> {result}
%0 = linalg.generic {{indexing_maps=[affine_map<(n, h, w, o, i, j, c)->(n, h + i, w + j, c)>,
    affine_map<(n, h, w, o, i, j, c)->(o floordiv {target.packing.columns}, i, j, c floordiv {target.packing.steps},
        o mod {target.packing.columns}, {place("c", target)})>,
    affine_map<(n, h, w, o, i, j, c)->(n, h, w, o)>],
    iterator_types=["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
    ins({"%padded" if padding else "%a"}, %b : {tensor(big, "i8")}, {tensor(weights, "i8")}) outs(%init : {result}) {{
^bb0(%x: i8, %y: i8, %c: i32):{body(*signs, zero)}
}} -> {result}
return %0 : {result}"""
    arguments = f"%a: {tensor(image, 'i8')}, %b: {tensor(weights, 'i8')}"
    return kernel_text("dots", arguments, result, text), weights, out


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    found = Emulator(targets.get("aarch64-dotprod"), tmp_path_factory.mktemp("dots"))
    if not found.present:
        pytest.skip(f"{found.qemu} is not installed")
    return found


def check(
    emulator: Emulator,
    target: Target,
    image: tuple[int, int, int, int],
    outputs: int,
    kernel: int,
    padding: int,
    signs: tuple[str, str],
    zero: int,
) -> None:
    text, weights_shape, out = convolution(target, image, outputs, kernel, padding, signs, zero)
    compiled = compile_kernel(text, target)
    assert compiled.strategy == "contraction"
    rng = np.random.default_rng(0)
    left, right = (SIGNS[sign] for sign in signs)
    x = rng.integers(np.iinfo(left).min, np.iinfo(left).max + 1, image).astype(left)
    w = rng.integers(np.iinfo(right).min, np.iinfo(right).max + 1, (kernel, kernel, image[3], outputs)).astype(right)
    held = packed(w, target)
    assert held.shape == weights_shape
    *_, y = emulator.run(compiled, [x.view(np.int8), held.view(np.int8), np.full(out, 77, np.int32)])
    spread = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    whole = np.pad(x, spread, constant_values=left(zero)).astype(np.int32) - zero
    windows = np.lib.stride_tricks.sliding_window_view(whole, (kernel, kernel), axis=(1, 2))
    np.testing.assert_array_equal(y, np.einsum("nhwcij,ijco->nhwo", windows, w.astype(np.int32)))


@pytest.mark.parametrize("name", ["aarch64", "aarch64-dotprod", "aarch64-i8mm"])
@pytest.mark.parametrize("signs", BOTH, ids="-".join)
def test_sums_are_exact_whatever_the_signs(emulator: Emulator, name: str, signs: tuple[str, str]) -> None:
    """Rows that are read where they lie, and that are copied: few channels are filled up to a group."""
    zero = 0 if signs[0] == "arith.extsi" else 130
    check(emulator, targets.get(name), (1, 3, 7, 36), 21, 1, 0, signs, zero)
    filled_up = 10 if name == "aarch64" else 3
    check(emulator, targets.get(name), (1, 4, 6, filled_up), 19, 3, 1, signs, 0)


@pytest.mark.parametrize("name", ["aarch64", "aarch64-dotprod"])
@pytest.mark.parametrize("zero", [0, -7])
def test_windows_in_place_and_padded(emulator: Emulator, zero: int, name: str) -> None:
    signs = ("arith.extsi", "arith.extsi")
    for padding in (0, 1):
        check(emulator, targets.get(name), (2, 5, 6, 16), 12, 3, padding, signs, zero)


@pytest.mark.parametrize("signs", BOTH[:1] + BOTH[-1:], ids="-".join)
def test_the_largest_products_do_not_wrap(emulator: Emulator, signs: tuple[str, str]) -> None:
    """All factors are the lowest, or the highest, there are."""
    target = targets.get("aarch64")
    text, weights, out = convolution(target, (1, 5, 1, 64), 8, 1, 0, signs)
    extreme = np.iinfo(np.int8).min if signs[0] == "arith.extsi" else np.iinfo(np.uint8).max
    x, w = (np.full(shape, extreme, SIGNS[signs[0]]).view(np.int8) for shape in ((1, 5, 1, 64), weights))
    *_, y = emulator.run(compile_kernel(text, target), [x, w, np.full(out, 77, np.int32)])
    assert (y == 64 * int(extreme) ** 2).all()


def test_workgroups_share_the_columns(emulator: Emulator) -> None:
    """Each finds out by itself what is added to its columns' sums."""
    target, signs = targets.get("aarch64-dotprod"), ("arith.extui", "arith.extsi")
    text, *_ = convolution(target, (1, 12, 12, 64), 200, 3, 1, signs, 128)
    grid = compile_kernel(text, target).grid
    assert grid is not None and grid[0] > 1 and grid[1] > 1
    check(emulator, target, (1, 12, 12, 64), 200, 3, 1, signs, 128)


def main_loop(target: Target, signs: tuple[str, str] = BOTH[0], rows: int = 20, outputs: int = 16) -> InnerLoop:
    text, *_ = convolution(target, (1, rows, 1, 64), outputs, 1, 0, signs)
    compiled = compile_kernel(text, target, _KEEP)
    loops = inner_loops(compiled.assembly, "dots", target)
    return max(loops, key=lambda loop: loop.count(PRODUCTS))


PRODUCTS = r"smlad|vmlava|[su]dot|usdot|sudot"


def test_dsp_extension_multiplies_two_by_two() -> None:
    """Two rows and two columns share what is loaded; two groups of four steps an iteration."""
    loop = main_loop(targets.get("cortex-m4"))
    assert loop.count("smlad") == 16 and loop.count("sxtb16") == 8
    # One of the sums may be in memory.
    assert loop.spills <= 2 and len(loop.instructions) <= 42


def test_mve_multiplies_sixteen_at_a_time() -> None:
    """Two rows and four columns: six vectors are loaded for eight times sixteen products; the loop costs nothing."""
    loop = main_loop(targets.get("cortex-m55"))
    assert loop.count(r"vmlava\.s8") == 8 and loop.loads == 6 and loop.count("le ") == 1
    assert loop.stores == loop.spills == 0 and len(loop.instructions) <= 20


@pytest.mark.parametrize(
    ("name", "signs", "instruction"),
    [
        ("aarch64-dotprod", ("arith.extsi", "arith.extsi"), r"sdot .*\.4b\[\d\]"),
        ("aarch64-dotprod", ("arith.extui", "arith.extui"), r"udot .*\.4b\[\d\]"),
        ("aarch64-dotprod", ("arith.extui", "arith.extsi"), r"sdot .*\.4b\[\d\]"),
        ("aarch64-i8mm", ("arith.extui", "arith.extsi"), r"sudot .*\.4b\[\d\]"),
        ("aarch64-i8mm", ("arith.extsi", "arith.extui"), r"usdot .*\.4b\[\d\]"),
    ],
)
def test_aarch64_multiplies_by_elements(name: str, signs: tuple[str, str], instruction: str) -> None:
    """Left-hand bytes of a row are loaded for four groups, and each group is an element of a register."""
    loop = main_loop(targets.get(name), signs)
    assert loop.count(instruction) == loop.count(PRODUCTS) >= 16
    assert loop.count("dup |ld1r ") == loop.stores == loop.spills == 0


def test_aarch64_without_dot_products_multiplies_eight_at_a_time() -> None:
    """Four rows and four columns: eight vectors are loaded for 16 times 16 products, and none is moved."""
    loop = main_loop(targets.get("aarch64"))
    assert loop.count("smull ") == loop.count("smull2 ") == 16 and loop.count("sadalp ") == 32
    assert loop.count("mov |dup |ext ") == loop.stores == loop.spills == 0 and len(loop.instructions) <= 76


def test_variants_of_one_file_agree_on_packing(tmp_path: Path) -> None:
    """Where their groups have different lengths, all read their weights step by step."""
    import onnx

    import rillet
    from tests.support import quantized_graphs as quantized

    def build(g: quantized.Graph, x: str) -> str:
        return g.quantize(g("MatMul", g.dequantize(x, 0.1, 3, np.int8), g.weights(64, 16, axis=1)), 0.5, 0, np.int8)

    proto = quantized.model(build, (4, 64), element=onnx.TensorProto.INT8)
    module = rillet.compile(proto, target=["aarch64-dotprod", "aarch64"])
    assert sorted(module.targets) == ["aarch64", "aarch64-dotprod"]
