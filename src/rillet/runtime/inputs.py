"""Turns a caller's values into arrays that the runtime takes, or into a message that says what to do."""

from __future__ import annotations

import numbers
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rillet.errors import RunError
from rillet.runtime.specs import TensorSpec

# Python values have no element type of their own; they take the input's type when that loses no kind of value.
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_EXTENSION, _OTHER = 2, 4  # types of ml_dtypes, which are floats or small integers; text, dates, objects


def arrange(specs: Sequence[TensorSpec], arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """One value for each of ``specs``, in order, from positional and named ones; None for a default.

    Raises ``RunError``.
    """
    names = [spec.name for spec in specs]
    defaults = {spec.name: None for spec in specs if spec.has_default}
    if len(arrays) > len(specs):
        raise RunError(f"the model takes {_count(len(specs))} ({', '.join(names)}), got {len(arrays)}")
    if unknown := [name for name in named if name not in names]:
        raise RunError(f"the model has no input {_quote(unknown)}; its inputs are: {', '.join(names) or '(none)'}")
    if twice := [name for name in names[: len(arrays)] if name in named]:
        raise RunError(f"input {_quote(twice)} was given both by position and by name")
    given = {**defaults, **named}
    if missing := [name for name in names[len(arrays) :] if name not in given]:
        raise RunError(f"input {_quote(missing)} is missing; the model's inputs are: {', '.join(names)}")
    return (*arrays, *(given[name] for name in names[len(arrays) :]))


def picker(specs: Sequence[TensorSpec]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A function that takes the values of ``specs``, in order, out of a mapping by name. It raises ``KeyError`` where
    one is missing, and does not see what else there is."""
    if not specs:
        return lambda _: ()
    first, *others = [spec.name for spec in specs]
    return operator.itemgetter(first, *others) if others else lambda named: (named[first],)


def prepare(spec: TensorSpec, value: Any) -> np.ndarray | None:
    """An aligned, contiguous, native array of ``spec.carrier`` with the content of ``value``; no copy if it is one.
    None stands for a default.

    The element type must be that of ``spec`` (another byte order is converted). Shapes are the runtime's to check.
    Raises ``RunError``.
    """
    if value is None and spec.has_default:
        return None
    array = _asarray(spec, value) if _is_typed(value) else _from_python(spec, value)
    if array.dtype != spec.dtype:
        if array.dtype.newbyteorder("=") != spec.dtype:
            raise RunError(
                f"input '{spec.name}': expected {spec.dtype}, got {array.dtype}; "
                f"convert it first, for example with .astype('{spec.dtype}')"
            )
        array = array.astype(spec.dtype)
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True)
    return array if array.dtype is spec.carrier else array.view(spec.carrier)


def _from_python(spec: TensorSpec, value: Any) -> np.ndarray:
    array = _asarray(spec, value)
    if _kind(array.dtype) > _kind(spec.dtype):
        raise RunError(f"input '{spec.name}': expected an array of {spec.dtype}, but {_described(value, array)}")
    try:
        with np.errstate(over="raise"):  # a float too large is no infinity
            return np.asarray(value, dtype=spec.dtype)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise RunError(f"input '{spec.name}': the value given does not fit {spec.dtype}: {error}") from None


def _kind(dtype: np.dtype) -> int:
    return _EXTENSION if dtype.isbuiltin == 2 else _KINDS.get(dtype.kind, _OTHER)


def _described(value: Any, array: np.ndarray) -> str:
    """The value in a message, where an array was expected; numpy makes ``array`` from it."""
    if array.ndim == 0:
        return "None was given" if value is None else f"the {type(value).__name__} {reprlib.repr(value)} was given"
    contents = {"O": "Python objects", "U": "text", "S": "bytes"}.get(array.dtype.kind, f"{array.dtype} values")
    if array.dtype == object and all(isinstance(item, numbers.Number) for item in array.flat):
        contents = "integers that no type holds"
    return f"a {type(value).__name__} of {contents} was given"


def _is_typed(value: Any) -> bool:
    """Whether the value has an element type of its own."""
    protocols = ("__array__", "__array_interface__", "__dlpack__")
    return isinstance(value, memoryview) or any(hasattr(value, name) for name in protocols)


def _asarray(spec: TensorSpec, value: Any) -> np.ndarray:
    if np.ma.is_masked(value):
        raise RunError(f"input '{spec.name}': elements are masked; give them a value, for example with .filled(0)")
    only_dlpack = not hasattr(value, "__array__") and hasattr(value, "__dlpack__")
    try:
        return np.from_dlpack(value) if only_dlpack else np.asarray(value)
    except Exception as error:  # anything that the value's own code raises
        reason = "its parts differ in length" if "inhomogeneous" in str(error) else error
        raise RunError(f"input '{spec.name}': cannot make an array of {type(value).__name__}: {reason}") from error


def _count(count: int) -> str:
    return "1 input" if count == 1 else f"{count} inputs"


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
