"""Sequences of maps at a module's edge, which classifiers give for probabilities.

A module knows tensors only. A sequence of maps with the same keys is two of its outputs: ``name[keys]`` and
``name[values]``, which has a row for each map. Callers get a list of dicts instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rillet.runtime.specs import MapsSpec, TensorSpec

_KEYS, _VALUES = "[keys]", "[values]"


def grouped(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The specs as callers see them: the two of a sequence of maps as one."""
    result: list[TensorSpec] = []
    for spec in specs:
        name = spec.name.removesuffix(_VALUES)
        if name != spec.name and result and result[-1].name == name + _KEYS:
            keys = result.pop()
            spec = MapsSpec(name, spec.dtype, spec.shape[:1], keys.type_name)
        result.append(spec)
    return tuple(result)


def join(specs: Sequence[TensorSpec], values: Sequence[Any]) -> tuple[Any, ...]:
    """One value for each of ``specs`` (grouped) from one for each of the specs that they were grouped from."""
    parts = iter(values)
    return tuple(_maps(next(parts), next(parts)) if isinstance(spec, MapsSpec) else next(parts) for spec in specs)


def _maps(keys: Any, values: Any) -> list[dict[Any, float]]:
    names = keys.tolist()
    return [dict(zip(names, row, strict=True)) for row in values.tolist()]
