"""A CPU as its backend sees it: the instruction set, and the facts that the cost models need."""

from __future__ import annotations

import dataclasses
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from rillet.targets import Target


@dataclass(frozen=True)
class Cpu:
    """A CPU. Sizes in bytes, widths in bits."""

    arch: str  # "x86_64", "aarch64", "arm", "riscv32", "riscv64", "wasm32"
    triple: str  # LLVM target triple
    cpu: str  # LLVM CPU name
    features: tuple[str, ...]  # LLVM features the code may use; the loader requires them
    vector_bits: int  # width of one vector register; 0 when there is no vector unit
    vector_registers: int
    scalar_float_registers: int
    fma: bool
    pointer_bits: int = 64
    scalar_registers: int = 12  # integer registers for an inner loop, without addresses and counters
    abi: str = ""  # LLVM ABI name, where the triple does not imply it
    float_abi: str = "hard"  # "hard": floats are passed in floating-point registers; "soft": in integer registers
    tuning: tuple[str, ...] = ()  # LLVM features that change code generation only, e.g. "-prefer-256-bit"
    dot_products: str = ""  # the instructions that sum products of groups of packed steps: see dot_products/
    l1d_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l3_bytes: int = 8 * 1024 * 1024
    fma_ports: int = 2  # multiply-add ports; without fma, the multiply ports and add ports together
    in_order: bool = False  # an instruction waits for those before it
    broadcast_loads: bool = True  # an element is loaded into all lanes of a vector at no extra cost
    widening_loads: bool = False  # a load of neighbouring bytes also widens each of them to a lane
    fma_by_element: bool = False  # multiply-add takes one lane of a register as a factor for all lanes
    maximum_propagates_nan: bool = True  # whether the maximum and minimum instructions give NaN for NaN and a number
    converts_to_nearest: bool = False  # a conversion of a float to an integer rounds to nearest even and saturates
    float_products: bool = False  # a float product is added with fewer instructions than an integer one

    @property
    def label(self) -> str:
        """The architecture and LLVM's name of the CPU."""
        return f"{self.arch} {self.cpu}"

    @property
    def identity(self) -> dict[str, object]:
        """The data that determines LLVM's output, and the vectors' width."""
        return {
            "triple": self.triple,
            "cpu": self.cpu,
            "features": sorted(self.features),
            "tuning": sorted(self.tuning),
            "vector_bits": self.vector_bits,
        }

    @property
    def rank(self) -> tuple[int, ...]:
        """A key that sorts wider vectors first, then more features."""
        return self.vector_bits, len(self.features)

    @property
    def obstacle(self) -> str | None:
        """Why this machine cannot run code for the CPU, as half a sentence; None where it can."""
        if self.arch != _arch_here():
            return "this machine has another architecture"
        present = _features_here()
        lacking = [feature for feature in self.features if feature not in present]
        return f"this machine lacks {', '.join(lacking)}" if lacking else None

    def refined(self) -> Cpu:
        """The CPU with LLVM's name for this machine's CPU and the operating system's cache sizes."""
        import llvmlite.binding as llvm

        return dataclasses.replace(self, cpu=llvm.get_host_cpu_name(), **_cache_sizes())

    @property
    def tile_registers(self) -> int:
        """The registers that hold a kernel's accumulators: vector registers, or scalar ones where there are none."""
        return self.vector_registers if self.vector_bits else self.scalar_float_registers

    @property
    def multiplies_pairs(self) -> bool:
        """Whether an instruction adds products of neighbouring 16-bit integers (``pmaddwd``)."""
        return self.arch == "x86_64" and (self.vector_bits < 512 or "avx512bw" in self.features)

    @property
    def accumulates_pairs(self) -> bool:
        """Whether the same instruction adds both products to a sum (``vpdpwssd``)."""
        return self.arch == "x86_64" and "avx512vnni" in self.features

    @property
    def rounds_in_conversions(self) -> bool:
        """Whether a conversion of floats to integers rounds to nearest even without saturating, and instructions that
        narrow integers do saturate (``cvtps2dq``, ``packssdw``)."""
        return self.arch == "x86_64"

    @property
    def converts_f16(self) -> bool:
        """Whether instructions convert between f16 and f32."""
        return self.arch == "aarch64" or "f16c" in self.features

    @property
    def llvm_features(self) -> str:
        """The features in LLVM's notation."""
        return ",".join([*(f"+{f}" for f in self.features), *self.tuning])

    def lanes(self, element_bits: int) -> int:
        """How many elements of this width one vector register holds (at least 1)."""
        return max(1, self.vector_bits // element_bits)


SCRATCH_BYTES = 4 * 1024 * 1024
"""Scratch a kernel may ask for. A worker owns one block as large as the largest request of the library."""

CpuTarget: TypeAlias = Target[Cpu]


def is_cpu(target: Target) -> TypeGuard[CpuTarget]:
    """Whether this backend generates the target's code."""
    return isinstance(target.machine, Cpu)


def with_integer_sums(target: CpuTarget) -> CpuTarget:
    """The target as kernels with integer sums see it: without vectors, these sums and floats live in different
    registers."""
    machine = dataclasses.replace(target.machine, scalar_float_registers=target.machine.scalar_registers)
    return dataclasses.replace(target, machine=machine)


def _features_here() -> frozenset[str]:
    """The LLVM features of this machine's CPU that the operating system lets programs use."""
    import llvmlite.binding as llvm

    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


def _arch_here() -> str:
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def _cache_sizes() -> dict[str, Any]:
    """Data cache sizes from sysfs, by level; empty where the operating system does not say."""
    sizes: dict[str, Any] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        field = {1: "l1d_bytes", 2: "l2_bytes", 3: "l3_bytes"}.get(level)
        if field is None or kind == "Instruction" or not text.endswith("K"):
            continue
        sizes[field] = int(text[:-1]) * 1024
    return sizes
