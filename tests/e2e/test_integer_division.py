"""Integer division that has no quotient: by zero, and of the lowest number by -1."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rillet

SIGNED = ["int8", "int16", "int32", "int64"]
TYPES = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]


def division(
    op: str, dtype: str, values: dict[str, np.ndarray] | None = None, fmod: int | None = None
) -> rillet.Module:
    """y = op(a, b), each [n] or one of ``values``."""
    type_ = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    known = values or {}
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["y"], "divide", fmod=fmod)],
        "division",
        [helper.make_tensor_value_info(n, type_, ["n"]) for n in "ab" if n not in known],
        [helper.make_tensor_value_info("y", type_, None)],
        [numpy_helper.from_array(array, n) for n, array in known.items()],
    )
    return rillet.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), jobs=1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("op", "fmod", "rest"), [("Div", None, 3), ("Mod", 0, 1), ("Mod", 1, 1)], ids=["Div", "Mod", "fmod"]
)
def test_zero_is_what_division_by_zero_gives(op: str, fmod: int | None, rest: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([5, 0, limits.min, limits.max, 7] * 9, dtype)  # vectors and a remainder
    b = np.array([0, 0, 0, 0, 2] * 9, dtype)
    expected = np.array([0, 0, 0, 0, rest] * 9, dtype)
    np.testing.assert_array_equal(division(op, dtype, fmod=fmod)(a, b), expected)
    np.testing.assert_array_equal(division(op, dtype, {"b": b}, fmod=fmod)(a), expected)
    np.testing.assert_array_equal(division(op, dtype, {"a": a, "b": b}, fmod=fmod)(), expected)


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize(("op", "of_lowest"), [("Div", "min"), ("Mod", "")])
def test_the_lowest_number_by_minus_one(op: str, of_lowest: str, dtype: str) -> None:
    lowest = np.iinfo(dtype).min
    a, b = np.array([lowest, 7] * 17, dtype), np.full(34, -1, dtype)
    expected = np.array([lowest if of_lowest else 0, -7 if op == "Div" else 0] * 17, dtype)
    np.testing.assert_array_equal(division(op, dtype)(a, b), expected)
    np.testing.assert_array_equal(division(op, dtype, {"b": b})(a), expected)
    np.testing.assert_array_equal(division(op, dtype, {"a": a, "b": b})(), expected)


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_size_divided_by_a_size_of_zero_is_an_error(op: str) -> None:
    module = rillet.compile(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (float[n] x, float[m] z, float[1] e) => (float[k] y) '
            f"{{ s = Shape(x) t = Shape(z) [parts] q = {op}(s, t) y = Expand(e, q) }}"
        ),
        jobs=1,
    )
    one = np.ones(1, np.float32)
    assert np.shape(module(np.ones(7, np.float32), np.ones(2, np.float32), one)) == (3 if op == "Div" else 1,)
    with pytest.raises(rillet.RunError, match=r"^node 'parts': an integer is divided by zero$"):
        module(np.ones(7, np.float32), np.ones(0, np.float32), one)


def test_a_size_that_cancels_may_be_zero() -> None:
    module = rillet.compile(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (float[n, m] x) => (int64[1] y) '
            "{ s = Size(x) n = Shape<start=1>(x) y = Div(s, n) }"
        ),
        jobs=1,
    )
    assert module(np.ones((3, 0), np.float32)) == [3]
