"""``rillet.compile``: a source becomes a loaded module, or one to export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, overload

import numpy as np

from rillet import runtime
from rillet.codegen.library import Progress
from rillet.driver.module_file import compile_to_bytes
from rillet.driver.options import (
    Keywords,
    Shape,
    check_progress,
    check_threads,
    options_of,
)
from rillet.driver.targets import resolve_targets
from rillet.frontends.registry import open_model
from rillet.ir import turn
from rillet.support.suggestions import suggests_keywords

if TYPE_CHECKING:
    from rillet.export import CrossModule


@overload
def compile(source: object, *, target: Literal["host"] = "host", **options: Unpack[Keywords]) -> runtime.Module: ...


@overload
def compile(
    source: object, *, target: str | Sequence[str], **options: Unpack[Keywords]
) -> runtime.Module | CrossModule: ...


@suggests_keywords
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
        device: the device that runs the program, or several that it is divided over, by name: "cpu-sync" (one core),
            "cpu-task" (a pool of threads). The first holds inputs and results. One that is missing where the program is
            loaded is replaced by the first. None: one device, any CPU.
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
    options = options_of(jobs, cache, dump_ir, optimize_for_size, tuning, device)
    check_progress(progress)
    check_threads(threads)
    targets = resolve_targets(target)
    with turn:
        model = open_model(source, inputs, dims)
        if not any(t.runs_here for t in targets):  # the loader takes the best of them that this CPU supports
            from rillet.driver.export import cross_compile_model

            return cross_compile_model(model, targets, values, options, progress)
        blob = compile_to_bytes(model, targets=targets, values=values, options=options, progress=progress)
    return runtime.load(blob, threads=threads)
