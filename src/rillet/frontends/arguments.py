"""The shapes and values that a caller gives for a model's inputs, checked before anything relies on them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from rillet.errors import CompileError, advice
from rillet.frontends.dimension_names import is_placeholder
from rillet.frontends.tensor_size import check_size

_EXAMPLE = "{'x': (1, 3, 'h', 'w')}"
_LEAST_BYTES = 1  # of an element, before the model says which type it has


def checked_shapes(inputs: Any) -> dict[str, tuple[int | str | None, ...]]:
    """``inputs`` as a dict of tuples: sizes, names of dynamic dimensions, and -1 or None for ones without a name (also
    where a placeholder like ``?`` is given).

    Raises CompileError for anything else, and for a shape that no tensor can have.
    """
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise CompileError(f"inputs= takes shapes by input name, like {_EXAMPLE}, not {type(inputs).__name__}")
    return {_name(n, "inputs"): _shape(n, shape) for n, shape in inputs.items()}


def checked_sizes(dims: Any) -> dict[str, int]:
    """``dims`` as a dict of sizes by name of a dimension.

    Raises CompileError for anything else, and for a size that no tensor can have.
    """
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise CompileError(f"dims= takes sizes by name of a dimension, like {{'N': 8}}, not {type(dims).__name__}")
    sizes = {}
    for name, size in dims.items():
        try:
            sizes[name] = -1 if isinstance(size, bool) else operator.index(size)
        except TypeError:
            sizes[name] = -1
        if not isinstance(name, str) or sizes[name] < 0:
            raise CompileError(f"dims[{name!r}] is {size!r}; it takes the name of a dimension and a size from 0 on")
        check_size([sizes[name]], _LEAST_BYTES, advice(f"dims[{name!r}]", f"--dim {name}={sizes[name]}"))
    return sizes


def checked_values(values: Any) -> dict[str, np.ndarray]:
    """``values`` as a dict of arrays. Raises CompileError for anything else."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise CompileError(f"values= takes arrays by input name, not {type(values).__name__}")
    return {_name(n, "values"): _array(n, value) for n, value in values.items()}


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype == object:
        raise CompileError(f"values['{name}'] is no array of numbers")
    return array


def _name(name: object, argument: str) -> str:
    if not isinstance(name, str):
        raise CompileError(f"{argument}= takes names of inputs as keys, not {name!r}")
    return name


def _shape(name: str, shape: Any) -> tuple[int | str | None, ...]:
    where = f"inputs['{name}']"
    try:
        if isinstance(shape, str | bytes):
            raise TypeError
        dims = tuple(shape)
    except TypeError:
        raise CompileError(f"{where} must be a sequence of dimensions, like {_EXAMPLE}, not {shape!r}") from None
    checked = tuple(_dimension(d, where) for d in dims)
    known = [None if d == -1 else d for d in checked]
    check_size(known, _LEAST_BYTES, advice(where, f"--shape {name}"))
    return checked


def _dimension(dim: Any, where: str) -> int | str | None:
    if dim is None:
        return None
    if isinstance(dim, str):
        if dim and not dim[0].isdigit() and dim.isprintable():
            return None if is_placeholder(dim) else dim
    elif not isinstance(dim, bool | np.bool_):
        try:
            size = operator.index(dim)
        except TypeError:
            size = -2
        if size >= -1:
            return size
    raise CompileError(
        f"{where} has the dimension {dim!r}; one is a size, a name, or -1 for one known at run time only"
    )
