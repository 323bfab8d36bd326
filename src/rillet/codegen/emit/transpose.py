"""Square tiles of a transposition in registers, and the interleaving of a few planes."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import vector

_BLOCK_BITS = 128  # within blocks of this size, vector units shuffle in one instruction


def transpose(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """``n`` vectors of ``n`` elements (a power of two) as the ``n`` columns.

    Pairs of registers are unpacked at growing granularity within 128-bit blocks, then blocks are exchanged. The code
    tracks where each element ends up, so that every step is one two-operand shuffle.
    """
    count = len(rows)
    if count == 1:
        return list(rows)
    registers = list(rows)
    places = [[(r, c) for c in range(count)] for r in range(count)]
    element_bits = ir.VectorType(rows[0].type).element_type.width
    per_block = min(count, max(1, _BLOCK_BITS // element_bits))
    distance = 1
    while distance < count:
        if distance < per_block:
            low, high = _unpack_masks(count, distance, per_block)
        else:
            low, high = _exchange_masks(count, distance)
        updated: list[ir.Value | None] = [None] * count
        moved: list[list[tuple[int, int]]] = [[]] * count
        for first in range(count):
            if first & distance:
                continue
            second = first | distance
            both = places[first] + places[second]
            for target, mask in ((first, low), (second, high)):
                updated[target] = vector.shuffle(registers[first], registers[second], mask)
                moved[target] = [both[m] for m in mask]
        registers = [u for u in updated if u is not None]
        places = moved
        distance *= 2
    columns: list[ir.Value | None] = [None] * count
    for register, place in zip(registers, places, strict=True):
        (column,) = {c for _, c in place}
        columns[column] = register
    return [c for c in columns if c is not None]


def interleave(planes: Sequence[ir.Value]) -> list[ir.Value]:
    """``p`` vectors of ``n`` elements as ``p`` vectors that hold, in order, element 0 of each, element 1 of each, and
    so on."""
    count, lanes = len(planes), ir.VectorType(planes[0].type).shape[0]
    results = []
    for part in range(count):
        wanted = [divmod(part * lanes + k, count) for k in range(lanes)]  # (element, plane)
        merged = planes[0]
        for plane in range(1, count):
            mask = [
                lanes + element if source == plane else (element if plane == 1 else k)
                for k, (element, source) in enumerate(wanted)
            ]
            merged = vector.shuffle(merged, planes[plane], mask)
        results.append(merged)
    return results


def deinterleave(first: ir.Value, second: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The even and the odd elements of two vectors that lie behind each other."""
    lanes = ir.VectorType(first.type).shape[0]
    even, odd = (vector.shuffle(first, second, list(range(part, 2 * lanes, 2))) for part in range(2))
    return even, odd


def _unpack_masks(count: int, distance: int, per_block: int) -> tuple[list[int], list[int]]:
    """Interleave groups of ``distance`` elements from the lower (upper) halves of each block of two registers."""
    masks: list[list[int]] = []
    for half in (0, 1):
        mask: list[int] = []
        for block in range(0, count, per_block):
            start = block + half * (per_block // 2)
            for group in range(0, per_block // 2, distance):
                mask += range(start + group, start + group + distance)
                mask += range(count + start + group, count + start + group + distance)
        masks.append(mask)
    return masks[0], masks[1]


def _exchange_masks(count: int, distance: int) -> tuple[list[int], list[int]]:
    """Keep the elements whose position has the bit ``distance`` clear (set), and take the other register's beside
    them."""
    low = [k if not k & distance else count + (k ^ distance) for k in range(count)]
    high = [(k | distance) if not k & distance else count + k for k in range(count)]
    return low, high
