"""Shapes and sizes that a caller gives."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rillet.errors import CompileError
from rillet.frontends.frontend import InputSpec, Shapes
from rillet.frontends.pinned_dimensions import pinned_inputs

_INPUTS = (InputSpec("x", "float32", ("N", 3, "x_2")), InputSpec("y", "int8", ("N",)))


@pytest.mark.parametrize(
    ("shapes", "sizes", "expected"),
    [
        ({}, {}, [("N", 3, "x_2"), ("N",)]),
        ({"x": (2, 3, 5)}, {}, [(2, 3, 5), (2,)]),  # the input left out has the dimension too
        ({"y": (7,)}, {}, [(7, 3, "x_2"), (7,)]),
        ({"x": ("M", 3, None)}, {}, [("M", 3, "x_2"), ("N",)]),
        ({"x": (-1, "k", -1)}, {}, [("N", "k", "x_2"), ("N",)]),
        ({}, {"N": 0}, [(0, 3, "x_2"), (0,)]),
        ({"y": (7,)}, {"N": 7}, [(7, 3, "x_2"), (7,)]),
        ({"x": ("M", 3, 4)}, {"M": 6, "N": 7}, [(6, 3, 4), (7,)]),  # names as the shapes have them
    ],
)
def test_pinned(shapes: Shapes, sizes: Mapping[str, int], expected: list[tuple[int | str, ...]]) -> None:
    assert [spec.dims for spec in pinned_inputs(_INPUTS, shapes, sizes)] == expected


@pytest.mark.parametrize(
    ("shapes", "sizes", "message"),
    [
        ({"z": (1,)}, {}, "the model has no input 'z'; its inputs are: x, y"),
        ({"x": (1, 3)}, {}, r"input 'x' was given 2 dimensions, but the model declares \[N, 3, x_2\]"),
        ({"x": (1, 4, 1)}, {}, "a fixed size in dimension 1"),
        ({"x": (1, 3, 1), "y": (2,)}, {}, "the dimension 'N' is given the sizes 1 and 2"),
        ({"y": (2,)}, {"N": 4}, r"dims\['N'\]: inputs= pins the dimension 'N' to 2, and dims= to 4: give one of them"),
        ({}, {"K": 1}, "no dimension of this name; its dynamic dimensions: N, x_2"),
    ],
)
def test_contradictions(shapes: Shapes, sizes: Mapping[str, int], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        pinned_inputs(_INPUTS, shapes, sizes)
