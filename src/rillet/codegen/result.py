"""Input and output of code generation, free of MLIR and LLVM so that the cache and the workers can pass them around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rillet.codegen.knobs import MODEL, Choice, Knobs


@dataclass(frozen=True)
class CodegenOptions:
    """Options of one kernel's compilation."""

    optimize_for_size: bool = False
    keep_intermediates: bool = False  # keep listings beside the code
    knobs: Knobs = MODEL  # choices that overrule the cost model's


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel as code. A backend's subclass adds its own facts."""

    name: str
    object: bytes  # the code, as the backend links it
    binding_count: int
    constant_count: int
    strategy: str  # the kind of kernel, by the backend's strategy
    choice: Choice | None = None  # the strategy's decisions; None when it decides nothing
    listings: Mapping[str, str] = field(default_factory=dict)  # the kernel's forms by file ending, the code last


@dataclass(frozen=True)
class KernelLibrary:
    """All kernels of a program for one target, as a module file holds them."""

    format: int  # tells a loader the format of ``data``: a ``rillet.ir.image.LibraryFormat``, or the backend's own
    data: bytes
