"""Random graphs against both oracles: ``python -m tests.fuzz.graphs --count N --seed S``.

Each seed gives one graph and inputs for several sizes of its dynamic dimensions. Rillet runs it twice on one thread. A
failure is reduced to few nodes and printed. Graphs run in a child process, so that a crash is reported with its seed;
ONNX Runtime runs in one of its own, so that a crash of it is not taken for one of Rillet's.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

import rillet
from rillet.frontends.onnx.verification.oracles import OracleError, run_onnxruntime, run_reference
from rillet.frontends.onnx.verification.submodel import submodel, value_types
from rillet.verify.difference import difference

from . import worker
from .defects import reference_is_wrong
from .isolated import Isolated
from .maker import FLOATS, Maker, Stuck, random_array
from .ops import grow
from .rounding import unstable

Feeds = dict[str, np.ndarray]
_HANG_SECONDS = 300
_onnxruntime = Isolated(run_onnxruntime, "ONNX Runtime", seconds=60)


@dataclass(frozen=True)
class Outcome:
    """What became of a graph: ok, unsupported, invalid (no oracle runs it), unstable, wrong, or error."""

    kind: str
    detail: str = ""
    outputs: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.kind in ("wrong", "error")


def generate(seed: int) -> tuple[onnx.ModelProto, list[Feeds]]:
    """The graph of a seed, and its inputs: one set for each choice of its dynamic extents."""
    rng = np.random.default_rng(seed)
    maker = Maker(rng, opset=int(rng.choice([18, 20, 21, 22, 23, 24])))
    for _ in range(maker.integer(1, 3)):
        maker.input(maker.float_type if maker.chance(0.85) else "int32", maker.shape())
    wanted, tries = maker.integer(3, 25), 0
    while (len(maker.nodes) < wanted and tries < 200) or not maker.nodes:
        tries += 1
        try:
            grow(maker)
        except Stuck:
            continue
        if maker.chance(0.03):
            maker.input(maker.float_type, maker.shape())
    model = maker.model()
    sets = [{s: int(rng.choice([1, 1, 2, 3, 4, 5, 9, 18])) for s in maker.symbols} for _ in range(2)]
    if maker.symbols and maker.may_be_empty and maker.chance(0.3):
        sets.append({s: 0 if maker.chance(0.5) else 2 for s in maker.symbols})
    return model, [random_feeds(model, sizes, rng, bool(i % 2)) for i, sizes in enumerate(sets)]


def random_feeds(model: onnx.ModelProto, sizes: Mapping[str, int], rng: np.random.Generator, structured: bool) -> Feeds:
    """Inputs of a model whose dynamic dimensions have these sizes."""
    feeds = {}
    with_default = {t.name for t in model.graph.initializer}
    for info in model.graph.input:
        if info.name in with_default:
            continue
        tensor = info.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        feeds[info.name] = random_array(rng, dtype, shape, structured)
    return feeds


def check(model: onnx.ModelProto, feed_sets: Sequence[Feeds]) -> Outcome:
    """Compile and compare with the oracles on every set of inputs."""
    refusals: list[str] = []
    expected = [(feeds, oracles) for feeds in feed_sets if (oracles := _expected(model, feeds, refusals))]
    if not expected:
        return Outcome("invalid", f"no oracle runs it: {'; '.join(refusals)}")
    shapes = {n: [d.dim_value or 0 for d in _dims(model, n)] for n in feed_sets[0]}
    pinned = {
        name: shape for name, shape in shapes.items() if 0 in shape and not any(d.dim_param for d in _dims(model, name))
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # extents that the importer infers are not those of onnx
            warnings.filterwarnings("ignore", "calls cannot replace the defaults")
            module = rillet.compile(model, inputs=pinned, threads=1, jobs=1, cache=False)
    except rillet.UnsupportedError as error:
        return Outcome("unsupported", "; ".join(f"{n.op}: {n.reason}" for n in error.nodes))
    except Exception as error:  # whatever is raised here is a finding
        return Outcome("error", f"compile: {type(error).__name__}: {error}")
    for feeds, oracles in expected:
        outcome = _compare(model, module, feeds, oracles)
        if outcome.kind != "ok":
            return outcome
    return Outcome("ok")


def _dims(model: onnx.ModelProto, name: str) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return next(i for i in model.graph.input if i.name == name).type.tensor_type.shape.dim


def _expected(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], refusals: list[str]
) -> list[dict[str, np.ndarray]]:
    """The results of each oracle that runs the model and returns what the model declares; why others do not run it."""
    results = []
    pairs = [pair for name, array in feeds.items() for pair in zip(_dims(model, name), array.shape, strict=True)]
    sizes = {dim.dim_param: size for dim, size in pairs if dim.dim_param}
    for run in (_onnxruntime,) if reference_is_wrong(model) else (_onnxruntime, run_reference):
        try:
            arrays = {n: np.asarray(a) for n, a in run(model, feeds).items()}
        except OracleError as error:
            refusals.append(str(error))
            continue
        if all(_as_declared(arrays[o.name], o.type.tensor_type, sizes) for o in model.graph.output):
            results.append(arrays)
    return results


def _as_declared(array: np.ndarray, declared: onnx.TypeProto.Tensor, sizes: Mapping[str, int]) -> bool:
    """Whether a result has the declared type and extents; those with the name of an input's have its size."""
    dims = declared.shape.dim
    return (
        (not declared.elem_type or array.dtype == helper.tensor_dtype_to_np_dtype(declared.elem_type))
        and array.ndim == len(dims)
        and all(
            (d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, n)) == n
            for d, n in zip(dims, array.shape, strict=True)
        )
    )


def _compare(
    model: onnx.ModelProto, module: rillet.Module, feeds: Feeds, oracles: Sequence[Mapping[str, np.ndarray]]
) -> Outcome:
    sizes = {n: list(a.shape) for n, a in feeds.items()}
    try:
        first, second = module.run(feeds), module.run(feeds)
    except rillet.RunError as error:
        if "is larger than the padded input" in str(error):  # some implementations give an empty result instead
            return Outcome("invalid", str(error))
        return Outcome("error", f"run on {sizes}: {error}")
    wrong, details = [], []
    for name, actual in first.items():
        if actual.tobytes() != second[name].tobytes():
            return Outcome("wrong", f"'{name}' differs between two runs on {sizes}", (name,))
        differences = [difference(*_unbounded(actual, expected[name])) for expected in oracles]
        if not any(d.agrees for d in differences):
            wrong.append(name)
            details.append(f"'{name}' on {sizes}: {' | '.join(str(d) for d in differences)}")
    if not wrong:
        return Outcome("ok")
    if unstable(model, feeds, oracles, lambda m, f: _expected(m, f, []), first, wrong):
        return Outcome("unstable", details[0], tuple(wrong))
    return Outcome("wrong", "\n".join(details), tuple(wrong))


def _unbounded(*arrays: np.ndarray) -> list[np.ndarray]:
    """Infinities for the largest finite numbers, which implementations start extrema and absent bounds from."""
    result = []
    for array in arrays:
        if array.dtype.name in FLOATS:
            largest = np.abs(array) == ml_dtypes.finfo(array.dtype).max
            array = np.where(largest, np.copysign(np.asarray(np.inf, array.dtype), array), array)
        result.append(array)
    return result


# --- reduction ---


def reduce(model: onnx.ModelProto, feed_sets: Sequence[Feeds]) -> tuple[onnx.ModelProto, list[Feeds], Outcome]:
    """A smaller model that fails in the same way: nodes are cut off before and behind the failure."""
    best, feeds, outcome = model, list(feed_sets), check(model, feed_sets)
    for single in outcome.outputs or [o.name for o in model.graph.output]:
        trial = submodel(best, [single])
        trial_feeds = [_only(f, trial) for f in feeds]
        result = check(trial, trial_feeds)
        if result.failed:
            best, feeds, outcome = trial, trial_feeds, result
            break
    progress = True
    while progress:
        progress = False
        for node in list(best.graph.node):
            for cut, outputs in _cuts(best, node):
                trial, trial_feeds = _without(best, feeds, cut, outputs)
                if trial is None or len(trial.graph.node) >= len(best.graph.node):
                    continue
                result = check(trial, trial_feeds)
                if result.failed and result.kind == outcome.kind:
                    best, feeds, outcome, progress = trial, trial_feeds, result, True
                    break
            if progress:
                break
    return best, feeds, outcome


def _cuts(model: onnx.ModelProto, node: onnx.NodeProto) -> list[tuple[list[str], list[str]]]:
    """Ways to do without a node: its outputs become inputs, or its inputs become the graph's outputs."""
    outputs = [o.name for o in model.graph.output]
    made = {o for n in model.graph.node for o in n.output}
    behind = [o for o in outputs if o not in node.output]
    before = [n for n in node.input if n in made]
    cuts = [([o for o in node.output if o], outputs)]
    if behind != outputs:
        cuts.append(([], list(dict.fromkeys([*behind, *before]))))
    return cuts


def _without(
    model: onnx.ModelProto, feeds: Sequence[Feeds], cut: Sequence[str], outputs: Sequence[str]
) -> tuple[onnx.ModelProto | None, list[Feeds]]:
    kept = [o for o in outputs if o not in cut]
    if not kept:
        return None, []
    types = value_types(model)
    full = submodel(model, [*kept, *cut], (), types)
    new_feeds = []
    for given in feeds:
        try:
            values = run_reference(full, given)
        except OracleError:
            try:
                values = _onnxruntime(full, given)
            except OracleError:
                return None, []
        new_feeds.append({**given, **{n: np.asarray(values[n]) for n in cut}})
    trial = submodel(model, kept, cut, types)
    trial_feeds = [_only(f, trial) for f in new_feeds]
    if any(len(_dims(trial, name)) != array.ndim for feeds in trial_feeds for name, array in feeds.items()):
        return None, []  # what onnx infers of an invalid model is not what it computes
    return trial, trial_feeds


def _only(feeds: Feeds, model: onnx.ModelProto) -> Feeds:
    return {i.name: feeds[i.name] for i in model.graph.input if i.name in feeds}


# --- the driver ---


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--save", type=Path, help="write reduced failing models into this folder")
    parser.add_argument("--no-reduce", action="store_true", help="report failures as they are")
    parser.add_argument("--show", action="store_true", help="print the graph of --seed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.show:
        print(onnx.printer.to_text(generate(options.seed)[0]))
        return 0
    if options.worker:
        worker.work(range(options.seed, options.seed + options.count), _outcome)
        return 0
    started = time.perf_counter()
    counts = Counter(_report(seed, outcome, options) for seed, outcome in outcomes(options.seed, options.count))
    print(f"{sum(counts.values())} graphs in {time.perf_counter() - started:.0f} s: {dict(counts)}")
    return 1 if counts["wrong"] or counts["error"] else 0


def outcomes(first: int, count: int) -> Iterator[tuple[int, Outcome]]:
    """(seed, outcome) of each seed, run in a child process."""
    for seed, result in worker.results("tests.fuzz.graphs", first, count, _HANG_SECONDS):
        yield seed, Outcome("error", f"crash: {result[1]}") if result[0] == "crash" else Outcome(*result)


def _outcome(seed: int) -> tuple[str, str, tuple[str, ...]]:
    outcome = check(*generate(seed))
    return outcome.kind, outcome.detail, outcome.outputs


def _report(seed: int, outcome: Outcome, options: argparse.Namespace) -> str:
    if outcome.kind == "unsupported":
        print(f"seed {seed}: unsupported: {outcome.detail[:300]}", flush=True)
    if outcome.kind == "invalid" and "crashes" in outcome.detail:
        print(f"seed {seed}: {outcome.detail[:300]}", flush=True)
    if not outcome.failed:
        return outcome.kind
    print(f"seed {seed}: {outcome.kind}: {outcome.detail[:1500]}", flush=True)
    if options.no_reduce or outcome.detail.startswith("crash"):
        return outcome.kind
    model, feeds, reduced = reduce(*generate(seed))
    print(f"  reduced: {reduced.kind}: {reduced.detail[:1500]}\n{onnx.printer.to_text(model)}", flush=True)
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        onnx.save(model, options.save / f"{seed}.onnx")
        for i, values in enumerate(feeds):
            np.savez(options.save / f"{seed}.{i}.npz", **values)
    return outcome.kind


if __name__ == "__main__":
    sys.exit(main())
