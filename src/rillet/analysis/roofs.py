"""The roofs of this machine on one thread: multiply-adds in registers, and copies.

The roofline model (Williams, Waterman and Patterson 2009) says which of them bounds an operation and how near it comes:
no kernel multiplies and adds faster than independent multiply-adds between registers do, and none moves its operands
faster than a copy of as many bytes does.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np

from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.errors import CompileError
from rillet.targets import Target, get, names

_PEAK_SECONDS = 0.05
_COPY_SECONDS = 0.4  # of all sizes together
_TRIES = 8
_ROUNDS = 100_000  # of multiply-adds in one try
_LARGEST_COPY = 128 << 20  # bytes moved; larger copies are as fast, since no cache holds this much

_I64 = ctypes.c_int64


class Roofs:
    """Both roofs as machine code for one target, which this machine must be able to run.

    Without fused multiply-add in the instruction set the peak is that of multiplications and additions in pairs. The
    calls release the interpreter's lock. Raises ``CompileError`` where LLVM has no code generator for the target.
    """

    def __init__(self, target: Target) -> None:
        chains = max(1, 3 * target.machine.tile_registers // 4)  # enough to hide the latency; the operands fit as well
        self._operations = 2 * chains * target.machine.lanes(32)
        self._engine = _loaded(emit_object(_code(chains, target), target))
        peak, copy = (self._engine.get_function_address(name) for name in ("multiply_adds", "copy"))
        self._multiply_adds = ctypes.CFUNCTYPE(ctypes.c_float, _I64, ctypes.c_float)(peak)
        self._copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, _I64, _I64)(copy)

    def multiply_add(self, rounds: int) -> int:
        """Run ``rounds`` rounds of multiply-adds on f32 in registers; returns the floating-point operations done."""
        self._multiply_adds(rounds, 0.5)
        return rounds * self._operations

    def copy(self, target: np.ndarray, source: np.ndarray, times: int = 1) -> int:
        """Copy a contiguous array to another of the same size; returns the bytes moved, reads plus writes."""
        self._copy(target.ctypes.data, source.ctypes.data, source.nbytes, times)
        return 2 * source.nbytes * times


@dataclass(frozen=True)
class Roofline:
    """Floating-point operations a second at the peak, and bytes a second of a copy by the bytes it moves."""

    peak: float
    copies: dict[int, float]

    def share(self, operations: float, size: int, seconds: float) -> tuple[float, str]:
        """The share of the roof that binds ``operations`` on ``size`` bytes, and its name: compute or memory.

        ``size`` is one of those measured, or 0.
        """
        compute = operations / self.peak / seconds
        memory = size / self.copies[size] / seconds if size else 0.0
        return (compute, "compute") if compute >= memory else (memory, "memory")


def measure(roofs: Roofs, sizes: Iterable[int]) -> Roofline:
    """Measure the peak, and the bandwidth of copies that move each of these numbers of bytes: half a second in all.

    Small copies are repeated and so run in the caches, like operands that the kernel before has just written.
    """
    roofs.multiply_add(_ROUNDS)
    peak = max(_rates(lambda: roofs.multiply_add(_ROUNDS), _PEAK_SECONDS))
    wanted = sorted({size for size in sizes if size > 0})
    largest = min(_LARGEST_COPY, max(wanted, default=0))
    source, target = np.ones(largest // 2 + 1, np.uint8), np.zeros(largest // 2 + 1, np.uint8)
    copies = {}
    for size in wanted:
        half = max(1, min(size, largest) // 2)
        copies[size] = _copy_rate(roofs, target[:half], source[:half], _COPY_SECONDS / len(wanted))
    return Roofline(peak, copies)


def _copy_rate(roofs: Roofs, target: np.ndarray, source: np.ndarray, seconds: float) -> float:
    (first,) = _rates(lambda: roofs.copy(target, source), 0)
    times = max(1, int(seconds / _TRIES * first / (2 * source.nbytes)))
    return max(_rates(lambda: roofs.copy(target, source, times), seconds))


def _rates(run: Callable[[], int], seconds: float) -> list[float]:
    """The result of ``run`` per second, for each of its runs in about ``seconds`` (at least one)."""
    rates: list[float] = []
    end = time.perf_counter() + seconds
    while not rates or time.perf_counter() < end:
        start = time.perf_counter()
        amount = run()
        rates.append(amount / (time.perf_counter() - start))
    return rates


def target_of(arch: str, features: Iterable[str]) -> Target:
    """The target that code for these features was made for. Raises ``CompileError`` where none has them."""
    wanted = set(features)
    for name in names():
        target = get(name)
        if target.machine.arch == arch and target.runs_here and set(target.machine.features) == wanted:
            return target
    found = ", ".join(sorted(wanted)) or "(none)"
    raise CompileError(f"no target of this version has exactly the features {found}")


def _loaded(blob: bytes) -> llvm.ExecutionEngine:
    """The object file, linked into this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("")  # memcpy is this process's
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(blob))
    engine.finalize_object()
    return engine


def _code(chains: int, target: Target) -> str:
    """LLVM IR of ``float multiply_adds(rounds, seed)`` and ``copy(target, source, bytes, times)``."""
    lanes = target.machine.lanes(32)
    vector = f"<{lanes} x float>"
    starts = (", ".join(f"float {chain + lane / lanes}" for lane in range(lanes)) for chain in range(chains))
    carried = [f"  %a{n} = phi {vector} [ <{start}>, %entry ], [ %b{n}, %loop ]" for n, start in enumerate(starts)]
    return f"""
define float @multiply_adds(i64 %rounds, float %seed) {{
entry:
  %s0 = insertelement {vector} poison, float %seed, i32 0
  %scale = shufflevector {vector} %s0, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %round = phi i64 [ 0, %entry ], [ %next, %loop ]
{_lines(carried)}
{_lines(_multiply_add(n, vector, target.machine.fma) for n in range(chains))}
  %next = add i64 %round, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %exit
exit:
{_lines(f"  %t{n + 1} = fadd {vector} {f'%t{n}' if n else '%b0'}, %b{n + 1}" for n in range(chains - 1))}
  %sum = extractelement {vector} {f"%t{chains - 1}" if chains > 1 else "%b0"}, i32 0
  ret float %sum
}}
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})

define void @copy(ptr %target, ptr %source, i64 %bytes, i64 %times) {{
entry:
  br label %loop
loop:
  %time = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 true)
  %next = add i64 %time, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _multiply_add(chain: int, vector: str, fused: bool) -> str:
    """``b = a * scale + scale``: with a scale below 1 it converges, so that the values stay ordinary ones."""
    if fused:
        call = f"call {vector} @llvm.fma.v{vector[1 : vector.index(' ')]}f32"
        return f"  %b{chain} = {call}({vector} %a{chain}, {vector} %scale, {vector} %scale)"
    product = f"  %p{chain} = fmul {vector} %a{chain}, %scale\n"
    return f"{product}  %b{chain} = fadd {vector} %p{chain}, %scale"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)
