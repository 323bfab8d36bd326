"""From a model to a module file: the host program, and a library of kernels for each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rillet import pipeline
from rillet.codegen.library import Progress, compile_library
from rillet.codegen.result import CodegenOptions
from rillet.driver.lowering import lower
from rillet.driver.options import (
    CompileOptions,
)
from rillet.driver.targets import packed_alike, targets_of_devices
from rillet.errors import CompileError
from rillet.frontends.frontend import Model
from rillet.ir.image import Image
from rillet.module import CompiledLibrary, write_module
from rillet.support.progress_bar import bar
from rillet.targets import Target


def compile_to_bytes(
    model: Model,
    *,
    targets: Sequence[Target],
    values: Mapping[str, np.ndarray] | None = None,
    options: CompileOptions | None = None,
    progress: Progress | None = None,
) -> memoryview:
    """Compile ``model`` for ``targets`` and return the module file's bytes. See ``compile``."""
    if bare := [t.name for t in targets if not t.deployment.has_loader]:
        raise CompileError(f"target {bare[0]} has no loader for module files: export the model instead")
    image, libraries = compile_image(model, targets, values, options or CompileOptions(), progress)
    memory = write_module(image, libraries)
    assert memory is not None  # there was no sink
    return memory


def compile_image(
    model: Model,
    targets: Sequence[Target],
    values: Mapping[str, np.ndarray] | None,
    options: CompileOptions,
    progress: Progress | None,
) -> tuple[Image, list[CompiledLibrary]]:
    """Compiles a model to a module image, with a library for each target of each device."""
    sets = targets_of_devices(options.devices, targets)
    every = [target for those in sets for target in those]
    image, parts = lower(model, packed_alike(every), values, options)
    if options.tuning:
        options.tuning.warn_unless_used(parts, every)
    libraries = []
    named = [name for those in image.entries for name in those]
    sources = {name: facts.sources for name, facts in zip(named, image.facts, strict=True)}
    for kernels, (those, names) in enumerate(zip(sets, image.entries, strict=True)):
        own = [(name, text) for name, text in parts if name in names]
        libraries += [_compile_for(target, own, sources, kernels, options, progress) for target in those]
    return image, libraries


def _compile_for(
    target: Target,
    parts: Sequence[tuple[str, str]],
    sources: Mapping[str, str],
    kernels: int,
    options: CompileOptions,
    progress: Progress | None,
) -> CompiledLibrary:
    codegen_options = CodegenOptions(
        optimize_for_size=options.optimize_for_size, keep_intermediates=options.dump_ir is not None
    )
    knobs = options.tuning.knobs_of(parts, target) if options.tuning else None
    with bar(f"compiling for {target.name}", progress) as report:
        linked, compiled = compile_library(
            parts,
            target,
            codegen_options,
            knobs=knobs,
            sources=sources,
            jobs=options.jobs,
            cache_directory=options.cache,
            progress=report,
        )
    pipeline.Trace(options.dump_ir).dump_kernels(target.name, compiled)
    return CompiledLibrary.of(target, linked.format, linked.data, (kernel.name for kernel in compiled), kernels)
