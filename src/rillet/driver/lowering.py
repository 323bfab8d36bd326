"""From a model to the last stage, or to any before it: everything but code generation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from rillet import pipeline
from rillet.codegen.library import compile_parts
from rillet.codegen.result import CodegenOptions
from rillet.driver.options import (
    CompileOptions,
    Shape,
)
from rillet.errors import CompileError
from rillet.frontends.arguments import checked_values
from rillet.frontends.frontend import Model
from rillet.frontends.registry import import_program, open_model
from rillet.ir import Program, turn
from rillet.ir.image import Image
from rillet.ir.kernels import entry_facts, kernel_texts
from rillet.targets import Target
from rillet.targets import devices as device_descriptions
from rillet.targets.devices import CPU, Device
from rillet.vm import encode


def lower(
    model: Model,
    target: Target,
    values: Mapping[str, np.ndarray] | None = None,
    options: CompileOptions | None = None,
) -> tuple[Image, list[tuple[str, str]]]:
    """Everything except code generation: the module file's content, and its kernels (name, module text)."""
    options = options or CompileOptions()
    trace = pipeline.Trace(options.dump_ir)
    program = import_model(model, trace, values)
    stages = pipeline.options_for(target, optimize_for_size=options.optimize_for_size, devices=options.devices)
    pipeline.run(program, stages, until="dispatch", trace=trace)
    parts = kernel_texts(program)
    facts = dict(zip((name for name, _ in parts), entry_facts(program), strict=True))
    pipeline.run(program, stages, after="dispatch", until="vm", trace=trace)
    image = encode(program)
    return dataclasses.replace(image, facts=tuple(facts[name] for names in image.entries for name in names)), parts


def lower_until(model: Model, stage: str, *, target: Target, devices: Sequence[Device] = (CPU,)) -> Program:
    """Run the pipeline's passes up to and including those of ``stage`` and return the program as it is then."""
    program = import_model(model)
    pipeline.run(program, pipeline.options_for(target, devices=devices), until=stage)
    return program


def import_model(
    model: Model, trace: pipeline.Trace | None = None, values: Mapping[str, np.ndarray] | None = None
) -> Program:
    """The model's program in the tensor form, verified."""
    program = import_program(model, checked_values(values))
    pipeline.verify(program, "frontend")
    if trace:
        trace.dump("frontend", program)
    return program


def print_stage(
    source: object,
    stage: str,
    *,
    target: Target,
    inputs: Mapping[str, Shape] | None = None,
    dims: Mapping[str, int] | None = None,
    device: str | Sequence[str] | None = None,
) -> str:
    """The program after ``stage`` of compiling ``source``, as text: the module, or every kernel's assembly after stage
    "codegen"."""
    if stage not in pipeline.STAGES:
        raise CompileError(f"unknown stage '{stage}'; stages: {', '.join(pipeline.STAGES)}")
    with turn:
        model = open_model(source, inputs, dims)
        if stage != "codegen":
            return str(lower_until(model, stage, target=target, devices=device_descriptions.resolve(device)).module)
        parts = kernel_texts(lower_until(model, "dispatch", target=target))
        compiled = compile_parts(parts, target, CodegenOptions(keep_intermediates=True))
        return "\n".join(list(kernel.listings.values())[-1] for kernel in compiled)
