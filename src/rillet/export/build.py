"""From a model to the content of an exported folder: kernels as objects, constants, the host program as emitc."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch_mlir import ir

from rillet import pipeline
from rillet.codegen.cpu.machine import CpuTarget, is_cpu
from rillet.codegen.cpu.result import CpuKernel
from rillet.codegen.library import Progress, compile_parts
from rillet.codegen.result import CodegenOptions
from rillet.errors import CompileError, advice
from rillet.export import convert_to_emitc, session_memory
from rillet.export.convert_to_emitc import Lowered
from rillet.export.results import refuse_strings, replace_maps
from rillet.ir import Program
from rillet.ir.attributes import DIMS, NAME
from rillet.ir.image import Image, TensorSpec
from rillet.ir.kernels import entry_facts, kernel_texts
from rillet.support.progress_bar import bar
from rillet.targets import Target
from rillet.vm import encode


@dataclass(frozen=True)
class Build:
    """A model compiled for one target, before it is written to a folder."""

    target: CpuTarget
    lowered: Lowered
    kernels: tuple[CpuKernel, ...]  # in ordinal order
    image: Image
    requests: tuple[session_memory.Request, ...]  # what a session of the runtime allocates, for static mode
    cache: Path | None = None  # folder for compiled objects

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in order."""
        return self.image.exports[0].inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in order."""
        return self.image.exports[0].outputs


def build(
    program: Program,
    target: Target,
    *,
    trace: pipeline.Trace,
    optimize_for_size: bool = False,
    jobs: int | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Build:
    """Compile a program in the tensor form for static memory.

    Raises ``CompileError`` naming the inputs to pin if shapes are dynamic, and for a target that is no CPU.
    """
    if not is_cpu(target):
        raise CompileError(
            f"target {target.name} cannot be exported: its backend '{target.backend}' makes no objects to link with C"
        )
    require_static_inputs(program, target)
    replace_maps(program)
    refuse_strings(program, target)
    stages = pipeline.options_for(target, optimize_for_size=optimize_for_size)
    pipeline.run(program, stages, until="dispatch", trace=trace)
    parts = [_renamed(name, text, target) for name, text in kernel_texts(program)]
    sources = {name: facts.sources for (name, _), facts in zip(parts, entry_facts(program), strict=True)}
    with bar(f"compiling for {target.name}", progress) as report:
        compiled = compile_parts(
            parts,
            target,
            CodegenOptions(optimize_for_size=optimize_for_size, keep_intermediates=trace.directory is not None),
            sources=sources,
            jobs=jobs,
            cache_directory=cache,
            progress=report,
        )
    trace.dump_kernels(target.name, compiled)
    kernels = cast("list[CpuKernel]", compiled)  # the backend's
    pipeline.run(program, stages, after="dispatch", until="hal", trace=trace)
    lowered = convert_to_emitc.lower(program, kernels)
    requests = session_memory.of_program(program, kernels)
    pipeline.run(program, stages, after="hal", until="vm", trace=trace)
    image = encode(program)
    requests += session_memory.of_session(program, image)
    return Build(target, lowered, tuple(kernels), image, tuple(requests), cache)


def require_static_inputs(program: Program, target: Target) -> None:
    """Raise ``CompileError`` listing every input with a dynamic dimension, or naming an input that holds strings."""
    attributes = program.main().attributes
    dynamic: list[str] = []
    named: list[str] = []
    for attribute in ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else ():
        spec = ir.DictAttr(attribute)
        if DIMS not in spec:
            continue
        dims = [ir.StringAttr(d).value for d in ir.ArrayAttr(spec[DIMS])]
        if not all(d.isdecimal() for d in dims):
            name = ir.StringAttr(spec[NAME]).value
            if name.endswith("[bytes]"):
                raise CompileError(
                    f"target {target.name} has static memory, but input '{name.removesuffix('[bytes]')}' holds "
                    "strings, which have no fixed size; give the model numbers instead"
                )
            sizes = [d if d.isdecimal() else "1" for d in dims]
            shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
            pinned = advice(f"inputs={{'{name}': {shape}}}", f"--shape {name}={'x'.join(sizes)}")
            dynamic.append(f"input '{name}' [{', '.join(dims)}]: {pinned}")
            named += [d for d in dims if not d.isdecimal() and d != "?"]
    shared = [
        f"all of '{name}': {advice(f'dims={{{name!r}: 1}}', f'--dim {name}=1')}"
        for name in dict.fromkeys(named)
        if named.count(name) > 1
    ]
    if dynamic:
        raise CompileError(
            f"target {target.name} has static memory, so every input needs a fixed shape; pin them, for example:\n  "
            + "\n  ".join([*dynamic, *shared])
        )


def _renamed(name: str, text: str, target: Target) -> tuple[str, str]:
    """Names for a kernel's symbols that depend on its content: two models in one firmware share only equal kernels."""
    digest = hashlib.sha256(f"{target}\n{text}".encode()).hexdigest()[:8]
    symbol = f"rlt_{digest}_{name}"
    return symbol, re.sub(rf"@{re.escape(name)}\b", f"@{symbol}", text)
