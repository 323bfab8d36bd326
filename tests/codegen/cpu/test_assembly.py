"""A guard against slower code that needs no quiet machine: facts about the main kernels' inner loops.

``golden/TARGET.toml`` holds what the compiler gave last time. When a change is meant,
``pytest tests/codegen/cpu/test_assembly.py --update-golden`` writes the files again, and the diff shows what it did.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.kernel_cases import CASES, KernelCase, conv, matmul, pointwise
from models.zoo import serialize
from rillet import targets
from tests.support import quantized_graphs as quantized
from tests.support.assembly import Listing, inner_loops, listings

GOLDEN = Path(__file__).with_name("golden")

CONTRACTIONS = (
    matmul(512, 512, 512),
    matmul(511, 513, 509),
    matmul(1, 512, 1024),
    pointwise(784, 192, 64),
    conv(64, 64, 56),
    conv(3, 64, 224, kernel=7, stride=2),
)
WINDOWS = (conv(144, 144, 56, depthwise=True), conv(144, 144, 56, stride=2, depthwise=True))
ROWS = tuple(case for case in CASES if case.name.endswith(" 128x384"))
SMALL = (pointwise(64, 32, 64), matmul(1, 64, 128), conv(16, 16, 8), conv(32, 32, 8, depthwise=True))


def quantized_case(name: str, channels: int, filters: int, size: int, kernel: int, group: int = 1) -> KernelCase:
    """A convolution of bytes whose results are quantized again, channels first outside."""

    def build() -> onnx.ModelProto:
        def graph(g: quantized.Graph, x: str) -> str:
            y = g.conv(g.dequantize(x, 0.03, -3, np.int8), channels, filters, kernel, group=group)
            return g.quantize(y, 0.1, -128, np.int8)

        return quantized.model(graph, (1, channels, size, size), element=onnx.TensorProto.INT8)

    return KernelCase(f"int8 {name}", 0, 0, (1, channels, size, size), build)


QUANTIZED = (
    quantized_case("pointwise 64->64 @8", 64, 64, 8, 1),
    quantized_case("conv 3x3 16->16 @8", 16, 16, 8, 3),
    quantized_case("conv 3x3 3->16 @16", 3, 16, 16, 3),
    quantized_case("depthwise 3x3 32 @8", 32, 32, 8, 3, 32),
)

KERNELS: dict[str, tuple[KernelCase, ...]] = {
    "x86-64-v2": (*CONTRACTIONS, *WINDOWS),
    "x86-64-v3": (*CONTRACTIONS, *WINDOWS, *ROWS),
    "x86-64-v4": (*CONTRACTIONS, *WINDOWS),
    "aarch64": (*CONTRACTIONS, *WINDOWS, QUANTIZED[0]),
    "aarch64-dotprod": QUANTIZED,
    "cortex-m4": (*SMALL, *QUANTIZED),
    "cortex-m55": (*SMALL, *QUANTIZED),
    "riscv32imf": (*SMALL, *QUANTIZED),
}


@functools.cache
def listing(case: KernelCase, target: str) -> Listing:
    """The kernel of a case that is one dispatch but for transpositions, its weights packed at compile time."""
    found = listings(serialize(case.build()), targets.get(target))
    (only,) = [one for one in found if one.strategy not in ("elementwise", "rowwise")] or found
    return only


def facts(found: Listing) -> dict[str, str | int]:
    loop = found.main_loop
    return {
        "strategy": found.strategy,
        "instructions": len(loop.instructions),
        "multiply_adds": loop.multiply_adds,
        "loads": loop.loads,
        "stores": loop.stores,
        "spills": loop.spills,
        "code_bytes": found.code_bytes,
    }


@pytest.mark.parametrize("target", KERNELS)
def test_main_loops_are_as_expected(target: str, request: pytest.FixtureRequest) -> None:
    found = {case.name: facts(listing(case, target)) for case in KERNELS[target]}
    path = GOLDEN / f"{target}.toml"
    if request.config.getoption("--update-golden"):
        path.write_text(_toml(found))
    expected = tomllib.loads(path.read_text())
    changed = [
        f"{kernel}: {key} was {before.get(key)}, is {value}"
        for kernel, before in expected.items()
        for key, value in found.get(kernel, {}).items()
        if value != before.get(key)
    ]
    assert found == expected, "\n".join([*changed, "if this is meant, run pytest with --update-golden"])


def _toml(tables: dict[str, dict[str, str | int]]) -> str:
    lines = ["# Facts about each kernel's main inner loop; written by pytest --update-golden."]
    for name, table in tables.items():
        lines += ["", f'["{name}"]']
        lines += [
            f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in table.items()
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("case", [*CONTRACTIONS, WINDOWS[0]], ids=lambda case: case.name)
def test_accumulators_stay_in_registers(case: KernelCase, target: str) -> None:
    """Every loop that multiplies: nothing is stored in contractions', nothing goes through the stack in any."""
    found = listing(case, target)
    loops = [loop for loop in inner_loops(found.assembly, found.name, found.target) if loop.multiply_adds]
    assert loops and not any(loop.spills for loop in loops)
    if found.strategy == "contraction":
        assert not any(loop.stores for loop in loops)


@pytest.mark.parametrize(("target", "instruction"), [("x86-64-v3", "prefetcht1"), ("aarch64", "prfm pldl2keep")])
def test_panels_are_fetched_ahead(target: str, instruction: str) -> None:
    """One line in a few steps, where the weights are more than half of L2."""
    assert listing(CONTRACTIONS[0], target).main_loop.count(instruction) == 1
    assert listing(CONTRACTIONS[3], target).main_loop.count(instruction) == 0


@pytest.mark.parametrize("case", CONTRACTIONS, ids=lambda case: case.name)
def test_aarch64_multiplies_by_elements(case: KernelCase) -> None:
    """Left factors come four at a time and are lanes of the multiply-adds."""
    loop = listing(case, "aarch64").main_loop
    assert loop.count(r"fmla v\d+\.4s, v\d+\.4s, v\d+\.s\[\d\]") == loop.multiply_adds
    assert {lane for lane in range(4) if loop.count(rf"fmla .*\.s\[{lane}\]")} == {0, 1, 2, 3}
    assert loop.count("dup ") == loop.count("ld1r ") == loop.count("ldr s") == 0


@pytest.mark.parametrize("case", [*CONTRACTIONS, *WINDOWS], ids=lambda case: case.name)
def test_avx512_uses_whole_registers(case: KernelCase) -> None:
    loop = listing(case, "x86-64-v4").main_loop
    assert loop.count(r"vfn?madd\w+ .*%zmm") == loop.multiply_adds > 0


def test_avx512_masks_the_columns_that_do_not_fill_a_register() -> None:
    """509 columns end in a vector of 13."""
    assert "{%k" in listing(CONTRACTIONS[1], "x86-64-v4").assembly
