"""The target description and how it is looked up: by name, or detected from the machine the compiler runs on."""

from __future__ import annotations

import dataclasses
import functools
import platform
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from rillet.errors import CompileError


@dataclass(frozen=True)
class Target:
    """A CPU the compiler generates code for. Sizes in bytes, widths in bits."""

    name: str
    arch: str  # "x86_64", "aarch64", "arm", "riscv32", "riscv64", "wasm32"
    triple: str  # LLVM target triple
    cpu: str  # LLVM CPU name
    features: tuple[str, ...]  # LLVM features the code may use; the loader requires them
    vector_bits: int  # width of one vector register; 0 when there is no vector unit
    vector_registers: int
    scalar_float_registers: int
    fma: bool
    pointer_bits: int = 64
    scalar_registers: int = 12  # that hold integers of an inner loop, addresses and counters aside
    abi: str = ""  # LLVM abi name, where the triple does not say it
    tuning: tuple[str, ...] = ()  # LLVM features that change code generation only, e.g. "-prefer-256-bit"
    pack_n: int = 16  # panel width of packed right-hand sides; equal for all variants in one file
    pack_k: int = 1  # steps of a reduction of 8-bit integers that lie together in a panel; equal for all variants
    pack_k_ways: int = 1  # their order: by the remainders of their numbers by this, then by the quotients
    dot_products: str = (
        ""  # instructions that sum products of as many steps: see codegen/cpu/dot_products/dot_products.py
    )
    l1d_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l3_bytes: int = 8 * 1024 * 1024
    fma_ports: int = 2  # without fma: ports that multiply and ports that add, together
    broadcast_loads: bool = True  # an element is loaded into all lanes of a vector at no extra cost
    fma_by_element: bool = False  # multiply-add takes one lane of a register as a factor for all lanes
    os: str = "linux"  # "linux", "none" (bare metal) or "wasi"
    float_abi: str = "hard"  # "hard": floats are passed in floating-point registers; "soft": in integer registers
    maximum_propagates_nan: bool = True  # whether the maximum and minimum instructions give NaN for NaN and a number
    converts_to_nearest: bool = False  # a conversion of a float to an integer rounds to nearest even and saturates
    float_products: bool = False  # a product of floats is added by fewer instructions than one of integers
    c_flags: tuple[str, ...] = ()  # clang's flags that select this target, for sizes and stack of exported C
    threads: bool = True  # False: one core without an operating system; a dispatch is not split into workgroups

    @property
    def is_bare_metal(self) -> bool:
        """Whether programs for it bring everything themselves: no operating system, no loader, no C library."""
        return self.os == "none"

    @property
    def runs_here(self) -> bool:
        """Whether this machine has the architecture, the operating system and every feature, as the loader asks."""
        return self.obstacle is None

    @property
    def obstacle(self) -> str | None:
        """Why this machine cannot run code for it, as half a sentence; None where it can."""
        if self.arch != _machine() or self.os != "linux":
            return "this machine has another architecture"
        present = _features_here()
        lacking = [feature for feature in self.features if feature not in present]
        return f"this machine lacks {', '.join(lacking)}" if lacking else None

    @property
    def tile_registers(self) -> int:
        """The registers that hold a kernel's accumulators: vector registers, or scalar ones where there are none."""
        return self.vector_registers if self.vector_bits else self.scalar_float_registers

    def with_integer_sums(self) -> Target:
        """The same, whose kernels keep integer sums: without vectors those are in other registers than floats."""
        return dataclasses.replace(self, scalar_float_registers=self.scalar_registers)

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
        """Whether a conversion of floats to integers rounds to nearest even, but does not saturate, and instructions
        that narrow integers do (``cvtps2dq``, ``packssdw``)."""
        return self.arch == "x86_64"

    @property
    def llvm_features(self) -> str:
        """The features in LLVM's notation."""
        return ",".join([*(f"+{f}" for f in self.features), *self.tuning])

    def lanes(self, element_bits: int) -> int:
        """How many elements of this width one vector register holds (at least 1)."""
        return max(1, self.vector_bits // element_bits)


def names() -> list[str]:
    """The names of the built-in targets, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in _data().iterdir() if f.name.endswith(".toml"))


def get(name: str) -> Target:
    """The target called ``name``; ``"host"`` is this machine. Raises ``CompileError`` for an unknown name."""
    if name == "host":
        return host()
    if name not in names():
        raise CompileError(f"unknown target '{name}'; known targets: host, {', '.join(names())}")
    return _load(name)


@functools.cache
def host() -> Target:
    """This machine: the best built-in target it supports, refined by LLVM's CPU name and the OS's cache sizes."""
    import llvmlite.binding as llvm

    fitting = [t for t in map(_load, names()) if t.runs_here]
    if not fitting:
        raise CompileError(f"no built-in target fits this machine ({_machine()}); choose one of: {', '.join(names())}")
    best = max(fitting, key=lambda t: (t.vector_bits, len(t.features)))
    return dataclasses.replace(best, name="host", cpu=llvm.get_host_cpu_name(), **_cache_sizes())


def _features_here() -> frozenset[str]:
    """The LLVM features of this machine's CPU that the operating system lets programs use."""
    import llvmlite.binding as llvm

    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


def _machine() -> str:
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def _data() -> resources.abc.Traversable:
    return resources.files("rillet.targets") / "data"


@functools.cache
def _load(name: str) -> Target:
    with (_data() / f"{name}.toml").open("rb") as file:
        fields = tomllib.load(file)
    for key in ("features", "tuning", "c_flags"):
        fields[key] = tuple(fields.get(key, ()))
    return Target(name=name, **fields)


def _cache_sizes() -> dict[str, Any]:
    """Data cache sizes from sysfs, by level; empty where the OS does not say."""
    from pathlib import Path

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
