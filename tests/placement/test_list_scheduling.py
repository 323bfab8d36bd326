from __future__ import annotations

import itertools
import math
import random

from rillet.placement.list_scheduling import Task, makespan, place

NEVER = math.inf


def free(source: int, target: int, size: int) -> float:
    return 0.0


def test_independent_tasks_are_shared() -> None:
    assert sorted(place([Task((10, 10)), Task((10, 10))], free)) == [0, 1]


def test_a_chain_stays_where_it_is_fastest() -> None:
    chain = [Task((4, 5)), Task((4, 5), ((0, 8),)), Task((4, 5), ((1, 8),))]
    assert place(chain, lambda a, b, size: 0 if a == b else 3) == [0, 0, 0]


def test_a_crossing_is_made_when_it_pays() -> None:
    chain = [Task((4, 40)), Task((40, 4), ((0, 8),))]
    assert place(chain, lambda a, b, size: 0 if a == b else 30) == [0, 1]
    assert place(chain, lambda a, b, size: 0 if a == b else 40) == [0, 0]


def test_bytes_that_cross_count() -> None:
    tasks = [Task((4, 40)), Task((40, 4), ((0, 100),))]
    assert place(tasks, lambda a, b, size: 0 if a == b else size) == [0, 0]


def test_what_comes_from_outside_is_waited_for() -> None:
    assert place([Task((5, 4), (), (0, 10))], free) == [0]


def test_a_task_that_one_device_cannot_run_stays_off_it() -> None:
    assert place([Task((NEVER, 50)), Task((1, NEVER), ((0, 8),))], free) == [1, 0]


def test_gaps_are_used() -> None:
    """The third task fits in front of the second on device 0, which waits for a long crossing."""
    tasks = [Task((NEVER, 1)), Task((10, NEVER), ((0, 8),)), Task((5, 100))]
    assert place(tasks, lambda a, b, size: 0 if a == b else 20) == [1, 0, 0]


def test_nothing_to_place() -> None:
    assert place([], free) == []


def random_tasks(choose: random.Random) -> list[Task]:
    tasks = []
    for i in range(choose.randrange(2, 9)):
        inputs = tuple((j, 8) for j in range(i) if choose.random() < 0.35)
        tasks.append(Task((choose.uniform(1, 10), choose.uniform(1, 10)), inputs))
    return tasks


def test_random_graphs_come_close_to_the_best_placement() -> None:
    """On 200 graphs: never worse than a device alone, on average within a tenth of the best of all placements."""
    choose = random.Random(0)
    ratios = []
    for _ in range(200):
        tasks, wait = random_tasks(choose), choose.choice([0.0, 2.0, 10.0])
        crossing = lambda a, b, size, wait=wait: 0.0 if a == b else wait  # noqa: E731
        every = {p: makespan(tasks, p, crossing) for p in itertools.product((0, 1), repeat=len(tasks))}
        found = every[tuple(place(tasks, crossing))]
        assert found <= min(every[(d,) * len(tasks)] for d in (0, 1))
        ratios.append(found / min(every.values()))
    assert sum(ratios) / len(ratios) < 1.1
    assert max(ratios) < 2.1
