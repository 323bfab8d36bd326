"""The arrays that a model is run on, by the rules of ``inputs.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

Rule = Mapping[str, Any]
# The types of ONNX Runtime's signatures.
_TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "string": np.object_, "bool": np.bool_}
_IMAGE, _OTHER = 320, 64


def rules() -> list[Rule]:
    """The rules, in order."""
    return tomllib.loads((Path(__file__).parent / "inputs.toml").read_text())["rule"]


def arrays_for(file: str, signature: Sequence[Any], every: Sequence[Rule]) -> dict[str, np.ndarray]:
    """One array for each input of ``signature`` (name, type, shape), the same at each call."""
    generator = np.random.default_rng(0)
    feeds = {}
    for argument in signature:
        fields: dict[str, Any] = {}
        for rule in every:
            if fnmatch(file, rule["files"]) and fnmatch(argument.name, rule["inputs"]):
                fields |= rule
        shape = _shape(argument.shape, fields.get("shape", ()))
        feeds[argument.name] = _array(argument.type, shape, fields, generator)
    return feeds


def _shape(declared: Sequence[int | str | None], sizes: Sequence[int]) -> tuple[int, ...]:
    """The declared shape with sizes, or defaults, in the place of its open dimensions."""
    given = iter(sizes)
    shape = []
    for axis, size in enumerate(declared):
        if isinstance(size, int) and size > 0:
            shape.append(size)
            continue
        default = 1 if axis == 0 else _IMAGE if len(declared) == 4 else _OTHER
        shape.append(next(given, 0) or default)
    return tuple(shape)


def _array(kind: str, shape: tuple[int, ...], fields: Rule, generator: np.random.Generator) -> np.ndarray:
    element = kind.removeprefix("tensor(").removesuffix(")")
    dtype = np.dtype(_TYPES.get(element, element))
    if "values" in fields:
        return np.array(fields["values"], dtype)
    if "value" in fields:
        return np.full(shape, fields["value"], dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "O":
        return np.full(shape, "", dtype)
    return (
        generator.integers(0, fields["integers"], shape).astype(dtype)
        if "integers" in fields
        else np.ones(shape, dtype)
    )
