"""Upper and lower case of Unicode text, code point by code point, through tables.

The mappings are Unicode's full ones (ß becomes SS), of the version that this Python knows, without those that depend on
a language or on the neighbours (a final Σ becomes σ, not ς).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant, minimum, select, shift_right
from rillet.frontends.onnx.strings.build import build
from rillet.frontends.onnx.strings.ranges import Reader
from rillet.frontends.onnx.strings.tensor import StringTensor

_BLOCK_BITS = 7
_LAST_CASED = 0x1FFFF  # upper and lower case lie in the first two planes


@dataclass(frozen=True)
class _Tables:
    """``numbers[blocks[c >> 7] * 128 + (c & 127)]`` is n > 0 where ``texts[starts[n]:starts[n + 1]]`` replaces c."""

    blocks: np.ndarray
    numbers: np.ndarray
    starts: np.ndarray
    texts: np.ndarray


@cache
def _tables(upper: bool) -> _Tables:
    change = str.upper if upper else str.lower
    mapped = {c: change(chr(c)) for c in range(_LAST_CASED + 1) if change(chr(c)) != chr(c)}
    size = 1 << _BLOCK_BITS
    count = max(mapped) // size + 2  # the last block stands for all that follow: nothing is mapped there
    numbers = np.zeros((count, size), np.int32)
    for number, code_point in enumerate(mapped, 1):
        numbers[code_point // size, code_point % size] = number
    distinct, blocks = np.unique(numbers, axis=0, return_inverse=True)
    texts = [text.encode("utf-8") for text in mapped.values()]
    starts = np.cumsum([0, 0, *map(len, texts)], dtype=np.int32)
    return _Tables(
        blocks.reshape(-1).astype(np.int32), distinct.reshape(-1), starts, np.frombuffer(b"".join(texts), np.uint8)
    )


def change_case(b: Builder, x: StringTensor, upper: bool) -> StringTensor:
    """The strings in upper or lower case."""
    tables = _tables(upper)
    source = Reader(b, x)
    name = "upper" if upper else "lower"
    blocks, numbers, starts, texts = (
        b.value(b.constant(array, name=name)) for array in (tables.blocks, tables.numbers, tables.starts, tables.texts)
    )
    last_block = len(tables.blocks) - 1

    def replacement(code_point: Scalar) -> tuple[Scalar, Scalar]:
        """Where the replacement's bytes begin in the texts, and their number: 0 for none."""
        at = minimum(shift_right(code_point, _BLOCK_BITS), last_block)
        block = b.element(blocks, "int32", [convert(at, "index")])
        place = block * (1 << _BLOCK_BITS) + (code_point & ((1 << _BLOCK_BITS) - 1))
        number = convert(b.element(numbers, "int32", [convert(place, "index")]), "index")
        first, after = (convert(b.element(starts, "int32", [at]), "index") for at in (number, number + 1))
        return first, after - first

    def length(position: Scalar) -> Scalar:
        text = source.range(position)

        def one(at: Scalar, total: ir.Value, free: ir.Value) -> list[ir.Value]:
            active = at >= Scalar(free, "index")
            code_point, size = source.character(at, text.last)
            _, changed = replacement(code_point)
            added = select(active, select(changed == 0, size, changed), 0)
            return [(Scalar(total, "index") + added).value, select(active, at + size, Scalar(free, "index")).value]

        zero = constant(0, "index").value
        return Scalar(for_range(text.first, text.last, [zero, zero], one)[0], "index")

    def write(position: Scalar, start: Scalar, data: ir.Value) -> ir.Value:
        text = source.range(position)

        def one(at: Scalar, data: ir.Value, place: ir.Value, free: ir.Value) -> list[ir.Value]:
            active = at >= Scalar(free, "index")
            code_point, size = source.character(at, text.last)
            first, changed = replacement(code_point)
            keeps = changed == 0
            added = select(active, select(keeps, size, changed), 0)
            target = Scalar(place, "index")

            def copy(offset: Scalar, data: ir.Value) -> ir.Value:
                kept = source.byte(select(keeps, at + offset, at))
                new = b.element(texts, "uint8", [select(keeps, constant(0, "index"), first + offset)])
                return store(select(keeps, kept, convert(new, "int32")), "uint8", data, [target + offset])

            data = for_range(0, added, [data], copy)[0]
            return [data, (target + added).value, select(active, at + size, Scalar(free, "index")).value]

        return for_range(text.first, text.last, [data, start.value, constant(0, "index").value], one)[0]

    return build(b, x.shape, length, write)
