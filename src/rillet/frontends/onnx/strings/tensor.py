"""Tensors of strings during import: entries of a table of byte ranges.

Ops that move, choose or repeat strings work on ``ids`` alone; no byte is touched. Substrings are new ranges in the same
bytes. Bytes are written only for new strings (``build.py``) and at the model's edge, where the strings are *packed*:
one after the other, with the position after the last byte of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rillet.errors import CompileError
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.scalars import Scalar, constant, maximum, select
from rillet.frontends.building.tensor import Tensor
from rillet.ir.builders import Extent

STRING = "string"
_MAX_KNOWN_IDS = 4096  # ids that are counted out at compile time, so that moving them folds


@dataclass(eq=False)
class StringTensor:
    """Strings in UTF-8. Element ``i`` is ``data[spans[ids[i], 0] : spans[ids[i], 1]]``."""

    ids: Tensor  # int64, of the tensor's shape
    spans: Tensor  # int64 [entries, 2]
    data: Tensor  # uint8 [bytes]
    ends: Tensor | None = None  # int64, of the tensor's shape, where data holds the elements one after the other

    dtype = STRING

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents, which are those of ``ids``."""
        return self.ids.shape

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.ids.rank

    def with_ids(self, ids: Tensor) -> StringTensor:
        """A tensor of other elements of the same table."""
        return self if ids is self.ids else StringTensor(ids, self.spans, self.data)


def counted(b: Builder, shape: Sequence[Extent]) -> Tensor:
    """0, 1, 2, … in row-major order, as int64."""
    count = b.extents.product(shape)
    if isinstance(count, int) and count <= _MAX_KNOWN_IDS:
        return b.constant(np.arange(count, dtype=np.int64).reshape([d for d in shape if isinstance(d, int)]))
    return b.reshape(b.indexed("int64", [count], lambda at: convert(at[0], "int64")), shape)


def from_packed(b: Builder, ends: Tensor, data: Tensor) -> StringTensor:
    """Strings that lie one after the other in ``data``; ``ends`` has the position after the last byte of each."""
    count = b.extents.product(ends.shape)
    source = b.value(b.reshape(ends, [count]))

    def body(at: list[Scalar]) -> Scalar:
        place = at[0] + at[1] - 1
        return select(place < 0, constant(0, "int64"), b.element(source, "int64", [maximum(place, 0)]))

    spans = b.indexed("int64", [count, 2], body)
    return StringTensor(counted(b, ends.shape), spans, data, ends)


def from_array(b: Builder, array: np.ndarray, name: str = "strings") -> StringTensor:
    """Strings known at compile time: an array of objects or of numpy's text type. Equal ones share an entry."""
    texts = [_encoded(text, name) for text in array.reshape(-1)]
    entries = list(dict.fromkeys(texts))
    number = {text: i for i, text in enumerate(entries)}
    stops = np.cumsum([len(text) for text in entries], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops])[: len(entries)]
    return StringTensor(
        b.constant(np.array([number[t] for t in texts], np.int64).reshape(array.shape)),
        b.constant(np.stack([starts, stops], axis=1), name=f"{name}_spans"),
        b.constant(np.frombuffer(b"".join(entries), np.uint8), name=f"{name}_bytes"),
    )


def _encoded(text: object, name: str) -> bytes:
    try:
        return text if isinstance(text, bytes) else str(text).encode("utf-8")
    except UnicodeEncodeError as error:
        raise CompileError(f"'{name}' holds a string that UTF-8 cannot encode: {text!r}") from error


def merged(b: Builder, tensors: Sequence[StringTensor]) -> list[StringTensor]:
    """The same tensors with one table for all."""
    first = tensors[0]
    if all(t.spans is first.spans for t in tensors):
        return list(tensors)
    bases: list[Extent] = []
    spans: list[Tensor] = []
    entries: Extent = 0
    size: Extent = 0
    for tensor in tensors:
        bases.append(entries)
        spans.append(_shifted(b, tensor.spans, size))
        entries = b.extents.add(entries, tensor.spans.shape[0])
        size = b.extents.add(size, tensor.data.shape[0])
    table, data = b.concat(spans, 0), b.concat([t.data for t in tensors], 0)
    return [StringTensor(_shifted(b, t.ids, base), table, data) for t, base in zip(tensors, bases, strict=True)]


def _shifted(b: Builder, tensor: Tensor, amount: Extent) -> Tensor:
    if isinstance(amount, int):
        if tensor.array is not None:
            return b.constant(tensor.array + amount)
        return tensor if amount == 0 else b.map(lambda v: v + amount, tensor)
    offset = convert(Scalar(amount, "index"), "int64")
    return b.map(lambda v: v + offset, tensor)
