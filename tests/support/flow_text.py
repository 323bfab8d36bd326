"""Writes flow modules as text: declarations of kernels around a given ``@main``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FlowKernel:
    """A signature: types of arguments (tensors, then scalars) and of results.

    ``dims`` gives for each result the positions of the arguments that hold its dynamic extents; ``macs`` and ``bytes``
    are what placement counts.
    """

    arguments: str
    results: tuple[str, ...]
    dims: tuple[tuple[int, ...], ...] = ()
    tied: tuple[int, ...] = ()
    may_alias: tuple[int, ...] = ()
    macs: int = 0
    bytes: int = 0

    def declaration(self, name: str) -> str:
        results = []
        for number, result in enumerate(self.results):
            positions = self.dims[number] if self.dims else ()
            text = f" {{flow.dims = array<i64: {', '.join(map(str, positions))}>}}" if positions else ""
            results.append(result + text)
        attributes = [f"flow.kernel = @kernels::@{name}"]
        if self.tied:
            attributes.append(f"flow.tied = array<i64: {', '.join(map(str, self.tied))}>")
        if self.may_alias:
            attributes.append(f"flow.may_alias = array<i64: {', '.join(map(str, self.may_alias))}>")
        attributes.append(f"rillet.macs = {self.macs} : i64, rillet.bytes = {self.bytes} : i64")
        signature = f"({self.arguments}) -> ({', '.join(results)})"
        return f"  func.func private @{name}{signature} attributes {{{', '.join(attributes)}}}"


def module(kernel_texts: Mapping[str, FlowKernel], main: str, constants: Mapping[str, str] | None = None) -> str:
    """A module with empty kernels, their declarations, external globals of the given types, and ``main``."""
    inner = "\n".join(f"    module @{name} attributes {{flow.kernel}} {{}}" for name in kernel_texts)
    declarations = "\n".join(e.declaration(name) for name, e in kernel_texts.items())
    globals_ = "\n".join(
        f"  ml_program.global private @{name}(#ml_program.extern<{type_}>) : {type_}"
        for name, type_ in (constants or {}).items()
    )
    return f"module {{\n  module @kernels {{\n{inner}\n  }}\n{declarations}\n{globals_}\n{main}\n}}\n"
