"""Resize in every mode and with every flag, by sizes and by scales, known and not, as both oracles do.

The oracles are ONNX Runtime and the reference evaluator. Where they disagree, the operator's text says who is right:
``_holds_for_runtime`` and ``_holds_for_reference`` say where and why. By the text ``exclude_outside`` has no effect on
nearest, which takes an element that is inside, and none on linear without ``antialias``, whose element outside repeats
the other one; ``antialias`` has none on nearest. ONNX Runtime refuses these, and the reference gives zero for nearest
where it rounds to a position outside: both are asked without the flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
_ROI = np.array([0.125, 0.875], np.float32)
# Lengths, and the sizes or scales that they are resized to or by: first those that shrink.
_SIZES = ((7, 3), (9, 4), (5, 1), (3, 8), (1, 4), (4, 5))
_SCALES = ((7, 0.43), (8, 0.5), (4, 0.3), (5, 2.5), (1, 4.3), (3, 1.7))


@dataclass(frozen=True)
class Case:
    """The attributes of one Resize."""

    mode: str
    antialias: int
    exclude_outside: int
    coordinate_transformation_mode: str
    nearest_mode: str = "floor"

    @property
    def plain(self) -> Case:
        """The case without flags that have no effect."""
        if self.mode == "nearest":
            return replace(self, antialias=0, exclude_outside=0)
        return replace(self, exclude_outside=0) if self.mode == "linear" and not self.antialias else self


_WEIGHTED = [Case(*c) for c in product(("linear", "cubic"), (0, 1), (0, 1), _COORDINATES)]
_NEAREST = [Case("nearest", flag, flag, *c) for c in product(_COORDINATES, _ROUNDINGS) for flag in (0, 1)]
_CASES = _WEIGHTED + _NEAREST


def _model(cases: Sequence[Case], by: str, static: Sequence[tuple[int, float]] = ()) -> onnx.ModelProto:
    """Resizes of one axis, of any length to any; or of each the length by the number that ``static`` has for it."""
    code = TensorProto.INT64 if by == "sizes" else TensorProto.FLOAT
    inputs = {("x", TensorProto.FLOAT, (1, 1, 1, "n")): None, ("by", code, (1,)): None}
    if static:
        inputs = {(f"x{n}", TensorProto.FLOAT, (1, 1, 1, n)): None for n, _ in static}
    constants = [numpy_helper.from_array(_ROI, "roi")]
    constants += [numpy_helper.from_array(_number(by, v), f"by{n}") for n, v in static]
    nodes = []
    for i, case in enumerate(cases):
        suffix = static[_turn(i)][0] if static else ""
        roi = "roi" if case.coordinate_transformation_mode == "tf_crop_and_resize" else ""
        operands = [f"x{suffix}", roi, "", f"by{suffix}"] if by == "sizes" else [f"x{suffix}", roi, f"by{suffix}"]
        nodes.append(helper.make_node("Resize", operands, [f"y{i}"], axes=[3], extrapolation_value=3.5, **asdict(case)))
    graph = helper.make_graph(
        nodes,
        "resize",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [1, 1, 1, None]) for i in range(len(cases))],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)


def _turn(i: int) -> int:
    """Which pair of known numbers case ``i`` has: with ``antialias``, which growing ignores, one that shrinks."""
    return (i + i // len(_COORDINATES)) % (3 if _CASES[i].antialias else 6)


def _number(by: str, value: float) -> np.ndarray:
    return np.array([value], np.int64 if by == "sizes" else np.float32)


def _data(length: int) -> np.ndarray:
    return np.random.default_rng(length).standard_normal((1, 1, 1, length)).astype(np.float32)


class Oracles:
    """Both oracles on all cases, by sizes or by scales."""

    def __init__(self, by: str) -> None:
        self.by = by
        self.cases = list(dict.fromkeys(c.plain for c in _CASES))
        model = _model(self.cases, by)
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.evaluator = ReferenceEvaluator(model)

    def check(self, results: dict[Case, np.ndarray], length: int, value: float) -> None:
        """Compare the results of resizing ``length`` by ``value``."""
        feed = {"x": _data(length), "by": _number(self.by, value)}
        runtime = dict(zip(self.cases, self.session.run(None, feed), strict=True))
        reference = dict(zip(self.cases, self.evaluator.run(None, feed), strict=True))
        fractional = self.by == "scales" and not float(value * length).is_integer()
        for case, actual in results.items():
            coordinates = case.coordinate_transformation_mode
            oracles = []
            if _holds_for_runtime(coordinates, fractional):
                oracles.append(runtime[case.plain])
            if _holds_for_reference(coordinates, fractional, actual.shape[3]):
                oracles.append(reference[case.plain])
            for expected in oracles:
                message = f"{case}, {length} by {value}"
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, err_msg=message)


def _holds_for_runtime(coordinates: str, fractional: bool) -> bool:
    """The text has align_corners divide by the output's length, and ONNX Runtime does. The standard's own tests
    (``resize_downsample_scales_*_align_corners``) divide by what is rounded down to that length, and they decide."""
    return not (fractional and coordinates == "align_corners")


def _holds_for_reference(coordinates: str, fractional: bool, length: int) -> bool:
    """The text has tf_crop_and_resize divide by the output's length, and pytorch_half_pixel take 0 for a length of 1.
    The reference divides by what is rounded down to the length, and takes -0.5."""
    if coordinates == "tf_crop_and_resize":
        return not fractional
    return coordinates != "pytorch_half_pixel" or length > 1


@pytest.mark.parametrize(("by", "pairs"), [("sizes", _SIZES), ("scales", _SCALES)])
def test_of_any_length_to_any(by: str, pairs: Sequence[tuple[int, float]]) -> None:
    module, oracles = rillet.compile(_model(_CASES, by)), Oracles(by)
    for length, value in pairs:
        results = module(_data(length), _number(by, value))
        oracles.check(dict(zip(_CASES, results, strict=True)), length, value)


@pytest.mark.parametrize(("by", "pairs"), [("sizes", _SIZES), ("scales", _SCALES)])
def test_of_known_lengths(by: str, pairs: Sequence[tuple[int, float]]) -> None:
    results = rillet.compile(_model(_CASES, by, pairs))(*[_data(length) for length, _ in pairs])
    oracles = Oracles(by)
    for turn, (length, value) in enumerate(pairs):
        oracles.check({c: results[i] for i, c in enumerate(_CASES) if _turn(i) == turn}, length, value)
