"""Cuts the commands of several devices into steps: the work of one device between two points where devices wait.

A device takes its commands in program order. A step begins where the device must wait for another one, and ends where
another one waits for it. So each step waits only for the steps that it needs, and for the earlier ones on its device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass
class Step:
    """``commands`` by number; ``awaits``: the steps that must be done first, none of them implied by another."""

    device: int
    commands: list[int]
    awaits: list[int]


def steps(devices: Sequence[int], after: Sequence[Collection[int]], alone: Sequence[bool]) -> list[Step]:
    """The steps of commands in program order, each behind those that it awaits.

    ``devices``: of each command; ``after``: the earlier commands that it needs; ``alone``: whether it is a step of its
    own.
    """
    awaited = {j for i, needed in enumerate(after) for j in needed if devices[j] != devices[i]}
    made: list[Step] = []
    implied: list[set[int]] = []  # by step, all steps that are done before it
    step_of: list[int] = []
    latest: dict[int, int] = {}  # the last step of each device, and whether it takes more commands
    is_open: dict[int, bool] = {}
    for i, device in enumerate(devices):
        others = {step_of[j] for j in after[i] if devices[j] != device}
        current = latest.get(device)
        if current is None or not is_open[device] or alone[i] or not others <= implied[current]:
            needed = others | ({current} if current is not None else set())
            done = needed.union(*(implied[j] for j in needed))
            made.append(Step(device, [], sorted(j for j in needed if not any(j in implied[k] for k in needed))))
            implied.append(done)
            latest[device] = current = len(made) - 1
        made[current].commands.append(i)
        step_of.append(current)
        is_open[device] = not (alone[i] or i in awaited)
    return made


def last(made: Sequence[Step]) -> list[int]:
    """The steps that no other step awaits."""
    awaited = {j for step in made for j in step.awaits}
    return [number for number in range(len(made)) if number not in awaited]
