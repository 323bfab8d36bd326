"""Inputs to run, measure and verify models on: the given ones, else random ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from rillet.errors import RunError, advice
from rillet.runtime.specs import TensorSpec


def sample_inputs(
    specs: Sequence[TensorSpec],
    given: Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """One array for each input: the one in ``given``, else a random one from ``seed``. Inputs with a default that are
    not given are left out.

    A dynamic dimension of a random array has its size in ``sizes`` by name. Without one, it has the size in a given
    array whose input has a dimension of this name, or else 1. Raises ``RunError`` for a name in ``given`` or ``sizes``
    that the model does not have, and for sizes that differ from a given array's.
    """
    given = given or {}
    names = [spec.name for spec in specs]
    if unknown := sorted(set(given) - set(names)):
        raise RunError(f"the model has no input {', '.join(unknown)}; its inputs: {', '.join(names) or 'none'}")
    known = {**named_sizes(specs, given), **_checked(specs, given, sizes or {})}
    generator = np.random.default_rng(seed)
    return {
        spec.name: given[spec.name] if spec.name in given else random_input(sized(spec, known), generator)
        for spec in specs
        if spec.name in given or not spec.has_default
    }


def named_sizes(specs: Sequence[TensorSpec], given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes that given arrays have in named dimensions of their inputs."""
    return {
        dim: size
        for spec in specs
        if spec.name in given
        for dim, size in zip(spec.shape, np.shape(given[spec.name]), strict=False)
        if isinstance(dim, str)
    }


def sized(spec: TensorSpec, sizes: Mapping[str, int]) -> TensorSpec:
    """The spec with the dimensions that ``sizes`` names replaced by their size."""
    shape = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape)
    return dataclasses.replace(spec, shape=shape)


def random_input(spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    """A random array that fits ``spec``: standard normal for floats, short words for strings, 0 or 1 otherwise."""
    shape = static_shape(spec)
    try:
        return _random(shape, np.dtype(spec.dtype), generator)
    except (MemoryError, ValueError) as error:  # numpy's ValueError: more elements than it can count
        size = math.prod(shape) * np.dtype(spec.dtype).itemsize
        raise RunError(
            f"input '{spec.name}' {list(shape)} takes {size:,} bytes, more than can be allocated; give a smaller shape"
        ) from error


def static_shape(spec: TensorSpec) -> tuple[int, ...]:
    """A tensor's shape with dynamic dimensions as 1."""
    return tuple(d if isinstance(d, int) and d >= 0 else 1 for d in spec.shape)


def _checked(
    specs: Sequence[TensorSpec], given: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> Mapping[str, int]:
    known = dict.fromkeys(dim for spec in specs for dim in spec.shape if isinstance(dim, str))
    for name, size in sizes.items():
        what = advice(f"sizes[{name!r}]", f"--size {name}={size}")
        if name not in known:
            there = f"its dynamic dimensions: {', '.join(known)}" if known else "its inputs have no dynamic dimensions"
            raise RunError(f"{what}: the model has no such dimension; {there}")
        for spec in specs:
            found = named_sizes([spec], given).get(name, size)
            if found != size:
                raise RunError(f"{what}: the array given for input '{spec.name}' has the size {found} there")
    return sizes


def _random(shape: tuple[int, ...], dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    if dtype.kind == "f":
        return np.asarray(generator.standard_normal(shape), dtype=dtype)
    if dtype.kind == "O":
        letters = generator.integers(ord("a"), ord("z") + 1, (*shape, 4), dtype=np.uint32)
        return letters.view("<U4").reshape(shape).astype(object)
    return np.asarray(generator.integers(0, 2, shape), dtype=dtype)
