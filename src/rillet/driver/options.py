"""The options of a compilation besides its source, checked before any work is done."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from rillet.codegen.cache import default_directory
from rillet.codegen.library import Progress
from rillet.errors import CompileError, LoadError
from rillet.runtime.module import thread_count
from rillet.support.files import check_folder, path_text
from rillet.targets import devices as device_descriptions
from rillet.targets.devices import CPU, Device
from rillet.tuning import record as tuning_record

Shape = Sequence[int | str]


@dataclass(frozen=True)
class CompileOptions:
    """All options of a compilation besides its source and targets."""

    jobs: int | None = None  # worker processes; None: one for each core
    cache: Path | None = None  # compile cache; None: no cache
    dump_ir: Path | None = None  # write the module after every stage here
    optimize_for_size: bool = False
    tuning: tuning_record.Record | None = None  # choices that overrule the cost model's
    devices: tuple[Device, ...] = (CPU,)  # that the program runs on, by ordinal


class Keywords(TypedDict, total=False):
    """The keyword arguments of ``rillet.compile`` besides ``target``; the function's docstring explains them."""

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


def options_of(
    jobs: int | None,
    cache: bool | str | os.PathLike[str],
    dump_ir: str | os.PathLike[str] | None,
    optimize_for_size: bool,
    tuning: bool | str | os.PathLike[str],
    device: str | Sequence[str] | None,
) -> CompileOptions:
    """Checks the options that need no model. Raises ``CompileError`` for one that is wrong, before any work is done."""
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
    """Raise ``CompileError`` unless ``jobs`` is a possible number of processes; None is one for each core."""
    if jobs is None:
        return
    try:
        count = 0 if isinstance(jobs, bool) else operator.index(jobs)
    except TypeError:
        count = 0
    if count < 1:
        raise CompileError(f"jobs must be a number of processes from 1 on, not {jobs!r}")


def check_threads(threads: int | None) -> None:
    """Checks the number before any work is done, since loading, which uses it, comes last."""
    try:
        thread_count(threads)
    except LoadError as error:
        raise CompileError(str(error)) from None


def check_progress(progress: Progress | None) -> None:
    """Raise ``CompileError`` unless ``progress`` can be called; None shows a bar on a terminal."""
    if progress is not None and not callable(progress):
        raise CompileError(f"progress must be a function of (finished, total), not {progress!r}")


def cache_directory(cache: bool | str | os.PathLike[str]) -> Path | None:
    """The folder of the compile cache for ``compile``'s argument; None for no cache."""
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
