"""Tensors of strings at a module's edge.

A module knows numbers only. A tensor of strings is two of its inputs or outputs: ``name[ends]`` (int64, of the tensor's
shape) with the position after the last byte of each string, and ``name[bytes]`` (uint8), the strings in UTF-8 one after
the other. Callers pass and get numpy arrays of ``str`` objects instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rillet.errors import RunError
from rillet.runtime.specs import TensorSpec

_ENDS, _BYTES = "[ends]", "[bytes]"
OBJECT = np.dtype(object)


def grouped(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The specs as callers see them: the two of a tensor of strings as one whose dtype is ``object``."""
    result: list[TensorSpec] = []
    skip = False
    for number, spec in enumerate(specs):
        if skip:
            skip = False
            continue
        name = spec.name.removesuffix(_ENDS)
        skip = name != spec.name and number + 1 < len(specs) and specs[number + 1].name == name + _BYTES
        result.append(TensorSpec(name, OBJECT, spec.shape) if skip else spec)
    return tuple(result)


def split(specs: Sequence[TensorSpec], values: Sequence[Any]) -> tuple[Any, ...]:
    """One value for each of the module's inputs from one for each of ``specs`` (grouped). Raises ``RunError``."""
    parts: list[Any] = []
    for spec, value in zip(specs, values, strict=True):
        parts.extend(_pack(spec, value) if spec.dtype == OBJECT else (value,))
    return tuple(parts)


def join(specs: Sequence[TensorSpec], values: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """One array for each of ``specs`` (grouped) from one for each of the module's outputs."""
    parts = iter(values)
    return tuple(_unpack(next(parts), next(parts)) if spec.dtype == OBJECT else next(parts) for spec in specs)


def renamed(specs: Sequence[TensorSpec], error: RunError) -> RunError:
    """The error with the names of tensors of strings that callers know."""
    text = str(error)
    for spec in specs:
        if spec.dtype == OBJECT:
            text = text.replace(f"'{spec.name}{_ENDS}'", f"'{spec.name}'")
    result = RunError(text)
    result.entry = error.entry
    return result


def _pack(spec: TensorSpec, value: Any) -> tuple[np.ndarray, np.ndarray]:
    array = np.asarray(value)
    if array.dtype.kind not in "UOT" and array.size:
        raise RunError(f"input '{spec.name}': expected strings, got {array.dtype}")
    texts = array.astype(object).reshape(-1).tolist()
    try:
        data = "".join(texts).encode("utf-8")
    except (TypeError, UnicodeEncodeError):
        raise _unusable(spec, texts) from None
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if lengths.sum() != len(data):  # some characters are more than one byte
        lengths = np.fromiter((len(text.encode("utf-8")) for text in texts), np.int64, len(texts))
    ends = np.cumsum(lengths).reshape(array.shape)
    return ends, np.frombuffer(data, np.uint8)


def _unusable(spec: TensorSpec, texts: Sequence[Any]) -> RunError:
    """The error for the first element that is no text, or none that UTF-8 has."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            return RunError(f"input '{spec.name}': element {number} is of type {type(text).__name__}, not a string")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            return RunError(f"input '{spec.name}': element {number} cannot be encoded in UTF-8: {error}")
    raise AssertionError(texts)


def _unpack(ends: np.ndarray, data: np.ndarray) -> np.ndarray:
    raw = data.tobytes()
    result = np.empty(ends.size, dtype=object)
    first = 0
    for number, last in enumerate(ends.reshape(-1).tolist()):
        result[number] = raw[first:last].decode("utf-8")
        first = last
    return result.reshape(ends.shape)
