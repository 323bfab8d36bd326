"""Compiling a model in order to export it, for a machine whose code this one cannot run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from rillet import pipeline
from rillet.codegen.library import Progress
from rillet.driver.lowering import import_model
from rillet.driver.module_file import compile_image
from rillet.driver.options import (
    CompileOptions,
    Shape,
    options_of,
)
from rillet.driver.targets import resolve_targets
from rillet.errors import CompileError
from rillet.export.build import Build, build
from rillet.export.module import CrossModule
from rillet.frontends.frontend import Model
from rillet.frontends.registry import open_model
from rillet.ir import defaults, turn
from rillet.module import write_module
from rillet.targets import Target


def cross_compile(
    source: object,
    *,
    target: str,
    inputs: Mapping[str, Shape] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    device: str | Sequence[str] | None = None,
    jobs: int | None = None,
    cache: bool | str | os.PathLike[str] = True,
    dump_ir: str | os.PathLike[str] | None = None,
    optimize_for_size: bool = False,
    tuning: bool | str | os.PathLike[str] = True,
    progress: Progress | None = None,
) -> CrossModule:
    """Compile a model in order to export it, for any machine. See ``compile``."""
    options = options_of(jobs, cache, dump_ir, optimize_for_size, tuning, device)
    with turn:
        model = open_model(source, inputs, dims)
        return cross_compile_model(model, resolve_targets(target), values, options, progress)


def cross_compile_model(
    model: Model,
    targets: Sequence[Target],
    values: Mapping[str, np.ndarray] | None,
    options: CompileOptions,
    progress: Progress | None,
) -> CrossModule:
    """The model compiled for other machines: as a module file where they load one, else for static memory."""

    def built_later() -> Build:
        with turn:
            return static_build(model, targets[0], values, options, progress)

    if not targets[0].deployment.has_loader:
        if len(targets) > 1:
            names = ", ".join(t.name for t in targets)
            raise CompileError(f"targets {names} have no loader that could choose: compile for each by itself")
        built = built_later()
        return CrossModule(targets, built.image, None, lambda: built)
    image, libraries = compile_image(model, targets, values, options, progress)
    return CrossModule(targets, image, write_module(image, libraries), built_later)


def static_build(
    model: Model,
    target: Target,
    values: Mapping[str, np.ndarray] | None,
    options: CompileOptions,
    progress: Progress | None,
) -> Build:
    """The content of an export of ``model``. Raises ``CompileError`` where its devices or target cannot be exported."""
    if len(options.devices) > 1:
        names = ", ".join(device.name for device in options.devices)
        raise CompileError(f"a program for devices {names} cannot be exported: compile it for one device")
    trace = pipeline.Trace(options.dump_ir)
    program = import_model(model, trace, values)
    defaults.hold(program)  # calls of firmware pass every input
    return build(
        program,
        target,
        trace=trace,
        optimize_for_size=options.optimize_for_size,
        jobs=options.jobs,
        cache=options.cache,
        progress=progress,
    )
