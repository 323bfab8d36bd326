"""Arguments that the caches do not hold, read ahead of formulas that keep the hardware from doing it."""

from __future__ import annotations

import numpy as np
import pytest

from rillet import targets
from rillet.codegen.result import CodegenOptions
from tests.support.kernel_harness import Kernel
from tests.support.math_kernels import gelu_kernel
from tests.support.targets import with_machine

TARGET = targets.get("x86-64-v3")
SMALL_CACHE = with_machine(TARGET, l2_bytes=8 * 1024)
ASSEMBLY = CodegenOptions(keep_intermediates=True)


@pytest.mark.parametrize("size", [4096, 5001])
def test_argument_of_a_costly_formula_is_read_ahead(size: int) -> None:
    """A line each iteration of two vectors; past the end of the argument its last element."""
    kernel = Kernel(gelu_kernel("product", size), SMALL_CACHE, ASSEMBLY)
    assert kernel.compiled.assembly.count("prefetcht0") == 1
    x = np.linspace(-4, 4, size, dtype=np.float32)
    (got,) = kernel([x], [((size,), np.float32)])
    (want,) = Kernel(gelu_kernel("product", size), TARGET)([x], [((size,), np.float32)])
    np.testing.assert_array_equal(got, want)


def test_what_is_not_read_ahead() -> None:
    """What the L2 cache may hold, and what is cheap to compute."""
    assert "prefetch" not in Kernel(gelu_kernel("product", 4096), TARGET, ASSEMBLY).compiled.assembly
    cheap = gelu_kernel("product", 4096).replace("math.erf", "math.absf")
    assert "prefetch" not in Kernel(cheap, SMALL_CACHE, ASSEMBLY).compiled.assembly
