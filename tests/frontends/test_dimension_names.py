"""Names of dimensions: which of them are placeholders, and what dimensions without one are called."""

from __future__ import annotations

import pytest

from rillet.frontends.dimension_names import is_placeholder, own_name

PLACEHOLDERS = """? -1 * ... 0 None none null dyn Dynamic dyn_3 dynamic_dim_0 unk__12 unknown unk DynamicDimension.7 any
undefined nan unknown_shape_1"""
NAMES = """N batch seq_len s77 batch*2 -1+n dynamics anything unknown_batch dyn_h x_dynamic_axes_1 unk__12_o0__d1 dim_0
größe"""


@pytest.mark.parametrize("name", ["", *PLACEHOLDERS.split()])
def test_placeholders(name: str) -> None:
    assert is_placeholder(name)


@pytest.mark.parametrize("name", ["past + 1", *NAMES.split()])
def test_names(name: str) -> None:
    assert not is_placeholder(name)


def test_a_dimension_without_a_name_is_called_as_no_other() -> None:
    assert own_name("x", 1, ()) == "x_1"
    assert own_name("x", 1, {"x_1", "x_1'", "x_0"}) == "x_1''"
