"""Packing of intervals into one address range: the bytes of each buffer, given when it lives.

Dynamic storage allocation is NP-hard. For typical graphs a greedy placement under the best of several orders meets the
lower bound or comes close (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

import bisect
import heapq
import itertools
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
    """``offsets[i]`` belongs to item ``i``; ``total`` is the size of the range, ``lower_bound`` unbeatable."""

    offsets: tuple[int, ...]
    total: int
    lower_bound: int


@dataclass(frozen=True)
class _Attempt:
    total: int
    offsets: list[int]
    order: list[int]
    downwards: bool


_NEVER = 1 << 62
_MOST_CONFLICTS = 100_000  # pairs; each attempt looks at all of them
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
    above the lower bound. Where very many items live at the same time, they are placed once, in the order of their
    lives.
    """
    bound = lower_bound(items, alignment)
    if not items:
        return Packing((), 0, 0)
    sizes = [_round_up(item.size, alignment) for item in items]
    if _conflict_count(items) > _MOST_CONFLICTS:
        swept = _swept(items, sizes)
        return Packing(tuple(swept), max(o + s for o, s in zip(swept, sizes, strict=True)), bound)
    conflicts = _conflicts(items)

    def attempt(order: list[int], downwards: bool) -> _Attempt:
        offsets = _place(items, sizes, order, conflicts, bound, downwards)
        total = max(o + s for o, s in zip(offsets, sizes, strict=True))
        return _Attempt(total, offsets, order, downwards)

    best: _Attempt | None = None
    for rank, downwards in itertools.product(_ORDERS, (False, True)):
        ranks = [rank(item) for item in items]
        found = attempt(sorted(range(len(items)), key=ranks.__getitem__), downwards)
        if best is None or found.total < best.total:
            best = found
        if best.total <= bound:
            break
    assert best is not None
    generator = random.Random(0)
    # Each attempt is linear in the conflicts, so large graphs get fewer.
    for _ in range(min(attempts, 300_000 // (len(items) + sum(map(len, conflicts))))):
        if best.total <= bound:
            break
        found = attempt(_perturbed(best, sizes, generator), best.downwards)
        if found.total <= best.total:
            best = found
    return Packing(tuple(best.offsets), best.total, bound)


def lower_bound(items: Sequence[Item], alignment: int) -> int:
    """The largest sum of aligned sizes over all items that live in one time step."""
    return _peak(items, alignment)[1]


def live_at_peak(items: Sequence[Item], alignment: int) -> list[int]:
    """The items whose aligned sizes add up to the lower bound: those that live in its time step."""
    step, _ = _peak(items, alignment)
    return [number for number, item in enumerate(items) if item.first <= step <= item.last]


def _peak(items: Sequence[Item], alignment: int) -> tuple[int, int]:
    """The first time step with the largest sum of aligned sizes, and that sum."""
    events: dict[int, int] = {}
    for item in items:
        size = _round_up(item.size, alignment)
        events[item.first] = events.get(item.first, 0) + size
        events[item.last + 1] = events.get(item.last + 1, 0) - size
    live = peak = at = 0
    for step in sorted(events):
        live += events[step]
        if live > peak:
            at, peak = step, live
    return at, peak


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


def _conflict_count(items: Sequence[Item]) -> int:
    """The number of pairs of items that live at the same time."""
    count = 0
    active: list[int] = []
    for item in sorted(items, key=lambda item: item.first):
        while active and active[0] < item.first:
            heapq.heappop(active)
        count += len(active)
        heapq.heappush(active, item.last)
    return count


def _swept(items: Sequence[Item], sizes: Sequence[int]) -> list[int]:
    """The offsets of items that are placed as they come to life, each in the smallest gap that it fits, else at the
    top."""
    offsets = [0] * len(items)
    gaps: list[tuple[int, int]] = []  # (low, high), sorted; the last one may reach the top
    active: list[tuple[int, int]] = []  # (last, item)
    top = 0
    for i in sorted(range(len(items)), key=lambda i: (items[i].first, -sizes[i])):
        while active and active[0][0] < items[i].first:
            _, dead = heapq.heappop(active)
            _free(gaps, offsets[dead], offsets[dead] + sizes[dead])
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= sizes[i]]
        if fitting:
            low, high = min(fitting, key=lambda gap: (gap[1] - gap[0], gap))
            gaps.remove((low, high))
            if low + sizes[i] < high:
                bisect.insort(gaps, (low + sizes[i], high))
        else:
            low = gaps.pop()[0] if gaps and gaps[-1][1] == top else top
            top = low + sizes[i]
        offsets[i] = low
        heapq.heappush(active, (items[i].last, i))
    return offsets


def _free(gaps: list[tuple[int, int]], low: int, high: int) -> None:
    """Add a gap, joined with its neighbours."""
    if low == high:
        return
    at = bisect.bisect(gaps, (low, high))
    if at < len(gaps) and gaps[at][0] == high:
        high = gaps.pop(at)[1]
    if at and gaps[at - 1][1] == low:
        low = gaps.pop(at - 1)[0]
        at -= 1
    gaps.insert(at, (low, high))


def _place(
    items: Sequence[Item],
    sizes: Sequence[int],
    order: Sequence[int],
    conflicts: Sequence[Sequence[int]],
    capacity: int,
    downwards: bool,
) -> list[int]:
    """Give each item of ``order`` the smallest gap that it fits, between its placed conflicts and the ends of
    ``capacity``.

    Within its gap it goes next to the neighbour that dies last (an end never dies), which leaves the free space where
    it soon grows; with ``downwards`` it goes to the lower end. An item that fits no gap goes above all its conflicts.
    """
    offsets = [-1] * len(items)
    for i in order:
        placed = sorted((offsets[j], offsets[j] + sizes[j], items[j].last) for j in conflicts[i] if offsets[j] >= 0)
        size, end, last = sizes[i], 0, _NEVER
        best: tuple[int, int] | None = None  # (gap, offset)
        for low, high, dies in (*placed, (capacity, capacity, _NEVER)):
            gap = low - end
            if gap >= size and (best is None or gap < best[0]):
                best = gap, end if downwards or last >= dies else low - size
            if high > end:
                end, last = high, dies
        offsets[i] = best[1] if best else max((high for _, high, _ in placed), default=0)
    return offsets


def _perturbed(best: _Attempt, sizes: Sequence[int], generator: random.Random) -> list[int]:
    """The best order with an item that reaches the top placed earlier, and a random one too."""
    order = list(best.order)
    top = [i for i in order if best.offsets[i] + sizes[i] == best.total]
    for i in (generator.choice(top), generator.choice(order)):
        position = order.index(i)
        order.insert(generator.randrange(position + 1), order.pop(position))
    return order


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
