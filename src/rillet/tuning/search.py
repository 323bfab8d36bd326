"""The search: variants of many kernels at a time are built into the model and timed against its default build.

Kernels do not depend on each other's choices, so one build can hold a variant of every kernel, and a profile of it
times each. A batch of such builds takes turns with two default builds, whose difference is the noise. The best of many
measurements is partly luck. So a variant that wins is measured again at once, and a last time at the end together with
all other winners, before it is kept.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rillet import runtime
from rillet.codegen.backend import Alternatives
from rillet.codegen.backends import backend_of
from rillet.codegen.knobs import MODEL, Choice, Knobs
from rillet.codegen.library import compile_jobs
from rillet.codegen.pool import Job, Pool
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.errors import CompileError
from rillet.ir.image import Image
from rillet.module import CompiledLibrary, write_module
from rillet.runtime.cpus import available_cores
from rillet.support.progress_bar import Progress, bar
from rillet.targets import Target
from rillet.tuning import measure
from rillet.tuning.measure import Clock
from rillet.tuning.record import Entry, Record, key

_MARGIN = 0.02  # a variant must beat the default by this share of its time, or by twice the noise if that is more
_BUILDS = 4  # variants of one kernel in a batch, while other kernels can be varied
_MOST_BUILDS = 12  # of a batch; each holds all constants
_MOST_BYTES = 1 << 30  # of all builds of a batch
_BATCH_SECONDS = 3.0  # the time that compiling a batch should take
_SMALLEST_SHARE = 0.002  # of the model's time; kernels that take less are not worth a compile


@dataclass(frozen=True)
class Status:
    """The progress of a search."""

    kernels: int  # that may be varied
    visited: int  # the number of them with a measured variant
    variants: int  # measured so far
    gain: float  # share of the model's time saved by the best variants found, not confirmed yet
    seconds_left: float
    confirming: bool = False  # the search is over; the winners are measured once more


@dataclass(frozen=True)
class Ranking:
    """How the cost model's choice for one kernel compares with the variants that were measured."""

    kernel: str  # its name
    strategy: str
    problem: dict[str, int]
    share: float  # of the model's time
    variants: int
    faster: int  # the number of variants faster by more than the margin when first measured
    model_by_best: float  # the time of the model's choice over that of the best confirmed variant, 1 without one
    ordered: float | None  # share of the pairs of register tiles whose measured order the model predicts


@dataclass(frozen=True)
class Result:
    """The findings of a search. Times are seconds of the fastest call of the whole model."""

    record: Record  # an entry for each kernel that was varied
    rankings: tuple[Ranking, ...]  # likewise, those that take longest first
    variants: int
    improved: int  # kernels whose default was beaten
    default_s: float
    tuned_s: float
    threads: int
    interrupted: bool
    wrong: tuple[str, ...] = ()  # kernels with a variant that gave other results


@dataclass
class _Kernel:
    """The state of the search for one kernel."""

    name: str
    text: str
    default: CompiledKernel
    groups: Alternatives
    queue: list[Knobs]
    share: float = 0.0  # of the model's time
    measured: list[tuple[Choice, float]] = field(default_factory=list)  # variants, and their times over the default's
    best: CompiledKernel | None = None
    best_ratio: float = 1.0  # its time over the default's

    @property
    def tried(self) -> int:
        return len(self.measured)

    def next_group(self) -> None:
        """Fill the queue with the next group of alternatives that has any."""
        choice = (self.best or self.default).choice
        assert choice is not None
        try:
            while not self.queue:
                self.queue = list(self.groups.send(choice))
        except StopIteration:
            self.queue = []


_Variants = dict[str, CompiledKernel]  # by kernel


class Search:
    """A search for better choices for the kernels of one model on this machine."""

    def __init__(
        self,
        image: Image,
        kernel_texts: Sequence[tuple[str, str]],
        target: Target,
        inputs: Callable[[runtime.Module], Sequence[np.ndarray | None]],
        *,
        known: Record | None = None,
        cache: Path | None = None,
        jobs: int | None = None,
        threads: int | None = None,
        clock: Clock | None = None,
    ):
        """``image`` and ``kernels``: the model's for ``target``. ``inputs`` makes the model's inputs.

        Choices in ``known`` are tried first. ``threads``: the threads with which the whole model is timed; kernels are
        timed on one. Use it in a ``with`` statement: it owns processes.
        """
        self._image = image
        self._kernel_texts = kernel_texts
        self._target = target
        self._backend = backend_of(target)
        self._make_inputs = inputs
        self._known = known.knobs_of(kernel_texts, target) if known else {}
        self._cache = cache
        self._clock = clock or Clock()
        self._longer = Clock(3 * self._clock.seconds, 2 * self._clock.fewest, 3 * self._clock.most)  # to confirm
        self._final = Clock(4 * self._clock.seconds, 2 * self._clock.fewest, 10 * self._clock.most)  # of whole models
        self._threads = threads or available_cores()
        self._pool = Pool(jobs, eager=True)
        self._compile_seconds = 0.2  # of one variant, all workers together; learned
        self._variants = 0
        self._wrong: list[str] = []

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *details: object) -> None:
        self._pool.close()

    def run(self, seconds: float, report: Callable[[Status], None] = lambda status: None) -> Result:
        """Search for about ``seconds``, or until no alternatives remain.

        Ctrl-C ends it early: the findings are measured once more and kept. A second Ctrl-C is passed on.
        """
        deadline = time.monotonic() + seconds
        with bar(f"compiling for {self._target.name}") as progress:
            outcomes = self._compile([(name, MODEL) for name, _ in self._kernel_texts], progress)
        for outcome in outcomes:
            if isinstance(outcome, CompileError):
                raise outcome
        self._defaults = {o.name: o for o in outcomes if isinstance(o, CompiledKernel)}
        self._base = [self._build({}), self._build({})]
        self._inputs = self._make_inputs(self._base[0])
        self._expected = [np.array(value) for value in measure.outputs(self._base[0], self._inputs)]
        first, _ = measure.kernel_times(self._base, self._inputs, self._clock)
        total = sum(first.values()) or 1.0
        kernels = self._kernels(first, total)
        reserve = 3 * self._longer.duration(total) + 2 * self._final.duration(total) + 0.5
        interrupted = False
        try:
            while (left := deadline - reserve - time.monotonic()) > 0:
                report(self._status(kernels, left))
                wanted = self._choose(kernels, left)
                if not wanted:
                    break
                self._measure(kernels, self._compile_batch(wanted))
        except KeyboardInterrupt:
            interrupted = True
        report(dataclasses.replace(self._status(kernels, 0.0), confirming=True))
        return self._result(kernels, self._confirm(kernels), first, interrupted)

    # --- one batch ------------------------------------------------------------------------------------------------

    def _kernels(self, times: Mapping[str, float], total: float) -> dict[str, _Kernel]:
        """The kernels that have choices and take long enough to matter, longest first."""
        kernels = {}
        texts = dict(self._kernel_texts)
        for name, spent in sorted(times.items(), key=lambda item: -item[1]):
            default = self._defaults[name]
            groups = self._backend.alternatives(default, self._target)
            if groups is None or spent < _SMALLEST_SHARE * total:
                continue
            kernel = _Kernel(name, texts[name], default, groups, list(next(groups, [])), spent / total)
            if name in self._known:
                kernel.queue.insert(0, self._known[name])
            if not kernel.queue:
                kernel.next_group()
            kernels[name] = kernel
        return kernels

    def _choose(self, kernels: Mapping[str, _Kernel], seconds: float) -> list[tuple[str, Knobs]]:
        """The variants of the next batch: more for kernels that take long and were tried little."""
        room = max(1, round(min(_BATCH_SECONDS, seconds) / self._compile_seconds))
        wanted: list[tuple[str, Knobs]] = []
        planned = dict.fromkeys(kernels, 0)
        most, builds = self._most_builds, min(_BUILDS, self._most_builds)

        def priority(kernel: _Kernel) -> float:
            return kernel.share / (1 + kernel.tried + planned[kernel.name])

        while len(wanted) < room:
            open_ = [k for k in kernels.values() if planned[k.name] < min(len(k.queue), builds)]
            if not open_ and builds < most:
                builds = most
                continue
            if not open_:
                break
            kernel = max(open_, key=priority)
            wanted.append((kernel.name, kernel.queue[planned[kernel.name]]))
            planned[kernel.name] += 1
        for name, count in planned.items():
            del kernels[name].queue[:count]
        return wanted

    def _compile_batch(self, wanted: Sequence[tuple[str, Knobs]]) -> list[_Variants]:
        """Compile variants and distribute them over builds; variants with the default's code are left out."""
        started = time.monotonic()
        builds: list[_Variants] = []
        for (name, _), outcome in zip(wanted, self._compile(wanted), strict=True):
            if isinstance(outcome, CompileError) or outcome.object == self._defaults[name].object:
                continue
            for build in builds:
                if name not in build:
                    build[name] = outcome
                    break
            else:
                builds.append({name: outcome})
        spent = (time.monotonic() - started) / len(wanted)
        self._compile_seconds = max(0.01, (self._compile_seconds + spent) / 2)
        return builds

    def _measure(self, kernels: Mapping[str, _Kernel], builds: Sequence[_Variants]) -> None:
        """Time a batch's builds and record the variants that beat the best twice."""
        right = [part for build in builds for part in self._right_parts(build)]
        won: _Variants = {}
        first: dict[str, float] = {}
        for (variants, _), ratios in zip(right, self._ratios([module for _, module in right]), strict=True):
            for name, compiled in variants.items():
                kernel = kernels[name]
                self._variants += 1
                assert compiled.choice is not None  # kernels without choices have no variants
                kernel.measured.append((compiled.choice, ratios[name]))
                if ratios[name] < first.get(name, (1 - _MARGIN / 2) * kernel.best_ratio):
                    won[name], first[name] = compiled, ratios[name]
        if won:
            (again,) = self._ratios([self._build(won)])
            for name, compiled in won.items():
                kernel, ratio = kernels[name], max(first[name], again[name])
                if ratio < kernel.best_ratio:
                    kernel.best, kernel.best_ratio = compiled, ratio
        for kernel in kernels.values():
            if not kernel.queue:
                kernel.next_group()

    def _ratios(self, modules: Sequence[runtime.Module]) -> list[dict[str, float]]:
        """For each build, each kernel's time over the default's."""
        one, other, *times = measure.kernel_times([*self._base, *modules], self._inputs, self._clock)
        default = {name: max(min(one[name], other[name]), 1e-9) for name in one}
        return [{name: seconds / default[name] for name, seconds in measured.items()} for measured in times]

    def _right_parts(self, variants: _Variants) -> list[tuple[_Variants, runtime.Module]]:
        """The build of these variants. Where they change the model's outputs, the builds of those halves that do
        not."""
        module = self._build(variants)
        if measure.agree(measure.outputs(module, self._inputs), self._expected):
            return [(variants, module)]
        if len(variants) == 1:
            self._wrong += variants
            return []
        items = list(variants.items())
        half = len(items) // 2
        return [*self._right_parts(dict(items[:half])), *self._right_parts(dict(items[half:]))]

    # --- the end --------------------------------------------------------------------------------------------------

    def _confirm(self, kernels: Mapping[str, _Kernel]) -> dict[str, _Kernel]:
        """The kernels whose best variant beats the default by a margin when all of them are measured again."""
        candidates = {k.name: k for k in kernels.values() if k.best is not None and k.best_ratio < 1 - _MARGIN}
        if not candidates:
            return {}
        tuned = self._build({name: k.best for name, k in candidates.items() if k.best is not None})
        one, other, new = measure.kernel_times([*self._base, tuned], self._inputs, self._longer)
        kept = {}
        for name, kernel in candidates.items():
            default = max(min(one[name], other[name]), 1e-9)
            noise = abs(one[name] - other[name]) / default
            kernel.best_ratio = new[name] / default
            if kernel.best_ratio < 1 - max(_MARGIN, 2 * noise):
                kept[name] = kernel
        return kept

    def _result(
        self, kernels: Mapping[str, _Kernel], kept: Mapping[str, _Kernel], times: Mapping[str, float], interrupted: bool
    ) -> Result:
        variants = {name: k.best for name, k in kept.items() if k.best is not None}
        builds = [{}, variants] if variants else [{}]
        modules = [self._build(v, threads=self._threads, profile=False) for v in builds]
        default_s, *tuned = measure.call_times(modules, self._inputs, self._final)
        (tuned_s,) = tuned or [default_s]
        entries = {}
        for name, kernel in kernels.items():
            if not kernel.tried:
                continue
            better = name in kept
            choice = (kernel.best if better and kernel.best else kernel.default).choice
            assert choice is not None
            entries[key(name, kernel.text, self._target)] = Entry(
                knobs=choice.knobs if better else MODEL,
                strategy=kernel.default.strategy,
                problem=dict(choice.problem),
                target=self._target.machine.label,
                model_us=round(times[name] * 1e6, 3),
                tuned_us=round(times[name] * (kernel.best_ratio if better else 1.0) * 1e6, 3),
            )
        record = Record(entries)
        rankings = [self._ranking(k, name in kept) for name, k in kernels.items() if k.tried]
        return Result(
            record,
            tuple(rankings),
            self._variants,
            len(kept),
            default_s,
            tuned_s,
            self._threads,
            interrupted,
            tuple(self._wrong),
        )

    def _ranking(self, kernel: _Kernel, better: bool) -> Ranking:
        choice = kernel.default.choice
        assert choice is not None
        return Ranking(
            kernel.name,
            kernel.default.strategy,
            dict(choice.problem),
            kernel.share,
            kernel.tried,
            sum(ratio < 1 - _MARGIN for _, ratio in kernel.measured),
            1 / kernel.best_ratio if better else 1.0,
            _ordered(
                [(choice, 1.0), *kernel.measured],
                lambda other: self._backend.modelled_cost(kernel.default, other, self._target),
            ),
        )

    # --- builds ---------------------------------------------------------------------------------------------------

    @property
    def _most_builds(self) -> int:
        """The most builds in a batch, so that they fit the memory."""
        size = len(self._base[0].to_bytes()) + self._base[0].stats.get("arena_bytes", 0)
        return max(1, min(_MOST_BUILDS, _MOST_BYTES // max(size, 1)))

    def _compile(
        self, wanted: Sequence[tuple[str, Knobs]], progress: Progress | None = None
    ) -> list[CompiledKernel | CompileError]:
        texts = dict(self._kernel_texts)
        jobs = [Job(name, texts[name], self._target, CodegenOptions(knobs=knobs)) for name, knobs in wanted]
        return compile_jobs(jobs, self._pool, cache_directory=self._cache, progress=progress)

    def _build(
        self, variants: Mapping[str, CompiledKernel], *, threads: int = 1, profile: bool = True
    ) -> runtime.Module:
        """The model with these variants; the other kernels have the cost model's choices."""
        compiled = [variants.get(name, self._defaults[name]) for name, _ in self._kernel_texts]
        linked = self._backend.link(compiled, self._target)
        library = CompiledLibrary.of(self._target, linked.format, linked.data, (kernel.name for kernel in compiled))
        memory = write_module(self._image, [library])
        assert memory is not None  # there was no sink
        return runtime.load(memory, threads=threads, profile=profile)

    def _status(self, kernels: Mapping[str, _Kernel], left: float) -> Status:
        gain = sum(k.share * (1 - k.best_ratio) for k in kernels.values())
        visited = sum(k.tried > 0 for k in kernels.values())
        return Status(len(kernels), visited, self._variants, gain, max(0.0, left))


def _ordered(measured: Sequence[tuple[Choice, float]], model: Callable[[Choice], float | None]) -> float | None:
    """The share of the pairs of register tiles that the cost model puts in the measured order, among pairs whose times
    differ by more than the margin. None without such pairs or modelled costs. A tile counts with its fastest variant.
    """
    fastest: dict[float, float] = {}  # measured time by modelled cost, which different tiles hardly ever share
    for choice, ratio in measured:
        if (cost := model(choice)) is not None:
            fastest[cost] = min(ratio, fastest.get(cost, ratio))
    pairs = [
        (modelled < other) == (ratio < fastest[other])
        for modelled, ratio in fastest.items()
        for other in fastest
        if modelled < other and abs(ratio - fastest[other]) > _MARGIN * min(ratio, fastest[other])
    ]
    return sum(pairs) / len(pairs) if pairs else None
