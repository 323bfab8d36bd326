"""``rillet.compile``: the driver that takes a source through the pipeline and gives a loaded module."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

import numpy as np

from rillet import pipeline, runtime
from rillet.codegen.cache import default_directory
from rillet.codegen.library import Progress, compile_library, compile_parts
from rillet.codegen.result import CodegenOptions
from rillet.errors import CompileError, LoadError
from rillet.frontends.arguments import checked_values
from rillet.frontends.frontend import Model
from rillet.frontends.registry import open_model
from rillet.ir import Program, turn
from rillet.ir.image import Image
from rillet.ir.kernels import entry_facts, kernel_texts
from rillet.module import CompiledLibrary, write_module
from rillet.runtime.module import thread_count
from rillet.support.files import check_folder, path_text
from rillet.targets import Packing, Target, get
from rillet.targets import devices as device_descriptions
from rillet.targets.devices import CPU, Device
from rillet.tuning import record as tuning_record
from rillet.vm import encode

if TYPE_CHECKING:
    from rillet.export import CrossModule

Shape = Sequence[int | str]


@dataclass(frozen=True)
class CompileOptions:
    """Everything a compilation can be told besides its source and targets."""

    jobs: int | None = None  # worker processes; None: one a core
    cache: Path | None = None  # compile cache; None: no cache
    dump_ir: Path | None = None  # write the module after every stage here
    optimize_for_size: bool = False
    tuning: tuning_record.Record | None = None  # choices that overrule the cost model's
    devices: tuple[Device, ...] = (CPU,)  # that the program runs on, by ordinal


class _Keywords(TypedDict, total=False):
    inputs: Mapping[str, Shape] | None
    dims: Mapping[str, int] | None
    values: Mapping[str, np.ndarray] | None
    device: str | Sequence[str] | None
    threads: int | None
    jobs: int | None
    cache: bool | str | os.PathLike[str]
    dump_ir: str | os.PathLike[str] | None
    optimize_for_size: bool
    tuning: bool | str | os.PathLike[str]
    progress: Progress | None


@overload
def compile(source: object, *, target: Literal["host"] = "host", **options: Unpack[_Keywords]) -> runtime.Module: ...


@overload
def compile(
    source: object, *, target: str | Sequence[str], **options: Unpack[_Keywords]
) -> runtime.Module | CrossModule: ...


def compile(
    source: object,
    *,
    target: str | Sequence[str] = "host",
    inputs: Mapping[str, Shape] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    device: str | Sequence[str] | None = None,
    threads: int | None = None,
    jobs: int | None = None,
    cache: bool | str | os.PathLike[str] = True,
    dump_ir: str | os.PathLike[str] | None = None,
    optimize_for_size: bool = False,
    tuning: bool | str | os.PathLike[str] = True,
    progress: Progress | None = None,
) -> runtime.Module | CrossModule:
    """Compile a model and load it; for a target that this machine cannot run, what comes back is saved or exported.

    Args:
        source: a path to an ONNX model or MLIR text, the bytes of an ONNX model, an ``onnx.ModelProto``, MLIR text,
            an ``mlir.ir.Module``, or what a frontend of another package takes.
        target: a target name, or several to put several variants of the code into one file (the best one that the CPU
            supports is chosen at load); see ``rillet targets``.
        inputs: shapes by input name that pin the model's own dynamic dimensions; a string or -1 makes one dynamic. A
            size for a dimension that has a name in the model pins it in the inputs that are left out, too.
        dims: sizes by name of a dynamic dimension, which pin it in all inputs.
        values: inputs by name whose value the code may rely on (axes, shapes, ... that shape it). They stay inputs,
            but are not read: a call with another value gives the results for this one.
        device: the devices that the program is divided over, by name: "cpu-sync" (one core), "cpu-task" (a pool of
            threads). The first holds inputs and results. One that is missing where the program is loaded is replaced by
            the first. None: one device, any CPU.
        threads: threads a call uses; None: one a core.
        jobs: processes that compile; None: one a core.
        cache: reuse compiled kernels: True for the default directory, a path, or False.
        dump_ir: a directory that gets the module after every stage, and each kernel as MLIR, LLVM IR and assembly.
        optimize_for_size: prefer small files over fast code.
        tuning: use what ``rillet tune`` found out: True for the default record, where there is one, a path, or False.
        progress: called with (finished, total) kernels; by default a long compile shows a bar on a terminal.

    Raises:
        UnsupportedError: names every node that cannot be compiled.
        CompileError: the source is invalid.
        SaveError: ``dump_ir`` cannot be written into.
    """
    options = _options(jobs, cache, dump_ir, optimize_for_size, tuning, device)
    if progress is not None and not callable(progress):
        raise CompileError(f"progress must be a function of (finished, total), not {progress!r}")
    _check_threads(threads)
    targets = resolve_targets(target)
    with turn:
        model = open_model(source, inputs, dims)
        if not any(t.runs_here for t in targets):  # the loader takes the best of them that this CPU supports
            return _cross_compile(model, targets, values, options, progress)
        blob = compile_to_bytes(model, targets=targets, values=values, options=options, progress=progress)
    return runtime.load(blob, threads=threads)


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
    """Compile a model in order to export it, whatever the machine it is for. See ``compile``."""
    options = _options(jobs, cache, dump_ir, optimize_for_size, tuning, device)
    with turn:
        model = open_model(source, inputs, dims)
        return _cross_compile(model, resolve_targets(target), values, options, progress)


def _options(
    jobs: int | None,
    cache: bool | str | os.PathLike[str],
    dump_ir: str | os.PathLike[str] | None,
    optimize_for_size: bool,
    tuning: bool | str | os.PathLike[str],
    device: str | Sequence[str] | None,
) -> CompileOptions:
    check_jobs(jobs)
    if not isinstance(dump_ir, str | os.PathLike | None):
        raise CompileError(f"dump_ir must be the path of a folder, not {dump_ir!r}")
    if dump_ir is not None:
        check_folder(dump_ir)
    return CompileOptions(
        jobs=jobs,
        cache=cache_directory(cache),
        dump_ir=Path(dump_ir) if dump_ir is not None else None,
        optimize_for_size=optimize_for_size,
        tuning=None if optimize_for_size else tuning_record.resolve(tuning),
        devices=device_descriptions.resolve(device),
    )


def check_jobs(jobs: int | None) -> None:
    """Raise ``CompileError`` unless so many processes can compile; None is one a core."""
    if jobs is None:
        return
    try:
        count = 0 if isinstance(jobs, bool) else operator.index(jobs)
    except TypeError:
        count = 0
    if count < 1:
        raise CompileError(f"jobs must be a number of processes from 1 on, not {jobs!r}")


def _check_threads(threads: int | None) -> None:
    """Before the work: loading, which uses the number, comes after it."""
    try:
        thread_count(threads)
    except LoadError as error:
        raise CompileError(str(error)) from None


def _cross_compile(
    model: Model,
    targets: Sequence[Target],
    values: Mapping[str, np.ndarray] | None,
    options: CompileOptions,
    progress: Progress | None,
) -> CrossModule:
    from rillet import export

    def build() -> export.Build:
        with turn:
            return export.build(model, targets[0], values, options, progress)

    if not targets[0].deployment.has_loader:
        if len(targets) > 1:
            names = ", ".join(t.name for t in targets)
            raise CompileError(f"targets {names} have no loader that could choose: compile for each by itself")
        built = build()
        return export.CrossModule(targets, built.image, None, lambda: built)
    image, libraries = _compile_image(model, targets, values, options, progress)
    return export.CrossModule(targets, image, write_module(image, libraries), build)


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
    image, libraries = _compile_image(model, targets, values, options or CompileOptions(), progress)
    memory = write_module(image, libraries)
    assert memory is not None  # there was no sink
    return memory


def _compile_image(
    model: Model,
    targets: Sequence[Target],
    values: Mapping[str, np.ndarray] | None,
    options: CompileOptions,
    progress: Progress | None,
) -> tuple[Image, list[CompiledLibrary]]:
    sets = _targets_of_devices(options.devices, targets)
    every = [target for those in sets for target in those]
    image, parts = lower(model, _packing_of_all(every), values, options)
    if options.tuning:
        options.tuning.warn_unless_used(parts, every)
    libraries = []
    for kernels, (those, names) in enumerate(zip(sets, image.entries, strict=True)):
        own = [(name, text) for name, text in parts if name in names]
        libraries += [_compile_for(target, own, kernels, options, progress) for target in those]
    return image, libraries


def _targets_of_devices(devices: Sequence[Device], targets: Sequence[Target]) -> list[list[Target]]:
    """The targets of each set of kernels: devices of one target share a set, those without use ``targets``."""
    names = dict.fromkeys(device.target for device in devices)
    sets = [list(targets) if name is None else [get(name)] for name in names]
    if len({target.packing.columns for those in sets for target in those}) > 1:
        shown = ", ".join(dict.fromkeys(target.name for those in sets for target in those))
        raise CompileError(
            f"targets {shown} of devices {', '.join(device.name for device in devices)} cannot share constants, since "
            "they differ in packing: choose another target"
        )
    return sets


def _packing_of_all(targets: Sequence[Target]) -> Target:
    """The first target; its 8-bit constants are packed for the others too, step by step where those differ."""
    first, *others = targets
    if all(t.packing == first.packing for t in others):
        return first
    return dataclasses.replace(first, packing=Packing(first.packing.columns))


def lower(
    model: Model,
    target: Target,
    values: Mapping[str, np.ndarray] | None = None,
    options: CompileOptions | None = None,
) -> tuple[Image, list[tuple[str, str]]]:
    """Everything but code generation: what goes into the module file, and its kernels (name, module text)."""
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


def print_stage(
    source: object,
    stage: str,
    *,
    target: Target,
    inputs: Mapping[str, Shape] | None = None,
    dims: Mapping[str, int] | None = None,
    device: str | Sequence[str] | None = None,
) -> str:
    """What ``stage`` makes of ``source``, as text: the module, or every kernel's assembly after stage "codegen"."""
    if stage not in pipeline.STAGES:
        raise CompileError(f"unknown stage '{stage}'; stages: {', '.join(pipeline.STAGES)}")
    with turn:
        model = open_model(source, inputs, dims)
        if stage != "codegen":
            return str(lower_until(model, stage, target=target, devices=device_descriptions.resolve(device)).module)
        parts = kernel_texts(lower_until(model, "dispatch", target=target))
        compiled = compile_parts(parts, target, CodegenOptions(keep_intermediates=True))
        return "\n".join(list(kernel.listings.values())[-1] for kernel in compiled)


def lower_until(model: Model, stage: str, *, target: Target, devices: Sequence[Device] = (CPU,)) -> Program:
    """Run the pipeline's passes up to and including those of ``stage`` and return the program as it is then."""
    program = import_model(model)
    pipeline.run(program, pipeline.options_for(target, devices=devices), until=stage)
    return program


def import_model(
    model: Model, trace: pipeline.Trace | None = None, values: Mapping[str, np.ndarray] | None = None
) -> Program:
    """The model's program in the tensor form, verified."""
    program = model.program(checked_values(values))
    pipeline.verify(program, "frontend")
    if trace:
        trace.dump("frontend", program)
    return program


def resolve_targets(target: str | Sequence[str]) -> list[Target]:
    """The targets named, best first, as the loader tries them in order."""
    if isinstance(target, bytes | bytearray) or not isinstance(target, str | Sequence):
        raise CompileError(f"target must be a name or several, not {target!r}; 'rillet targets' lists them")
    names = [target] if isinstance(target, str) else list(target)
    if not names:
        raise CompileError("name at least one target; 'rillet targets' lists them")
    targets = list(dict.fromkeys(get(name) for name in names))
    if len({(t.packing.columns, t.machine.arch) for t in targets}) > 1:
        raise CompileError(
            f"targets {', '.join(names)} cannot share one file, since they differ in architecture or packing: "
            "compile for each by itself"
        )
    return sorted(targets, key=lambda t: t.machine.rank, reverse=True)


def _compile_for(
    target: Target, parts: Sequence[tuple[str, str]], kernels: int, options: CompileOptions, progress: Progress | None
) -> CompiledLibrary:
    from rillet.support.progress_bar import bar

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
            jobs=options.jobs,
            cache_directory=options.cache,
            progress=report,
        )
    pipeline.Trace(options.dump_ir).dump_kernels(target.name, compiled)
    return CompiledLibrary.of(target, linked.format, linked.data, (kernel.name for kernel in compiled), kernels)


def cache_directory(cache: bool | str | os.PathLike[str]) -> Path | None:
    """The compile cache that ``compile``'s argument means; None for none."""
    if cache is False:
        return None
    if cache is True:
        return default_directory()
    if not isinstance(cache, str | os.PathLike):
        raise CompileError(f"cache must be True, False or the path of a folder, not {cache!r}")
    path_text(cache, "cache: cannot use", CompileError)
    if Path(cache).exists() and not Path(cache).is_dir():
        raise CompileError(f"cache: {cache} is not a folder")
    return Path(cache)
