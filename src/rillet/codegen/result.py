"""What code generation takes and gives, free of MLIR and LLVM so that the cache and the workers can pass it around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rillet.codegen.knobs import MODEL, Choice, Knobs


@dataclass(frozen=True)
class CodegenOptions:
    """Options of one kernel's compilation."""

    optimize_for_size: bool = False
    keep_intermediates: bool = False  # listings, beside the code
    knobs: Knobs = MODEL  # choices that overrule the cost model's


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel as code. A backend adds what else it knows of its kernels (a subclass)."""

    name: str
    object: bytes  # the code, as the backend links it
    binding_count: int
    constant_count: int
    strategy: str  # what kind of kernel the backend took it for
    choice: Choice | None = None  # what was decided; None when the kernel's strategy decides nothing
    listings: Mapping[str, str] = field(default_factory=dict)  # the kernel's forms by file ending, the code last


@dataclass(frozen=True)
class KernelLibrary:
    """All kernels of a program for one target, as a module file holds them."""

    format: int  # by which a loader knows what ``data`` is: ``rillet.ir.image.LibraryFormat``, or the backend's own
    data: bytes
