"""ONNX's node tests with inputs of no known size, on sizes that do not fit: ``python -m tests.fuzz.unequal [PATTERN]``.

Every dimension of every input gets a placeholder for a name, often the same one. Then each takes other sizes, one at a
time: what a model computes must be what an oracle computes, and what no oracle computes must be refused.
"""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import rillet
from rillet.frontends.onnx.verification.oracles import OracleError, run_onnxruntime, run_reference
from rillet.verify.difference import difference

Feeds = dict[str, np.ndarray]
PLACEHOLDERS = ("?", "-1", "None", "*", "dyn", "unk__12", "", "DynamicDimension.0")
_STRING = onnx.TensorProto.STRING


def cases(pattern: str) -> Iterator[tuple[str, onnx.ModelProto, Feeds]]:
    """The node tests of matching names on tensors of numbers, with their first inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, from the suite's own examples
        tests = load_model_tests(kind="node")
    for test in tests:
        if re.search(pattern, test.name) and "expanded" not in test.name:
            model, arrays = _opened(test)
            if all(i.type.tensor_type.elem_type not in (0, _STRING) for i in model.graph.input):
                yield test.name, model, {i.name: a for i, a in zip(model.graph.input, arrays, strict=False)}


def _opened(test: onnx.backend.test.case.test_case.TestCase) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    if test.model is not None:
        return test.model, [np.asarray(a) for a in test.data_sets[0][0]]
    folder = Path(test.model_dir)
    model = onnx.load(folder / "model.onnx")
    files = [folder / "test_data_set_0" / f"input_{n}.pb" for n in range(len(model.graph.input))]
    protos = [onnx.TensorProto.FromString(f.read_bytes()) for f in files if model.graph.input[0].type.tensor_type]
    return model, [numpy_helper.to_array(p) for p in protos]


def nameless(model: onnx.ModelProto, feeds: Feeds, known: Sequence[str]) -> onnx.ModelProto:
    """The model with placeholders for all dimensions; the inputs in ``known`` become initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = itertools.cycle(PLACEHOLDERS)
    for info in (*copy.graph.input, *copy.graph.output):
        name = next(names)
        for dim in info.type.tensor_type.shape.dim:
            dim.Clear()
            dim.dim_param = name
    del copy.graph.value_info[:]
    copy.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in known)
    kept = [i for i in copy.graph.input if i.name not in known]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


def resized(feeds: Feeds) -> Iterator[tuple[str, Feeds]]:
    """The inputs, and the inputs with one dimension of another size, each with a text that says which."""
    yield "as given", feeds
    for name, array in feeds.items():
        for axis, size in enumerate(array.shape):
            for other in sorted({1, size + 1, max(size - 1, 1)} - {size}):
                shape = [*array.shape[:axis], other, *array.shape[axis + 1 :]]
                yield f"{name}[{axis}] {size} -> {other}", {**feeds, name: np.resize(array, shape)}


def findings(model: onnx.ModelProto, feeds: Feeds) -> list[str] | None:
    """What is wrong on sizes of ``resized``; None for a model that is not supported with these dimensions."""
    found = compiled(model, feeds)
    if found is None:
        return None
    loose, module = found
    wrong = []
    for what, given in resized({n: a for n, a in feeds.items() if n in {i.name for i in loose.graph.input}}):
        try:
            actual = module.run(given)
        except rillet.RunError:
            if what == "as given":
                raise
            continue
        expected = _expected(loose, given)
        if not any(all(difference(a, e[n]).agrees for n, a in actual.items()) for e in expected):
            shapes = [{n: np.shape(a) for n, a in e.items()} for e in expected]
            wrong.append(f"{what}: gives {[a.shape for a in actual.values()]}, the oracles {shapes}")
    return wrong


def compiled(model: onnx.ModelProto, feeds: Feeds) -> tuple[onnx.ModelProto, rillet.Module] | None:
    """The nameless model, compiled; where values must be known, those of its integers but the first input are."""
    integers = [n for n, a in list(feeds.items())[1:] if a.dtype.kind in "iub" and a.ndim < 2]
    for known in ([], integers):
        loose = nameless(model, feeds, known)
        try:
            return loose, rillet.compile(loose, threads=1, jobs=1)
        except rillet.CompileError:
            continue
    return None


def _expected(model: onnx.ModelProto, feeds: Feeds) -> list[dict[str, np.ndarray]]:
    results = []
    for run in (run_onnxruntime, run_reference):
        try:
            results.append({n: np.asarray(a) for n, a in run(model, feeds).items()})
        except OracleError:
            continue
    return results


def main(arguments: Sequence[str]) -> int:
    """Report on every case; those that fail as given, like random ones, are listed too."""
    count = 0
    for name, model, feeds in cases(arguments[0] if arguments else ""):
        try:
            wrong = findings(model, feeds)
        except rillet.RunError as error:
            wrong = [f"as given: {error}"]
        count += bool(wrong)
        print(f"{name}: {'not supported' if wrong is None else 'ok' if not wrong else ''}", flush=True)
        print("".join(f"  {line}\n" for line in wrong or ()), end="")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
