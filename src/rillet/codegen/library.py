"""Compiles the kernels of a program for one target: cached by content, in parallel, linked by the target's backend."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rillet.codegen import cache
from rillet.codegen.backends import backend_of
from rillet.codegen.knobs import Knobs
from rillet.codegen.pool import Job, Pool
from rillet.codegen.result import CodegenOptions, CompiledKernel, KernelLibrary
from rillet.errors import CompileError
from rillet.targets import Target

Progress = Callable[[int, int], None]  # (finished, total)


def compile_library(
    kernel_texts: Sequence[tuple[str, str]],
    target: Target,
    options: CodegenOptions,
    *,
    knobs: Mapping[str, Knobs] | None = None,
    sources: Mapping[str, str] | None = None,
    jobs: int | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[KernelLibrary, list[CompiledKernel]]:
    """Compiles as ``compile_parts`` does and links: the library, and the parts."""
    compiled = compile_parts(
        kernel_texts,
        target,
        options,
        knobs=knobs,
        sources=sources,
        jobs=jobs,
        cache_directory=cache_directory,
        progress=progress,
    )
    return backend_of(target).link(compiled, target), compiled


def compile_parts(
    kernel_texts: Sequence[tuple[str, str]],
    target: Target,
    options: CodegenOptions,
    *,
    knobs: Mapping[str, Knobs] | None = None,
    sources: Mapping[str, str] | None = None,
    jobs: int | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> list[CompiledKernel]:
    """Compile ``kernels``, pairs of (name, module text), in order.

    ``knobs``: choices that overrule the cost model's, by the kernel's name. Where a kernel cannot be compiled with
    them, a ``RuntimeWarning`` says so and the cost model's are used. ``sources``: the nodes that each kernel computes,
    by its name. ``jobs``: the number of worker processes (default: one for each core). ``cache_directory``: None means
    no cache. Raises ``CompileError`` naming the kernel that failed, and its nodes.
    """
    chosen = knobs or {}
    work = [
        Job(name, text, target, dataclasses.replace(options, knobs=chosen.get(name, options.knobs)))
        for name, text in kernel_texts
    ]

    def check(job: Job, outcome: CompiledKernel | CompileError) -> None:
        if not isinstance(outcome, CompileError):
            return
        if job.options == options:
            raise _blamed((sources or {}).get(job.name, ""), outcome)
        warnings.warn(
            f"kernel {job.name} cannot be compiled as tuned and is compiled as the cost model has it: {outcome}",
            RuntimeWarning,
            stacklevel=2,
        )

    with Pool(jobs) as pool:
        outcomes = compile_jobs(work, pool, cache_directory=cache_directory, progress=progress, check=check)
        failed = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, CompileError)]
        untuned = [dataclasses.replace(work[n], options=options) for n in failed]
        again = compile_jobs(untuned, pool, cache_directory=cache_directory, check=check)
    made = {**dict(enumerate(outcomes)), **dict(zip(failed, again, strict=True))}
    return [outcome for outcome in made.values() if isinstance(outcome, CompiledKernel)]


def _blamed(nodes: str, error: CompileError) -> CompileError:
    if not nodes:
        return error
    return CompileError(f"{'one of the nodes' if ',' in nodes else 'node'} '{nodes}': {error}")


def compile_jobs(
    jobs: Sequence[Job],
    pool: Pool,
    *,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
    check: Callable[[Job, CompiledKernel | CompileError], None] = lambda job, outcome: None,
) -> list[CompiledKernel | CompileError]:
    """The outcome of each job, from the cache or compiled by ``pool``; ``check`` may raise to give up at once."""
    store = cache.ObjectCache(cache_directory) if cache_directory else None
    keys = [cache.key(job.text, job.target, job.options) for job in jobs]
    results: dict[int, CompiledKernel | CompileError] = {}
    for number, key in enumerate(keys):
        if store and (found := store.get(key, backend_of(jobs[number].target).kernel)):
            results[number] = found
    report = progress or (lambda finished, total: None)
    report(len(results), len(jobs))
    misses = [number for number in range(len(jobs)) if number not in results]

    def finish(miss: int, outcome: CompiledKernel | CompileError) -> None:
        check(jobs[misses[miss]], outcome)
        results[misses[miss]] = outcome
        if store and isinstance(outcome, CompiledKernel):
            store.put(keys[misses[miss]], outcome)
        report(len(results), len(jobs))

    pool.compile([jobs[number] for number in misses], finish)
    return [results[number] for number in range(len(jobs))]
