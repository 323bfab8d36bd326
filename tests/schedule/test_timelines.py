from __future__ import annotations

from rillet.schedule.timelines import Step, last, steps


def cut(devices: str, *after: set[int], alone: frozenset[int] = frozenset()) -> list[Step]:
    return steps([int(d) for d in devices], after, [i in alone for i in range(len(devices))])


def test_independent_branches_are_a_step_each() -> None:
    made = cut("010101", set(), set(), {0}, {1}, {2}, {3})
    assert made == [Step(0, [0, 2, 4], []), Step(1, [1, 3, 5], [])]
    assert last(made) == [0, 1]


def test_a_step_ends_where_another_device_waits_for_it() -> None:
    """Device 1 starts when command 0 is done, not when all of device 0 is."""
    made = cut("0001", set(), {0}, {1}, {0})
    assert made == [Step(0, [0], []), Step(0, [1, 2], [0]), Step(1, [3], [0])]
    assert last(made) == [1, 2]


def test_a_step_begins_where_its_device_waits() -> None:
    made = cut("0100", set(), set(), {0}, {1, 2})
    assert made == [Step(0, [0, 2], []), Step(1, [1], []), Step(0, [3], [0, 1])]
    assert last(made) == [2]


def test_a_wait_that_another_implies_is_left_out() -> None:
    """Command 2 waits for 1, which waited for 0, and command 3 needs no wait of its own."""
    made = cut("0100", set(), {0}, {0, 1}, {1})
    assert made == [Step(0, [0], []), Step(1, [1], [0]), Step(0, [2, 3], [1])]


def test_a_command_may_be_a_step_of_its_own() -> None:
    made = cut("000", set(), {0}, {1}, alone=frozenset({1}))
    assert made == [Step(0, [0], []), Step(0, [1], [0]), Step(0, [2], [1])]
