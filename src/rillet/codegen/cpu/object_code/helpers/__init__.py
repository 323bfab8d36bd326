"""Functions that kernels call where a 32-bit processor has no instruction: 64-bit division, conversions, doubles.

Compilers have such functions in libraries of their own, which a program may lack, or have for another calling
convention only. These are in C beside this file; the objects that a program's kernels need are linked with them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code.zig import zig
from rillet.support.temporary_folder import scratch_folder

STACK_BYTES = 256  # the most that a call of a helper takes

# What each source defines, by architecture.
_NAMES = {
    "arm": {
        "division": ("__aeabi_ldivmod", "__aeabi_uldivmod"),
        "conversions": ("__aeabi_f2lz", "__aeabi_f2ulz", "__aeabi_l2f", "__aeabi_ul2f"),
        "doubles": (
            *("__aeabi_dadd", "__aeabi_dsub", "__aeabi_dmul", "__aeabi_ddiv", "__aeabi_f2d", "__aeabi_d2f"),
            *("__aeabi_d2iz", "__aeabi_d2uiz", "__aeabi_d2lz", "__aeabi_d2ulz"),
            *("__aeabi_i2d", "__aeabi_ui2d", "__aeabi_l2d", "__aeabi_ul2d"),
            *("__aeabi_dcmpeq", "__aeabi_dcmplt", "__aeabi_dcmple", "__aeabi_dcmpge", "__aeabi_dcmpgt"),
            *("__aeabi_dcmpun", "fma", "sqrt"),
        ),
    },
    "riscv32": {
        "division": ("__divdi3", "__moddi3", "__udivdi3", "__umoddi3"),
        "conversions": ("__fixsfdi", "__fixunssfdi", "__floatdisf", "__floatundisf"),
        "doubles": (
            *("__adddf3", "__subdf3", "__muldf3", "__divdf3", "__extendsfdf2", "__truncdfsf2"),
            *("__fixdfsi", "__fixunsdfsi", "__fixdfdi", "__fixunsdfdi"),
            *("__floatsidf", "__floatunsidf", "__floatdidf", "__floatundidf"),
            *("__eqdf2", "__nedf2", "__ltdf2", "__ledf2", "__gtdf2", "__gedf2", "__unorddf2", "fma", "sqrt"),
        ),
    },
}
SOURCES = tuple(Path(__file__).with_name(f"{name}.c") for name in _NAMES["arm"])
_C_FLAGS = (
    *("-std=c11", "-Os", "-ffreestanding", "-fno-builtin", "-fno-sanitize=all", "-fno-stack-protector"),
    *("-ffunction-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fvisibility=hidden"),
    "-fstack-size-section",
)


def names(target: CpuTarget) -> frozenset[str]:
    """The functions that kernels for the target may call; none where there is no C compiler for it."""
    if not target.deployment.c_flags:
        return frozenset()
    return frozenset(n for group in _NAMES.get(target.machine.arch, {}).values() for n in group)


def objects(called: Iterable[str], target: CpuTarget) -> list[tuple[str, bytes]]:
    """The objects (name, content) that define the functions ``called``.

    Raises ``CompileError`` when compiling them fails.
    """
    wanted = set(called)
    groups = _NAMES.get(target.machine.arch, {})
    return [(f"rillet_{g}.o", _compiled(g, target)) for g, defined in groups.items() if wanted & set(defined)]


@functools.cache
def _compiled(group: str, target: CpuTarget) -> bytes:
    flags = [*target.deployment.c_flags, *_C_FLAGS, *(["-fPIC"] if target.deployment.position_independent else [])]
    source = Path(__file__).with_name(f"{group}.c")
    with scratch_folder("helpers") as folder:
        zig(["cc", *flags, "-c", str(source), "-o", "helper.o"], f"compiling {source.name} for {target.name}", folder)
        return (folder / "helper.o").read_bytes()
