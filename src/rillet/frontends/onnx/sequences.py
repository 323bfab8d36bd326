"""Sequences and optionals during import: their length and presence are known, their elements are tensors.

The value in an optional stands for the optional; ``ABSENT`` stands for an empty one. Tensors of strings are in
``strings/tensor.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.build import packed
from rillet.frontends.onnx.strings.tensor import StringTensor


@dataclass(eq=False)
class TensorSequence:
    """A sequence of tensors of one element type."""

    dtype: str
    items: tuple[Tensor | StringTensor, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The items of a sequence that holds no strings."""
        found = tuple(item for item in self.items if isinstance(item, Tensor))
        assert len(found) == len(self.items)
        return found


@dataclass(eq=False)
class MapSequence:
    """A sequence of maps with the same keys, as ZipMap makes it: a row of ``values`` for each map."""

    keys: Tensor | StringTensor  # [keys]
    values: Tensor  # [maps, keys]


class Absent:
    """An optional that holds nothing."""


ABSENT = Absent()
Structured: TypeAlias = Tensor | StringTensor | TensorSequence | MapSequence | Absent


def flatten(b: Builder, name: str, value: Structured) -> list[tuple[str, Tensor]]:
    """The tensors of a result with their names.

    ``name[0]``, ``name[1]``, … for a sequence, none for an absent optional, ``name[ends]`` and ``name[bytes]`` for
    strings, ``name[keys]`` and ``name[values]`` for a sequence of maps.
    """
    if isinstance(value, Tensor):
        return [(name, value)]
    if isinstance(value, Absent):
        return []
    if isinstance(value, StringTensor):
        ends, data = packed(b, value)
        return [(f"{name}[ends]", ends), (f"{name}[bytes]", data)]
    if isinstance(value, MapSequence):
        return [*flatten(b, f"{name}[keys]", value.keys), (f"{name}[values]", value.values)]
    return [named for i, item in enumerate(value.items) for named in flatten(b, f"{name}[{i}]", item)]


def all_tensors(values: Sequence[object]) -> bool:
    """Whether every value that is there is a plain tensor."""
    return all(v is None or isinstance(v, Tensor) for v in values)
