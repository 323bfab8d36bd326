"""List scheduling by earliest finish time on unlike devices.

H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous
Computing", IEEE TPDS 13(3), 2002 (HEFT): tasks are taken in the order of their rank, which is the longest path from a
task to the end at mean costs. Each goes where it finishes first, gaps between tasks included.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Crossing = Callable[[int, int, int], float]  # (from device, to device, bytes) → time, 0 on one device


@dataclass(frozen=True)
class Task:
    """``costs``: time on each device, infinite where it cannot run. ``inputs``: (task, bytes); these tasks come earlier
    in the list. ``ready``: for each device, the time when the inputs from outside are there."""

    costs: tuple[float, ...]
    inputs: tuple[tuple[int, int], ...] = ()
    ready: tuple[float, ...] = ()


def place(tasks: Sequence[Task], crossing: Crossing) -> list[int]:
    """The device of each task, such that the last task ends early when devices take theirs in the order of the list.

    That order keeps memory low, so it is not changed. The candidates are HEFT's devices, and each device alone; the
    best is taken.
    """
    if not tasks or len(tasks[0].costs) == 1:
        return [0] * len(tasks)
    alone = ([_only_on(task, device) for task in tasks] for device in range(len(tasks[0].costs)))
    candidates = [_list_schedule(those, crossing) for those in (*alone, tasks)]
    return min(candidates, key=lambda placed: makespan(tasks, placed, crossing))


def makespan(tasks: Sequence[Task], placed: Sequence[int], crossing: Crossing) -> float:
    """When the last task ends if each device takes its tasks in the order of the list."""
    finish: list[float] = []
    idle = [0.0] * len(tasks[0].costs)
    for task, device in zip(tasks, placed, strict=True):
        start = max(idle[device], _arrival(task, device, placed, finish, crossing))
        idle[device] = start + task.costs[device]
        finish.append(idle[device])
    return max(finish)


def _arrival(task: Task, device: int, placed: Sequence[int], finish: Sequence[float], crossing: Crossing) -> float:
    """The time when all inputs of a task are on a device."""
    outside = task.ready[device] if task.ready else 0.0
    return max([outside, *(finish[j] + crossing(placed[j], device, size) for j, size in task.inputs)])


def _only_on(task: Task, device: int) -> Task:
    """The task restricted to ``device``, if it can run there."""
    if task.costs[device] == float("inf"):
        return task
    costs = tuple(cost if d == device else float("inf") for d, cost in enumerate(task.costs))
    return Task(costs, task.inputs, task.ready)


def _list_schedule(tasks: Sequence[Task], crossing: Crossing) -> list[int]:
    """The device of each task, by HEFT."""
    ranks = _ranks(tasks, crossing)
    placed, finish = [0] * len(tasks), [0.0] * len(tasks)
    busy: list[list[tuple[float, float]]] = [[] for _ in tasks[0].costs]
    # A task ranks above those that need it; equal ranks keep the program's order.
    for i in sorted(range(len(tasks)), key=lambda i: (-ranks[i], i)):
        best: tuple[float, float, int] | None = None
        for device, cost in enumerate(tasks[i].costs):
            if cost == float("inf"):
                continue
            start = _gap(busy[device], _arrival(tasks[i], device, placed, finish, crossing), cost)
            if best is None or start + cost < best[0]:
                best = start + cost, start, device
        assert best is not None  # a task that no device runs is refused before
        finish[i], start, placed[i] = best
        bisect.insort(busy[placed[i]], (start, finish[i]))
    return placed


def _ranks(tasks: Sequence[Task], crossing: Crossing) -> list[float]:
    """For each task, the longest path to the end: mean costs of tasks and of crossings between two devices."""
    count = len(tasks[0].costs)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    ranks = [_mean([c for c in task.costs if c != float("inf")]) for task in tasks]
    behind = [0.0] * len(tasks)
    for i in range(len(tasks) - 1, -1, -1):
        ranks[i] += behind[i]
        for j, size in tasks[i].inputs:
            behind[j] = max(behind[j], _mean([crossing(a, b, size) for a, b in pairs]) + ranks[i])
    return ranks


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _gap(busy: Sequence[tuple[float, float]], ready: float, length: float) -> float:
    """The first time from ``ready`` on at which a device is idle for ``length``."""
    start = ready
    for begin, end in busy:
        if start + length <= begin:
            break
        start = max(start, end)
    return start
