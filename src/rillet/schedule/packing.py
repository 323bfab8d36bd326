"""Packing of intervals into one address range: which bytes each buffer gets, knowing when it lives.

Dynamic storage allocation is NP-hard; for the graphs at hand a greedy placement under the best of several orders meets
the lower bound or comes close (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A buffer of ``size`` bytes that lives in every time step from ``first`` to ``last``, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Packing:
    """``offsets[i]`` belongs to item ``i``; ``total`` is the size of the range; ``lower_bound`` what no packing can beat."""

    offsets: tuple[int, ...]
    total: int
    lower_bound: int


_ORDERS: tuple[Callable[[Item], tuple[int, ...]], ...] = (
    lambda item: (-item.size, item.first),
    lambda item: (-item.size * (item.last - item.first + 1), item.first),
    lambda item: (-(item.last - item.first), -item.size),
    lambda item: (item.first, -item.size),
    lambda item: (-item.last, -item.size),
)


def pack(items: Sequence[Item], alignment: int, attempts: int = 200) -> Packing:
    """Place ``items`` at multiples of ``alignment``, items that live at the same time apart.

    Tries fixed greedy orders first, then up to ``attempts`` seeded perturbations of the best one while the total is
    above the lower bound.
    """
    bound = lower_bound(items, alignment)
    if not items:
        return Packing((), 0, 0)
    conflicts = _conflicts(items)
    orders = [sorted(range(len(items)), key=lambda i, rank=rank: rank(items[i])) for rank in _ORDERS]
    best: tuple[int, list[int], list[int]] | None = None
    for order in orders:
        total, offsets = _place(items, order, conflicts, alignment)
        if best is None or total < best[0]:
            best = total, offsets, order
    assert best is not None
    generator = random.Random(0)
    # Each attempt is linear in the conflicts, so large graphs get fewer.
    for _ in range(min(attempts, 2_000_000 // (1 + sum(map(len, conflicts))))):
        if best[0] <= bound:
            break
        order = _raise_culprits(items, best, generator, alignment)
        total, offsets = _place(items, order, conflicts, alignment)
        if total <= best[0]:
            best = total, offsets, order
    return Packing(tuple(best[1]), best[0], bound)


def lower_bound(items: Sequence[Item], alignment: int) -> int:
    """The largest sum of aligned sizes over all items that live in one time step."""
    events: dict[int, int] = {}
    for item in items:
        size = _round_up(item.size, alignment)
        events[item.first] = events.get(item.first, 0) + size
        events[item.last + 1] = events.get(item.last + 1, 0) - size
    live = peak = 0
    for step in sorted(events):
        live += events[step]
        peak = max(peak, live)
    return peak


def _conflicts(items: Sequence[Item]) -> list[list[int]]:
    """For each item, the items that live at the same time."""
    conflicts: list[list[int]] = [[] for _ in items]
    active: list[int] = []
    for i in sorted(range(len(items)), key=lambda i: items[i].first):
        active = [j for j in active if items[j].last >= items[i].first]
        for j in active:
            conflicts[i].append(j)
            conflicts[j].append(i)
        active.append(i)
    return conflicts


def _place(
    items: Sequence[Item], order: Sequence[int], conflicts: Sequence[Sequence[int]], alignment: int
) -> tuple[int, list[int]]:
    """Give each item of ``order`` the smallest gap it fits between its placed conflicts, or the space above them."""
    offsets = [-1] * len(items)
    total = 0
    for i in order:
        size = _round_up(items[i].size, alignment)
        placed = sorted(
            (offsets[j], offsets[j] + _round_up(items[j].size, alignment)) for j in conflicts[i] if offsets[j] >= 0
        )
        end, best_gap, best_offset = 0, None, -1
        for low, high in placed:
            gap = low - end
            if gap >= size and (best_gap is None or gap < best_gap):
                best_gap, best_offset = gap, end
            end = max(end, high)
        offsets[i] = best_offset if best_gap is not None else end
        total = max(total, offsets[i] + size)
    return total, offsets


def _raise_culprits(
    items: Sequence[Item], best: tuple[int, list[int], list[int]], generator: random.Random, alignment: int
) -> list[int]:
    """The best order with an item that reaches the top placed earlier, and now and then a random one too."""
    total, offsets, order = best
    order = list(order)
    top = [i for i in order if offsets[i] + _round_up(items[i].size, alignment) == total]
    for i in (generator.choice(top), generator.choice(order)):
        position = order.index(i)
        order.insert(generator.randrange(position + 1), order.pop(position))
    return order


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
